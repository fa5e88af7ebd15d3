"""The methods of Table 1: probit regression by each algorithm, and what it is compared with."""

import warnings
from typing import Any

import numpy as np

import cavity

PRIOR_VARIANCE = 20.0  # one for all sets, of coefficients and intercept, where columns are divided by √(their number)
ALGORITHMS = {
    "ADF": cavity.adf(),
    "SEP": cavity.sep(),
    "EP": cavity.ep(),
    "AEP": cavity.aep(),
    "DSEP auto": cavity.dsep(groups="auto", batch_size=10),
    "power EP 0.5": cavity.power_ep(0.5),
    "VI": cavity.vmp(),
}
LEARNED = {"EP, learned prior": "ep", "AEP, learned prior": "aep"}
PEERS = ("logistic regression", "NUTS")


def predictor(method: str) -> Any:
    """A function of training and test rows that gives the log-probability of each test label."""
    if method in ALGORITHMS:
        return lambda *rows: with_engine(ALGORITHMS[method], *rows)
    if method in LEARNED:
        return lambda *rows: with_learned_prior(LEARNED[method], *rows)
    return {"logistic regression": with_logistic_regression, "NUTS": with_nuts}[method]


def with_engine(algorithm: Any, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """At the stated prior variance."""
    prior = cavity.Gaussian.isotropic(X.shape[1], prior_variance(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # sonar's variational fits need more sweeps
        result = cavity.fit(cavity.factors.probit(), prior, (X, y), algorithm, evidence=False)
    return log_predictive(result.posterior, X_test, y_test)


def prior_variance(X: np.ndarray) -> float:
    """Of the coefficients of these columns, as they are: so that those of X/√D have the stated one."""
    return PRIOR_VARIANCE / X.shape[1]


def log_predictive(q: cavity.Gaussian, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log Φ(y m / √(1 + v)): the coefficients integrated out."""
    from scipy.special import log_ndtr

    return log_ndtr(y * (X @ q.mean) / np.sqrt(1 + np.einsum("ni,ij,nj->n", X, q.covariance, X)))


def with_learned_prior(
    algorithm: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> np.ndarray:
    """The prior variance by the evidence, with the estimator."""
    model = cavity.ProbitClassifier(algorithm=algorithm, prior_variance="auto", standardize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        warnings.simplefilter("ignore", cavity.SharingWarning)  # what it costs is what is asked
        model.fit(X[:, :-1], y)
    return model.predict_log_proba(X_test[:, :-1])[np.arange(len(y_test)), (y_test > 0).astype(int)]


def with_logistic_regression(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """scikit-learn's, as it comes."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=5000).fit(X[:, :-1], y)
    return model.predict_log_proba(X_test[:, :-1])[np.arange(len(y_test)), (y_test > 0).astype(int)]


def with_nuts(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """The exact posterior, by its draws."""
    from scipy.special import log_ndtr, logsumexp

    from cavity.experiments.reference import glm_potential, sample

    draws = sample(glm_potential("probit", X, y, prior_variance(X)), X.shape[1], 4000, seed=0, n_warmup=500)
    each = log_ndtr(y_test * (draws.reshape(-1, X.shape[1]) @ X_test.T))
    return logsumexp(each, axis=0) - np.log(len(each))


def standardised(X: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Features with mean 0 and deviation 1 over the training rows, constant ones as they are; and a column of ones."""
    centre, scale = X[train].mean(0), X[train].std(0)
    return np.column_stack([(X - centre) / np.where(scale > 0, scale, 1.0), np.ones(len(X))])
