"""Estimators on the scikit-learn contract."""

from cavity.estimators.classifiers import LogisticClassifier, ProbitClassifier
from cavity.estimators.mixture import GaussianMixture
from cavity.estimators.network import NetworkRegressor
from cavity.estimators.network_classifier import NetworkClassifier
from cavity.estimators.regressors import GaussianRegressor, PoissonRegressor, StudentTRegressor

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
