"""Any number of threads gives the same bits, and leaves BLAS as it was."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

import cavity
from cavity.inference.contract import CHUNK
from tests.registry import leaves, thinned

threadpoolctl = pytest.importorskip("threadpoolctl")
pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")

N, D = 20_000, 15
RNG = np.random.default_rng(3)
DENSE = RNG.normal(size=(N, D))
DENSE[:, 0] = 1.0
THETA = 0.3 * RNG.normal(size=D)
NARROW = sparse.random_array((N, 200), density=0.02, rng=RNG, format="csr")  # summed entry by entry
WIDE = sparse.random_array((N, D), density=0.4, rng=RNG, format="csr")  # spread out, a chunk at a time
GROUPS = (np.arange(N) * 7919) % 5
MODELS = {
    "probit": (cavity.factors.probit(), lambda a, rng: np.where(a + rng.normal(size=N) > 0, 1.0, -1.0)),
    "logit": (cavity.factors.logit(), lambda a, rng: np.where(a + rng.logistic(size=N) > 0, 1.0, -1.0)),
    "poisson": (cavity.factors.poisson(), lambda a, rng: rng.poisson(np.exp(a)).astype(float)),
    "student-t": (cavity.factors.student_t(4.0, 1.0), lambda a, rng: a + rng.standard_t(4.0, size=N)),
}
ROWS = {"dense": DENSE, "narrow": NARROW, "wide": WIDE}
ALGORITHMS = {
    "aep": cavity.aep(),
    "parallel-ep": cavity.parallel_ep(),
    "ep-batch": cavity.ep(batch_size=3_000),
    "sep-batch": cavity.sep(batch_size=5_000),
    "daep": cavity.daep(groups=GROUPS),
    "averaged-vmp": cavity.averaged_vmp(),
    "power-ep": cavity.parallel_ep(power=0.5),
}
SWEEPS = 3


@pytest.fixture(autouse=True)
def two_blas_threads():
    """The suite runs with one thread of BLAS, with which nothing here would show."""
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        yield


def limits():
    """Threads of every BLAS of this process."""
    return {
        info["filepath"]: info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"
    }


def fit(model, rows, name, n_threads, family=cavity.Gaussian, **options):
    factor, observe = MODELS[model]
    features = ROWS[rows]
    y = observe(features @ np.resize(THETA, features.shape[1]), np.random.default_rng(4))
    prior = family.isotropic(features.shape[1], 10.0)  # the first cavities are wide
    options = {"max_sweeps": SWEEPS, "tol": 0.0} | options
    return cavity.fit(factor, prior, (features, y), ALGORITHMS[name], n_threads=n_threads, **options)


def same(one, other):
    """Whether two results have the same bits."""
    pairs = zip(leaves(one.posterior), leaves(other.posterior), strict=True)
    history = zip(one.history[:4], other.history[:4], strict=True)
    sites = zip(leaves(one.progress.state.sites), leaves(other.progress.state.sites), strict=True)
    return one.log_evidence == other.log_evidence and all(
        np.array_equal(a, b) for group in (pairs, history, sites) for a, b in group
    )


QUICK = [("dense", "aep"), ("dense", "parallel-ep"), ("dense", "daep"), ("wide", "parallel-ep")]
QUICK = [(model, *pair) for model in MODELS for pair in QUICK] + [
    ("probit", "dense", "ep-batch"),
    ("logit", "dense", "sep-batch"),
    ("probit", "narrow", "aep"),
]
CASES = [(model, rows, name) for model in MODELS for rows in ROWS for name in ALGORITHMS]


@pytest.mark.parametrize(("model", "rows", "name"), thinned(CASES, lambda *case: case in QUICK))
def test_the_same_bits(model, rows, name):
    """Bounds of chunks and orders of sums do not depend on the number of threads."""
    before = limits()
    one, two, four = (fit(model, rows, name, n) for n in (1, 2, 4))
    assert np.isfinite(one.log_evidence)
    assert same(one, two)
    assert same(one, four)
    assert limits() == before


@pytest.mark.parametrize("name", ["aep", "parallel-ep", "averaged-vmp", "ep-batch"])
def test_the_same_bits_of_mean_fields(name):
    one, two, four = (fit("logit", "dense", name, n, cavity.DiagonalGaussian) for n in (1, 2, 4))
    assert np.isfinite(one.log_evidence)
    assert same(one, two)
    assert same(one, four)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_same_bits_by_whatever_number_of_chunks(number):
    """A chunk that is full, one row more and one row less; fewer chunks than threads."""
    for n in (number * CHUNK - 1, number * CHUNK, number * CHUNK + 1):
        data = DENSE[:n], np.where(DENSE[:n, 1] > 0.3, 1.0, -1.0)
        one, four = (
            cavity.fit(cavity.factors.logit(), cavity.Gaussian.isotropic(D), data, cavity.aep(), n_threads=k, tol=1e-3)
            for k in (1, 4)
        )
        assert same(one, four)


def test_a_number_of_threads_that_is_none_is_refused():
    for number in (0, -1, 1.5, "two"):
        with pytest.raises(ValueError, match="n_threads must be a positive integer"):
            fit("probit", "dense", "aep", number)


# -- BLAS ------------------------------------------------------------------------------------------------------------


def watched(seen, fails=lambda: None):
    """Logistic regression that notes what BLAS may do while a chunk is summed."""

    def log_lik(y, a):
        seen.append((threading.get_ident(), *limits().values()))
        fails()
        return -np.logaddexp(0.0, -y * a)

    return cavity.factors.glm(log_lik)


def watched_fit(factor, **options):
    data = DENSE, np.where(DENSE[:, 1] + RNG.normal(size=N) > 0, 1.0, -1.0)
    return cavity.fit(factor, cavity.Gaussian.isotropic(D), data, cavity.aep(), max_sweeps=2, tol=0.0, **options)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_chunks_are_summed_with_one_thread_of_blas(n_threads):
    """While chunks are summed each call of BLAS runs in the thread that makes it; afterwards as before."""
    before, seen = limits(), []
    assert set(before.values()) == {2}
    watched_fit(watched(seen), n_threads=n_threads)
    in_chunks = [blas for thread, *blas in seen if n_threads == 1 or thread != threading.get_ident()]
    assert in_chunks
    assert all(set(blas) == {1} for blas in in_chunks)
    assert limits() == before


def test_limits_reach_what_is_loaded_when_it_is_needed():
    """SciPy has a BLAS of its own under its LAPACK, and its bits depend on the number of threads too."""
    program = (
        "import threadpoolctl\n"
        "from cavity.inference.threads import one_blas_thread\n"
        "with one_blas_thread():\n"
        "    import numpy, scipy.linalg\n"
        "    blas = [info for info in threadpoolctl.threadpool_info() if info['user_api'] == 'blas']\n"
        "    assert [info['num_threads'] for info in blas] == [1] * len(blas), blas\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_after_an_exception_in_a_callback():
    before = limits()

    def fail(sweep):
        raise RuntimeError("enough")

    for n_threads in (1, 2):
        with pytest.raises(RuntimeError, match="enough"):
            fit("probit", "dense", "parallel-ep", n_threads, callback=fail)
        assert limits() == before


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_after_an_exception_in_a_chunk(n_threads, error):
    before, seen, calls = limits(), [], []

    def fail():
        calls.append(1)
        if len(calls) > 12:
            raise error("enough")

    with pytest.raises((error, ValueError)):
        watched_fit(watched(seen, fail), n_threads=n_threads)
    assert limits() == before
    assert same(fit("probit", "dense", "aep", 2), fit("probit", "dense", "aep", 1))  # threads are there again


def test_two_fits_at_once():
    """The limits of BLAS are counted: the last fit to end puts them back, and each gives what it gives alone."""
    before = limits()
    cases = [("logit", "dense", "aep"), ("student-t", "dense", "parallel-ep"), ("probit", "wide", "daep")]
    alone = [fit(*case, 1) for case in cases]
    with ThreadPoolExecutor(len(cases)) as pool:
        for _ in range(2):
            together = [running.result() for running in [pool.submit(fit, *case, 2) for case in cases]]
            assert all(same(one, other) for one, other in zip(alone, together, strict=True))
            assert limits() == before


def test_one_fit_that_fails_beside_one_that_does_not():
    before, alone = limits(), fit("logit", "dense", "aep", 1)

    def fail(sweep):
        raise RuntimeError("enough")

    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(fit, "logit", "dense", "aep", 2)
        bad = pool.submit(fit, "logit", "dense", "parallel-ep", 2, callback=fail)
        with pytest.raises(RuntimeError, match="enough"):
            bad.result()
        assert same(good.result(), alone)
    assert limits() == before


def test_a_fit_inside_a_callback_of_another():
    before, inner = limits(), []
    callback = lambda sweep: inner.append(fit("probit", "dense", "aep", 2, max_sweeps=1))
    outer = fit("logit", "dense", "aep", 2, callback=callback)
    assert same(outer, fit("logit", "dense", "aep", 1))
    assert same(inner[0], fit("probit", "dense", "aep", 1, max_sweeps=1))
    assert limits() == before


def test_threads_end_with_the_fit():
    """No thread is left behind, whether a fit ends well or not."""
    before = threading.active_count()
    fit("probit", "dense", "aep", 4)
    with pytest.raises(ZeroDivisionError):
        fit("probit", "dense", "aep", 4, callback=lambda sweep: 1 / 0)
    assert threading.active_count() == before
