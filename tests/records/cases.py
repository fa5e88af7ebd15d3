"""Some hundred fits, each a name and a function that returns arrays by name.

Engine fits are recorded twice: after one sweep over the rows in their given order, which says whether the arithmetic is
the same, and at convergence. Stochastic ones are recorded with three seeds, whose spread is the measure of a change.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import numpy as np
from scipy import sparse

import cavity
from tests.registry import ALGORITHMS, FACTORS

Arrays = dict[str, np.ndarray]
N, D = 240, 4
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D))
ACTIVATION = X @ np.array([0.9, -0.6, 0.3, 0.0])
SIGNS = np.where(ACTIVATION + RNG.normal(size=N) > 0, 1.0, -1.0)
NOISY = ACTIVATION + 0.7 * RNG.normal(size=N)
OUTLIERS = ACTIVATION + 0.5 * RNG.standard_t(2.0, size=N)
COUNTS = RNG.poisson(np.exp(ACTIVATION)).astype(float)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
GROUPS = np.arange(N) % 4
PRIOR = cavity.Gaussian.from_mean([0.2, -0.1, 0.3, 0.0], np.eye(D) + 0.3)
GLMS = {
    "probit": (cavity.factors.probit(), SIGNS),
    "logit": (cavity.factors.logit(), SIGNS),
    "poisson": (cavity.factors.poisson(), COUNTS),
    "gaussian": (cavity.factors.gaussian(0.5), NOISY),
    "student-t": (cavity.factors.student_t(4.0, 0.7), OUTLIERS),
}
POINTS = {
    "adf": cavity.adf(),
    "adf-batch": cavity.adf(batch_size=30),
    "ep": cavity.ep(),
    "ep-batch": cavity.ep(batch_size=60),
    "parallel-ep": cavity.parallel_ep(),
    "power-ep": cavity.power_ep(0.5, batch_size=60),
    "vmp": cavity.vmp(batch_size=60),
    "aep": cavity.aep(),
    "averaged-vmp": cavity.averaged_vmp(),
    "sep": cavity.sep(),
    "sep-batch": cavity.sep(batch_size=10),
    "sep-literal": cavity.sep(rate=1.0),
    "svi": cavity.svi(batch_size=10),
    "dsep": cavity.dsep(groups=GROUPS, batch_size=5),
    "daep": cavity.daep(groups=GROUPS),
}
STOCHASTIC = {"sep-literal"}
ONE_PASS = {"adf", "adf-batch"}


class GivenOrder:
    """In the place of a random generator: rows are seen in the order in which they are given."""

    def permutation(self, rows: Any) -> np.ndarray:
        return np.arange(rows) if np.ndim(rows) == 0 else np.asarray(rows)

    def choice(self, rows: Any, size: int) -> np.ndarray:
        return np.asarray(rows)[:size]


@contextlib.contextmanager
def given_order() -> Iterator[None]:
    """Fits without random orders, by whichever engine there is."""
    try:
        from cavity.inference import order  # the walk over chunks

        with mock.patch.object(order, "generator", return_value=GivenOrder()):
            yield
    except ImportError:
        from cavity.inference import memory

        plan = memory.plan
        with mock.patch.object(memory, "plan", lambda _, *given, **more: plan(GivenOrder(), *given, **more)):
            yield


def flat(tree: Any) -> np.ndarray:
    """All numbers of a pytree in one row."""
    return np.concatenate([np.ravel(np.asarray(leaf, dtype=float)) for leaf in jax.tree.leaves(tree)])


def quietly(function: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def engine_fit(factor: Any, prior: Any, data: Any, algorithm: Any, name: str, **options: Any) -> Arrays:
    """Natural parameters and evidence, after one sweep and at the end."""
    fit = lambda **more: quietly(lambda: cavity.fit(factor, prior, data, algorithm, **options, **more))
    with given_order():
        first = fit(max_sweeps=1, tol=0.0)
    found = {"one/q": flat(first.posterior), "one/log_evidence": np.array(first.log_evidence)}
    if name in ONE_PASS:
        return found
    if name in STOCHASTIC:
        ends = [fit(max_sweeps=20, tol=0.0, seed=seed) for seed in range(3)]
        return found | {f"seed{i}/q": flat(end.posterior) for i, end in enumerate(ends)}
    end = fit(max_sweeps=400, tol=1e-12)
    return found | {"end/q": flat(end.posterior), "end/log_evidence": np.array(end.log_evidence)}


def engine_cases() -> Iterator[tuple[str, Callable[[], Arrays]]]:
    for model, points in {"probit": POINTS, "logit": POINTS}.items():
        factor, y = GLMS[model]
        for name, algorithm in points.items():
            yield f"glm/{model}/{name}", lambda f=factor, y=y, a=algorithm, n=name: engine_fit(f, PRIOR, (X, y), a, n)
    for model in ("poisson", "gaussian", "student-t"):
        factor, y = GLMS[model]
        for name in ("ep", "ep-batch", "aep", "sep-batch", "averaged-vmp"):
            yield f"glm/{model}/{name}", lambda f=factor, y=y, n=name: engine_fit(f, PRIOR, (X, y), POINTS[n], n)
    for model in set(FACTORS) - {"probit", "logit", "poisson", "student-t", "gaussian"}:
        case = FACTORS[model]
        names = ALGORITHMS if model in ("clutter", "gaussian-normal-wishart") else ("ep", "aep", "sep-batch", "dsep")
        for name in names:
            yield (
                f"registry/{model}/{name}",
                lambda c=case, n=name: engine_fit(c.factor, c.prior, c.data, ALGORITHMS[n], n),
            )


def special_cases() -> Iterator[tuple[str, Callable[[], Arrays]]]:
    probit, logit = GLMS["probit"][0], GLMS["logit"][0]
    diagonal = cavity.DiagonalGaussian.isotropic(D, 2.0)
    wide = np.random.default_rng(3).normal(size=(12, 20))
    few = sparse.random_array((N, 30), density=0.1, rng=np.random.default_rng(4), format="csr")
    y_few = np.where(few @ np.random.default_rng(5).normal(size=30) > 0.1, 1.0, -1.0)
    many = sparse.random_array((N, 250), density=0.02, rng=np.random.default_rng(4), format="csr")
    for name in ("ep", "aep", "sep-batch", "ep-batch"):
        a = POINTS[name]
        fit = lambda *given, n=name, a=a, **more: engine_fit(*given, a, n, **more)
        yield f"special/weights/{name}", lambda f=fit: f(logit, PRIOR, (X, SIGNS), weights=WEIGHTS)
        yield f"special/diagonal/{name}", lambda f=fit: f(logit, diagonal, (X, SIGNS))
        yield f"special/fewer-rows/{name}", lambda f=fit: f(probit, cavity.Gaussian.isotropic(20), (wide, SIGNS[:12]))
        yield f"special/sparse/{name}", lambda f=fit: f(probit, cavity.Gaussian.isotropic(30), (few, y_few))
    many_prior = cavity.Gaussian.isotropic(250)
    yield (
        "special/sparse-many/ep-batch",
        lambda: engine_fit(probit, many_prior, (many, y_few), POINTS["ep-batch"], "ep-batch"),
    )
    offset = cavity.factors.offset_of(cavity.factors.poisson())
    yield (
        "special/offset/ep",
        lambda: engine_fit(offset, PRIOR, (X, (COUNTS, 0.1 * NOISY)), POINTS["ep"], "ep"),
    )
    blocks = cavity.factors.in_blocks((X, SIGNS), n_blocks=6)
    for name in ("ep", "aep", "sep"):
        nested = cavity.factors.nested(probit, tol=1e-10)
        yield f"blocks/nested/{name}", lambda f=nested, n=name: engine_fit(f, PRIOR, blocks, POINTS[n], n)
    for name, algorithm in {"adf": cavity.adf(), "ep": cavity.ep(rate=1.0), "sep": cavity.sep(rate=1.0)}.items():
        yield f"network/{name}", lambda a=algorithm: network_fit(a)


def network_fit(algorithm: Any) -> Arrays:
    factor = cavity.factors.network([D, 8, 1])
    fit = lambda **more: quietly(
        lambda: cavity.fit(factor, factor.prior(), (X, NOISY), algorithm, evidence=False, tol=0.0, **more)
    )
    with given_order():
        first = fit(max_sweeps=1)
    ends = [fit(max_sweeps=1 if algorithm.n_sites == 0 else 10, seed=seed) for seed in range(3)]
    return {"one/q": flat(first.posterior)} | {f"seed{i}/q": flat(end.posterior) for i, end in enumerate(ends)}


def estimator_cases() -> Iterator[tuple[str, Callable[[], Arrays]]]:
    labels = (SIGNS > 0).astype(int)
    three = np.digitize(ACTIVATION, [-0.5, 0.5])
    models = {
        "ProbitClassifier": (cavity.ProbitClassifier, labels, {}),
        "LogisticClassifier": (cavity.LogisticClassifier, labels, {}),
        "LogisticClassifier-three": (cavity.LogisticClassifier, three, {}),
        "LogisticClassifier-auto": (cavity.LogisticClassifier, labels, {"prior_variance": "auto"}),
        "LogisticClassifier-aep": (cavity.LogisticClassifier, labels, {"algorithm": "aep"}),
        "PoissonRegressor": (cavity.PoissonRegressor, COUNTS, {}),
        "GaussianRegressor": (cavity.GaussianRegressor, NOISY, {}),
        "StudentTRegressor": (cavity.StudentTRegressor, OUTLIERS, {}),
    }
    for name, (cls, y, options) in models.items():
        yield f"estimators/{name}", lambda c=cls, y=y, o=options: linear_model(c(**o), y)
    points = np.vstack([X[:80, :2] - 2, X[80:160, :2] + 2, X[160:, :2] + [3, -3]])
    for covariance in ("full", "diag"):
        yield f"estimators/GaussianMixture-{covariance}", lambda c=covariance: mixture_model(points, c)
    for name, cls, y in (
        ("NetworkRegressor", cavity.NetworkRegressor, NOISY),
        ("NetworkClassifier", cavity.NetworkClassifier, labels),
    ):
        yield f"estimators/{name}", lambda c=cls, y=y: network_model(c, y)


def linear_model(model: Any, y: np.ndarray) -> Arrays:
    quietly(lambda: model.fit(X, y))
    answer = model.predict_proba(X[:20]) if hasattr(model, "predict_proba") else np.stack(model.predict(X[:20], True))
    return {
        "end/q": flat(model.posterior_),
        "end/log_evidence": np.array(model.log_evidence_),
        "end/predictions": answer,
    }


def mixture_model(points: np.ndarray, covariance: str) -> Arrays:
    model = cavity.GaussianMixture(3, covariance_type=covariance, tol=1e-10)
    quietly(lambda: model.fit(points))
    return {"end/predictions": model.predict_proba(points[::10]), "end/log_evidence": np.array(model.log_evidence_)}


def network_model(cls: Any, y: np.ndarray) -> Arrays:
    found = {}
    for seed in range(3):
        model = quietly(lambda s=seed: cls(n_epochs=20, random_state=s).fit(X, y))
        answer = model.predict_proba(X[:20]) if hasattr(model, "predict_proba") else model.predict(X[:20])
        found[f"seed{seed}/predictions"] = np.asarray(answer)
    return found


def cases() -> dict[str, Callable[[], Arrays]]:
    """All of them, in a fixed order."""
    return dict(sorted([*engine_cases(), *special_cases(), *estimator_cases()]))
