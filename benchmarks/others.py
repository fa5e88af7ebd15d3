"""Models of other packages under the names of scikit-learn's methods: what `benchmarks.peers` fits beside ours."""

from importlib import import_module
from typing import Any, Self

import numpy as np
from scipy.special import expit

POISSON, LOGISTIC = "PoissonRegressor", "LogisticClassifier"
RESTARTS = 5  # of NumPyro's search, each from where the last line search gave up
FAMILIES = {POISSON: "poisson", LOGISTIC: "binomial"}


class Classifying:
    """Probabilities from `chance`."""

    def chance(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        chance = self.chance(X)
        return np.column_stack([1 - chance, chance])


class Statsmodels(Classifying):
    """Its `GLM`, by iterated least squares."""

    def __init__(self, ours: str) -> None:
        self.api: Any = import_module("statsmodels.api")
        self.family = getattr(self.api.families, {POISSON: "Poisson", LOGISTIC: "Binomial"}[ours])()

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.result = self.api.GLM(y, self.api.add_constant(X), family=self.family).fit()
        return self

    def chance(self, X: np.ndarray) -> np.ndarray:
        return self.result.predict(self.api.add_constant(X))

    predict = chance


class Glum(Classifying):
    """Its regressor with no penalty, which is its default."""

    def __init__(self, ours: str) -> None:
        self.model = import_module("glum").GeneralizedLinearRegressor(family=FAMILIES[ours])

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.model.fit(X, y.astype(float))
        return self

    def chance(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X)

    predict = chance


class NumPyro(Classifying):
    """Logistic regression with a normal prior, by Laplace's method in double precision."""

    def __init__(self, ours: str) -> None:
        if ours != LOGISTIC:
            raise ValueError(f"ours must be {LOGISTIC!r}; got {ours!r}.")

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        import jax
        import numpyro
        from numpyro import distributions, infer
        from numpyro.infer.autoguide import AutoLaplaceApproximation

        def model(X: Any, y: Any) -> None:
            theta = numpyro.sample("theta", distributions.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
            intercept = numpyro.sample("intercept", distributions.Normal(0.0, 10.0))
            with numpyro.plate("rows", len(X)):
                numpyro.sample("y", distributions.Bernoulli(logits=X @ theta + intercept), obs=y)

        guide = AutoLaplaceApproximation(model)
        svi = infer.SVI(model, guide, numpyro.optim.Minimize(), infer.Trace_ELBO())
        with jax.enable_x64(True):  # in single precision its search ends sooner
            done = svi.run(jax.random.key(0), RESTARTS, X, y.astype(float), progress_bar=False)
            found = guide.get_posterior(done.params)
            self.mean, self.covariance = np.asarray(found.mean), np.asarray(found.covariance_matrix)
        return self

    def chance(self, X: np.ndarray) -> np.ndarray:
        rows = np.column_stack([X, np.ones(len(X))])  # in the order in which the model draws them
        spread = np.einsum("nd,de,ne->n", rows, self.covariance, rows)
        return expit(rows @ self.mean / np.sqrt(1 + np.pi * spread / 8))


OTHERS = {"statsmodels.GLM": Statsmodels, "glum.GeneralizedLinearRegressor": Glum, "numpyro.Laplace": NumPyro}
