"""Exponential families: an instance is its natural parameter.

Gaussians, the families of mixtures of Gaussians, and products of these compute on the host. The modules of the others
import JAX. All but Gaussians are loaded when first used.
"""

from typing import TYPE_CHECKING

from cavity._lazy import lazily
from cavity.families.base import ExpFamily, dot, family
from cavity.families.diagonal import DiagonalGaussian
from cavity.families.gaussian import Gaussian
from cavity.families.product import Product, as_family

if TYPE_CHECKING:
    from cavity.families.categorical import Bernoulli, Categorical
    from cavity.families.dirichlet import Beta, Dirichlet
    from cavity.families.gamma import Gamma
    from cavity.families.normal_gamma import NormalGamma
    from cavity.families.normal_wishart import NormalWishart
    from cavity.families.wishart import Wishart

__getattr__, __dir__ = lazily(
    __name__,
    {
        "Bernoulli": "cavity.families.categorical",
        "Beta": "cavity.families.dirichlet",
        "Categorical": "cavity.families.categorical",
        "Dirichlet": "cavity.families.dirichlet",
        "Gamma": "cavity.families.gamma",
        "NormalGamma": "cavity.families.normal_gamma",
        "NormalWishart": "cavity.families.normal_wishart",
        "Wishart": "cavity.families.wishart",
    },
)

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
