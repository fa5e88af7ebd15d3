"""Bayesian learning by expectation propagation at any data size."""

from cavity import factors, families
from cavity.families import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    NormalWishart,
    Product,
    Wishart,
)
from cavity.inference.named import (
    Algorithm,
    adf,
    aep,
    averaged_vmp,
    daep,
    dsep,
    ep,
    parallel_ep,
    power_ep,
    sep,
    svi,
    vmp,
)
from cavity.inference.rates import robbins_monro
from cavity.inference.result import CollapseWarning, ConvergenceWarning, Result
from cavity.inference.run import fit

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Bernoulli",
    "Beta",
    "Categorical",
    "CollapseWarning",
    "ConvergenceWarning",
    "DiagonalGaussian",
    "Dirichlet",
    "Gamma",
    "Gaussian",
    "NormalWishart",
    "Product",
    "Result",
    "Wishart",
    "adf",
    "aep",
    "averaged_vmp",
    "daep",
    "dsep",
    "ep",
    "factors",
    "families",
    "fit",
    "parallel_ep",
    "power_ep",
    "robbins_monro",
    "sep",
    "svi",
    "vmp",
]
