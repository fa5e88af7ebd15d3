"""Estimators on the scikit-learn contract, each loaded when it is first used: some of them import JAX."""

from typing import TYPE_CHECKING

from cavity._lazy import lazily

if TYPE_CHECKING:
    from cavity.estimators.linear.classifiers import LogisticClassifier, ProbitClassifier
    from cavity.estimators.linear.regressors import GaussianRegressor, PoissonRegressor, StudentTRegressor
    from cavity.estimators.mixture.estimator import GaussianMixture
    from cavity.estimators.network.classifier import NetworkClassifier
    from cavity.estimators.network.regressor import NetworkRegressor

_MODULES = {
    "linear.classifiers": ["LogisticClassifier", "ProbitClassifier"],
    "mixture.estimator": ["GaussianMixture"],
    "network.regressor": ["NetworkRegressor"],
    "network.classifier": ["NetworkClassifier"],
    "linear.regressors": ["GaussianRegressor", "PoissonRegressor", "StudentTRegressor"],
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
