"""Estimators on the scikit-learn contract."""

from cavity.estimators.classifiers import LogisticClassifier, ProbitClassifier
from cavity.estimators.regressors import GaussianRegressor, PoissonRegressor, StudentTRegressor

__all__ = ["GaussianRegressor", "LogisticClassifier", "PoissonRegressor", "ProbitClassifier", "StudentTRegressor"]
