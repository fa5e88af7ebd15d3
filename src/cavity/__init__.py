"""Bayesian learning by expectation propagation at any data size."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

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
    from cavity import datasets, diagnostics, estimators
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
    "cavity.estimators": ["estimators"],
    "cavity.estimators.linear.classifiers": ["LogisticClassifier", "ProbitClassifier"],
    "cavity.estimators.mixture.estimator": ["GaussianMixture"],
    "cavity.estimators.network.regressor": ["NetworkRegressor"],
    "cavity.estimators.network.classifier": ["NetworkClassifier"],
    "cavity.estimators.linear.regressors": ["GaussianRegressor", "PoissonRegressor", "StudentTRegressor"],
    "cavity.diagnostics": ["diagnostics"],
}
__getattr__, __dir__ = lazily(__name__, {name: module for module, names in _LATER.items() for name in names})

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
if find_spec("sklearn"):  # `from cavity import *` asks for all of them
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
        "estimators",
    ]
