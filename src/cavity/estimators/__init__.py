"""Estimators on the scikit-learn contract, each loaded when it is first used: some of them import JAX."""

from typing import TYPE_CHECKING

from cavity._lazy import lazily

if TYPE_CHECKING:
    from cavity.estimators.classifiers import LogisticClassifier, ProbitClassifier
    from cavity.estimators.mixture import GaussianMixture
    from cavity.estimators.network import NetworkRegressor
    from cavity.estimators.network_classifier import NetworkClassifier
    from cavity.estimators.regressors import GaussianRegressor, PoissonRegressor, StudentTRegressor

_MODULES = {
    "classifiers": ["LogisticClassifier", "ProbitClassifier"],
    "mixture": ["GaussianMixture"],
    "network": ["NetworkRegressor"],
    "network_classifier": ["NetworkClassifier"],
    "regressors": ["GaussianRegressor", "PoissonRegressor", "StudentTRegressor"],
}

__getattr__, __dir__ = lazily(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)

__all__ = [
    "GaussianMixture",
    "GaussianRegressor",
    "LogisticClassifier",
    "NetworkClassifier",
    "NetworkRegressor",
    "PoissonRegressor",
    "ProbitClassifier",
    "StudentTRegressor",
]
