"""Bayesian learning by expectation propagation at any data size."""

from typing import Any

from cavity import factors, families
from cavity.families import (
    Bernoulli,
    Beta,
    Categorical,
    DiagonalGaussian,
    Dirichlet,
    Gamma,
    Gaussian,
    NormalGamma,
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

_ESTIMATORS = [
    "GaussianMixture",
    "GaussianRegressor",
    "LogisticClassifier",
    "NetworkClassifier",
    "NetworkRegressor",
    "PoissonRegressor",
    "ProbitClassifier",
    "StudentTRegressor",
]


def __getattr__(name: str) -> Any:
    """Estimators are imported when they are first asked for: they need scikit-learn, which the engine does not."""
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'cavity' has no attribute {name!r}")
    try:
        from cavity import estimators
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"cavity.{name} needs {error.name}: pip install 'cavity[sklearn]'") from error
    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])


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
    "NormalGamma",
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
