"""Exponential families: an instance is its natural parameter."""

from cavity.families.base import ExpFamily, dot, family
from cavity.families.categorical import Bernoulli, Categorical
from cavity.families.diagonal import DiagonalGaussian
from cavity.families.dirichlet import Beta, Dirichlet
from cavity.families.gamma import Gamma
from cavity.families.gaussian import Gaussian
from cavity.families.normal_gamma import NormalGamma
from cavity.families.normal_wishart import NormalWishart
from cavity.families.product import Product, as_family
from cavity.families.wishart import Wishart

__all__ = [
    "Bernoulli",
    "Beta",
    "Categorical",
    "DiagonalGaussian",
    "Dirichlet",
    "ExpFamily",
    "Gamma",
    "Gaussian",
    "NormalGamma",
    "NormalWishart",
    "Product",
    "Wishart",
    "as_family",
    "dot",
    "family",
]
