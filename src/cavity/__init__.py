"""Bayesian learning by expectation propagation at any data size."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cavity import factors, families
from cavity._lazy import lazily
from cavity.families import DiagonalGaussian, Gaussian, Product
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

if TYPE_CHECKING:
    from cavity import datasets, diagnostics
    from cavity.estimators import (
        GaussianMixture,
        GaussianRegressor,
        LogisticClassifier,
        NetworkClassifier,
        NetworkRegressor,
        PoissonRegressor,
        ProbitClassifier,
        StudentTRegressor,
    )
    from cavity.families import (
        Bernoulli,
        Beta,
        Categorical,
        Dirichlet,
        Gamma,
        NormalGamma,
        NormalWishart,
        Wishart,
    )
    from cavity.inference.result import CollapseWarning, ConvergenceWarning, Result, SharingWarning
    from cavity.inference.run import fit

__version__ = "0.1.0"

_LATER = {
    "cavity.families": [
        "Bernoulli",
        "Beta",
        "Categorical",
        "Dirichlet",
        "Gamma",
        "NormalGamma",
        "NormalWishart",
        "Wishart",
    ],
    "cavity.inference.result": ["CollapseWarning", "ConvergenceWarning", "Result", "SharingWarning"],
    "cavity.inference.run": ["fit"],
    "cavity.datasets": ["datasets"],
}
_WITH_SKLEARN = {
    "cavity.estimators.linear.classifiers": ["LogisticClassifier", "ProbitClassifier"],
    "cavity.estimators.mixture.estimator": ["GaussianMixture"],
    "cavity.estimators.network.regressor": ["NetworkRegressor"],
    "cavity.estimators.network.classifier": ["NetworkClassifier"],
    "cavity.estimators.linear.regressors": ["GaussianRegressor", "PoissonRegressor", "StudentTRegressor"],
    "cavity.diagnostics": ["diagnostics"],
}
_table = lambda modules: {name: module for module, names in modules.items() for name in names}
_load, __dir__ = lazily(__name__, _table(_LATER | _WITH_SKLEARN))


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for; where that needs what is not installed, say what to install."""
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if name not in _table(_WITH_SKLEARN) or missing == "cavity":
            raise
        raise ModuleNotFoundError(f"cavity.{name} needs {missing}: pip install 'cavity[sklearn]'") from error


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
    "SharingWarning",
    "Wishart",
    "adf",
    "aep",
    "averaged_vmp",
    "daep",
    "datasets",
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
if find_spec("sklearn") and find_spec("pandas"):  # `from cavity import *` asks for all of them
    __all__ += [
        "GaussianMixture",
        "GaussianRegressor",
        "LogisticClassifier",
        "NetworkClassifier",
        "NetworkRegressor",
        "PoissonRegressor",
        "ProbitClassifier",
        "StudentTRegressor",
        "diagnostics",
    ]
