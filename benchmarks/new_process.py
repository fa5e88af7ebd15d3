"""What a user waits for in a new process: `python -m benchmarks.new_process fit cavity.LogisticClassifier 0`.

Imports nothing that the task does not need, so that the time of the process is that of its first use. The last words
are arguments of the task: what is fitted, and what it is given.
"""

import pickle
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

SHAPE = (500, 5)
Data = tuple[np.ndarray, Any]


def data_for(model: str, n: int = SHAPE[0], dim: int = SHAPE[1]) -> Data:
    """Gaussian inputs, and targets as one of our estimators takes them to arise, from activations of variance one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, dim))
    activation = X @ rng.normal(size=dim) / np.sqrt(dim)
    targets: dict[str, Callable[[], Any]] = {
        "LogisticClassifier": lambda: activation + rng.logistic(size=n) > 0,
        "ProbitClassifier": lambda: activation + rng.normal(size=n) > 0,
        "NetworkClassifier": lambda: activation + 0.3 * rng.normal(size=n) > 0,
        "PoissonRegressor": lambda: rng.poisson(np.exp(activation)),
        "GaussianRegressor": lambda: activation + rng.normal(size=n),
        "StudentTRegressor": lambda: activation + rng.standard_t(4, size=n),
        "NetworkRegressor": lambda: activation + 0.3 * rng.normal(size=n),
        "GaussianMixture": lambda: None,
    }
    return X, targets[model]()


def estimator(path: str) -> Any:
    """An estimator with its defaults, from its module and name; "scaled." before it puts a StandardScaler in front."""
    module, _, name = path.removeprefix("scaled.").rpartition(".")
    model = getattr(import_module(module), name)()
    if not path.startswith("scaled."):
        return model
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), model)


def fit(path: str, model: str) -> None:
    """A first fit."""
    estimator(path).fit(*data_for(model))


def partial_fit(path: str, model: str) -> None:
    """Two chunks."""
    (X, y), learner = data_for(model), estimator(path)
    given = {"classes": np.unique(y)} if model.endswith("Classifier") else {}
    for half in (slice(0, len(X) // 2), slice(len(X) // 2, None)):
        learner.partial_fit(X[half], y[half], **given)


def predict(path: str, model: str) -> None:
    """Load what `pickle`, or joblib where the file's name says so, has kept, and predict."""
    X, _ = data_for(model)
    if path.endswith(".joblib"):
        import joblib

        learned = joblib.load(path)
    else:
        with open(path, "rb") as file:
            learned = pickle.load(file)
    learned.predict(X)
    if model.endswith("Classifier"):
        learned.predict_proba(X)


def cross_validate(path: str, _: str) -> None:
    """Five folds of breast cancer, 569 × 30."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import cross_val_score

    cross_val_score(estimator(path), *load_breast_cancer(return_X_y=True), cv=5)


def own_factor(which: str, _: str) -> None:
    """A factor of one's own, by `log_mean` or from `log_lik`."""
    import jax
    import jax.numpy as jnp

    import cavity

    def log_mean(q: Any, datum: Any, power: float) -> Any:
        time, broken = datum
        log_alive = -q.shape * jnp.log1p(time / q.rate)
        return jnp.where(broken > 0, jnp.log(-jnp.expm1(log_alive)), log_alive)

    def log_lik(y: Any, a: Any) -> Any:
        return -jax.nn.softplus(y - a) - jax.nn.softplus(a - y)

    X, y = data_for("GaussianRegressor")
    if which == "log_lik":
        cavity.fit(cavity.factors.glm(log_lik), cavity.Gaussian.isotropic(SHAPE[1]), (X, y), cavity.ep())
        return
    time = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    data = time, (np.random.default_rng(1).exponential(size=len(y)) < time).astype(float)
    cavity.fit(cavity.factors.custom(log_mean), cavity.Gamma(2.0, 2.0), data, cavity.ep())


TASKS: dict[str, Callable[[str, str], None]] = {
    task.__name__: task for task in (fit, partial_fit, predict, cross_validate, own_factor)
}

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether a fit converges is not asked
        TASKS[sys.argv[1]](*sys.argv[2:])
