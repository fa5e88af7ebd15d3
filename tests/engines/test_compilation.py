"""What is compiled depends on the model and the columns, never on rows; linear models and mixtures compile nothing."""

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import GaussianRegressor, LogisticClassifier, PoissonRegressor, ProbitClassifier, StudentTRegressor

pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning")
COMPILED = "/jax/core/compile/backend_compile_duration"
WARM = 3  # fits, of the fewest rows and of the most among them: all paths are then compiled


@contextlib.contextmanager
def compilations():
    """A list that grows by one for each program that is compiled."""
    made = []
    note = lambda event, seconds, **_: made.append(seconds) if event == COMPILED else None
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield made
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def test_compilations_are_counted():
    """The test's own test: a new program counts once, and not again."""
    with compilations() as made:
        function = jax.jit(lambda x: 3 * x + 1)
        x = np.ones(3, dtype=np.float32)
        function(x)
        assert len(made) == 1
        function(x)
        assert len(made) == 1
        function(np.ones(4, dtype=np.float32))
        assert len(made) == 2


# -- linear models ---------------------------------------------------------------------------------------------------

LINEAR = {
    ProbitClassifier: lambda a, rng: (a + rng.normal(size=len(a)) > 0).astype(int),
    LogisticClassifier: lambda a, rng: (a + rng.logistic(size=len(a)) > 0).astype(int),
    PoissonRegressor: lambda a, rng: rng.poisson(np.exp(0.5 * a)).astype(float),
    GaussianRegressor: lambda a, rng: a + rng.normal(size=len(a)),
    StudentTRegressor: lambda a, rng: a + rng.standard_t(3.0, size=len(a)),
}


@pytest.mark.parametrize("model", LINEAR, ids=lambda model: model.__name__)
def test_linear_models_compile_nothing(model):
    """Fits and predictions with the defaults, few rows and many, fewer rows than columns, with weights."""
    rng = np.random.default_rng(0)
    with compilations() as made:
        for n in (4, 57, 300, 2048, 2049, 6001):
            X = rng.normal(size=(n, 6))
            y = LINEAR[model](X @ [1.0, -0.5, 0.3, 0.0, 0.0, 0.0], rng)
            y[:2] = [0, 1]
            fitted = model().fit(X, y, sample_weight=rng.integers(1, 4, n))
            fitted.predict(X)
            fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X, return_std=True)
            assert np.isfinite(fitted.log_evidence_)
    assert made == []


NEW_PROCESS = """
import sys, warnings
import numpy as np
import cavity
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 5))
a = X @ [1.0, -0.5, 0.3, 0.0, 0.2]
models = {
    'ProbitClassifier': a + rng.normal(size=3000) > 0,
    'LogisticClassifier': a + rng.logistic(size=3000) > 0,
    'PoissonRegressor': rng.poisson(np.exp(0.5 * a)).astype(float),
    'GaussianRegressor': a + rng.normal(size=3000),
    'StudentTRegressor': a + rng.standard_t(3.0, size=3000),
}
for name in NAMES:
    model = getattr(cavity, name)().fit(X, models[name])
    model.predict(X)
    model.predict_proba(X) if hasattr(model, 'predict_proba') else model.predict(X, return_std=True)
    model.posterior_.mean, model.posterior_.covariance, model.score(X, models[name])
print('jax' in sys.modules, 'jaxlib' in sys.modules)
"""


@pytest.mark.parametrize(
    "names",
    [["LogisticClassifier"], [model.__name__ for model in LINEAR]],
    ids=["one", "all"],
)
def test_linear_models_need_no_jax(names):
    """In a new process nothing imports JAX, from the import of the library to a prediction."""
    code = NEW_PROCESS.replace("NAMES", repr(names))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_mixtures_compile_nothing(covariance_type):
    """Fits and predictions with the defaults, for several numbers of rows, features and components, with weights."""
    rng = np.random.default_rng(0)
    with compilations() as made:
        for n, dim, n_components in ((20, 1, 1), (57, 2, 3), (300, 5, 2), (2100, 3, 4), (6001, 2, 2)):
            X = rng.normal(size=(n, dim)) + 3.0 * rng.integers(n_components, size=n)[:, None]
            model = cavity.GaussianMixture(n_components, covariance_type=covariance_type, max_sweeps=20)
            model.fit(X, sample_weight=rng.integers(1, 4, n))
            model.predict_proba(X), model.score(X)
            assert np.isfinite(model.log_evidence_)
    assert made == []


# -- any number of rows ----------------------------------------------------------------------------------------------


def known_variance(q, x, power):
    """A Gaussian with unknown mean and unit noise, at any positive power."""
    total = 1 + power * q.variance
    return jnp.sum(-0.5 * (x - q.mean) ** 2 / total - 0.5 * jnp.log(total) / power - 0.5 * jnp.log(2 * jnp.pi))


def heavy_tails(y, a):
    return -2.5 * jnp.log1p((y - a) ** 2 / 4)


def mine(rng, n, dim):
    return MINE, cavity.DiagonalGaussian.isotropic(dim, 4.0), rng.normal(1.0, 1.0, size=(n, dim))


def my_glm(rng, n, dim):
    X = rng.normal(size=(n, dim))
    return MY_GLM, cavity.Gaussian.isotropic(dim, 4.0), (X, X[:, 0] + rng.standard_t(4.0, size=n))


def labels(rng, n, dim):
    X = rng.normal(size=(n, dim))
    return LOGIT, cavity.Gaussian.isotropic(dim, 4.0), (X, np.where(X[:, 0] + rng.logistic(size=n) > 0, 1.0, -1.0))


def mixture(rng, n, dim):
    means = np.stack([np.full(dim, -1.5), np.full(dim, 1.5)])
    components = cavity.NormalWishart.from_parameters(means, np.ones(2), np.full(2, dim + 2.0), [np.eye(dim)] * 2)
    x = means[rng.integers(2, size=n)] + rng.normal(size=(n, dim))
    return MIXTURE, {"weights": cavity.Dirichlet([1.0, 1.0]), "components": components}, x


MINE, MY_GLM = cavity.factors.custom(known_variance), cavity.factors.glm(heavy_tails)
LOGIT, MIXTURE = cavity.factors.logit(), cavity.factors.gaussian_mixture()
CASES = {
    "mine-ep": (mine, cavity.ep()),
    "mine-aep": (mine, cavity.aep()),
    "mine-sep": (mine, cavity.sep(batch_size=5)),
    "mine-adf": (mine, cavity.adf()),
    "mine-dsep": (mine, cavity.dsep(3, "random", batch_size=5)),
    "mine-dsep-of-whole-groups": (mine, cavity.dsep(40, "random", batch_size=4_000)),
    "my-glm-aep": (my_glm, cavity.aep()),
    "my-glm-ep": (my_glm, cavity.ep(batch_size=50)),
    "logit-sep": (labels, cavity.sep()),
    "logit-sep-batch": (labels, cavity.sep(batch_size=5)),
    "mixture-aep": (mixture, cavity.aep()),
    "mixture-ep": (mixture, cavity.ep(batch_size=20)),
}
QUICK = ["mine-ep", "mine-aep", "mine-sep", "mine-dsep-of-whole-groups", "my-glm-aep", "mixture-aep", "mixture-ep"]


def resident():
    """Bytes of this process that are in memory, without what the allocator keeps for later; zero where nobody tells.

    To look through all objects takes seconds after many tests.
    """
    if not Path("/proc/self/statm").exists():
        return 0
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # the free ends of the heaps of threads are not in it: see `given_back`
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def given_back():
    """Let glibc give free memory back from now on: else each thread's heap may keep up to 64 MB of it."""
    trim_threshold = -1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(trim_threshold, 128 * 1024)


def fits(name, counts, dim, after=lambda: None):
    """Programs that each fit compiles, and what `after` finds afterwards."""
    make, algorithm = CASES[name]
    rng, programs, found = np.random.default_rng(2), [], []
    for n in counts:
        with compilations() as made:
            sweeps = {} if algorithm.n_sites == 0 else {"max_sweeps": 3}
            result = cavity.fit(*make(rng, int(n), dim), algorithm, tol=0.0, **sweeps)
            assert np.isfinite(result.log_evidence)
        programs.append(len(made))
        del result
        found.append(after())
    return programs, found


def some(number, most):
    """Numbers of rows, of which the first are the fewest and the most."""
    rng = np.random.default_rng(1)
    drawn = np.exp(rng.uniform(np.log(100), np.log(most), number - 2)).astype(int)
    return [100, most, *drawn]


@pytest.mark.parametrize("name", QUICK)
def test_nothing_is_compiled_for_another_number_of_rows(name):
    made, _ = fits(name, some(8, 5_000), dim=2)
    assert made[WARM:] == [0] * (8 - WARM)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_compiled_for_any_number_of_rows_and_memory_stays(name):
    """Forty numbers of rows between a hundred and a hundred thousand."""
    given_back()
    made, memory = fits(name, some(40, 100_000), 10, resident)
    assert made[WARM:] == [0] * (40 - WARM)
    assert max(memory[WARM:]) - memory[WARM - 1] < 30e6


def test_a_second_fit_compiles_nothing():
    """A fit with other numbers in the same shapes, hyper-parameters and prior among them."""
    x = np.random.default_rng(5).normal(1.0, 1.5, size=(200, 3))
    with compilations() as made:
        for weight in (0.3, 0.4):
            before = len(made)
            prior = cavity.Gaussian.isotropic(3, 10 * weight)
            cavity.fit(cavity.factors.clutter(weight), prior, x, cavity.aep())
    assert len(made) == before > 0
