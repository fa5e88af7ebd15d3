"""3 + 3 sweeps equal 6 sweeps bit for bit, whatever the model, the algorithm and the way in which rows are summed."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import cavity
from cavity.inference.result import History
from tests.registry import ALGORITHMS, leaves, thinned

pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")

N = 66  # rows: single ones and pairs make more batches than are visited by the host, fives make fewer
RNG = np.random.default_rng(21)
X = RNG.normal(size=(N, 3))
SIGNS = np.where(X @ [1.0, -0.7, 0.3] + RNG.normal(size=N) > 0, 1.0, -1.0)
NOISY = X @ [1.0, -0.7, 0.3] + 0.5 * RNG.normal(size=N)
POINTS = np.concatenate([RNG.normal(-1.5, 0.7, size=(N // 2, 2)), RNG.normal(1.5, 0.7, size=(N // 2, 2))])
WEIGHTS = RNG.uniform(0.3, 2.0, N)
GROUPS = np.arange(N) % 3
FULL, DIAGONAL = cavity.Gaussian.isotropic(3, 4.0), cavity.DiagonalGaussian.isotropic(3, 4.0)

KNOBS = {name: a if a.groups is None else replace(a, groups=GROUPS) for name, a in ALGORITHMS.items()} | {
    "sep-pairs": cavity.sep(batch_size=2),
    "sep-literal": cavity.sep(rate=1.0),
    "sep-decreasing": cavity.sep(rate=cavity.robbins_monro()),
    "sep-replace": cavity.sep(batch_size=5, replace=True),
    "svi-step": cavity.svi(batch_size=5, rate=0.1),
    "aep-damped": cavity.aep(rate=0.4),
    "daep-auto": cavity.daep(groups="auto"),
    "dsep-auto": cavity.dsep(groups="auto", batch_size=5),
}
PROBIT, LOGIT = cavity.factors.probit(), cavity.factors.logit()
CLUTTER = cavity.factors.clutter(weight=0.3)
MIXTURE = cavity.factors.mixture([0.4, 0.6], 0.5)
TWO = cavity.Gaussian.from_mean([[-1.0, 0.3], [1.0, -0.2]], np.stack([np.eye(2), 2 * np.eye(2)]))
MODELS = {
    "probit": (PROBIT, FULL, (X, SIGNS)),
    "logit": (LOGIT, FULL, (X, SIGNS)),
    "student-t": (cavity.factors.student_t(4.0, 0.5), FULL, (X, NOISY)),
    "fewer-rows": (PROBIT, cavity.Gaussian.isotropic(80), (np.random.default_rng(1).normal(size=(N, 80)), SIGNS)),
    "diagonal": (LOGIT, DIAGONAL, (X, SIGNS)),
    "clutter": (CLUTTER, cavity.Gaussian.isotropic(2, 4.0), POINTS),
    "mixture": (MIXTURE, TWO, POINTS),
}


def sweeps(model, algorithm, number, start=None, **options):
    """So many sweeps; by a callback where `groups="auto"` first makes as many with one site as it may make at all."""
    ends = {"callback": lambda sweep: sweep.number == number, "max_sweeps": 500}
    ends = ends if algorithm.finds_groups else {"max_sweeps": number}
    return cavity.fit(*model, algorithm, tol=0.0, evidence=False, start=start, **ends, **options)


def same(one, other):
    """Whether two trees have the same bits."""
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def check(fit, begin=None):
    """Six sweeps, and three and three: at once, and by way of what is written down."""
    whole, half = fit(6, start=begin), fit(3, start=begin)
    assert half.n_sweeps == 3
    written = pickle.dumps(half)
    for start in (pickle.loads(written), half):
        again = fit(3, start=start)
        assert same(again.posterior, whole.posterior)
        assert same(again.progress.state.sites, whole.progress.state.sites)
        assert again.progress.n_sweeps == whole.progress.n_sweeps == 6
        for name in set(History._fields) - {"seconds"}:
            there, here = getattr(whole.history, name)[3:], getattr(again.history, name)
            assert np.array_equal(there, here, equal_nan=True), name
    assert not same(half.posterior, whole.posterior)


QUICK = [
    *(("probit", name) for name in ("adf", "ep", "parallel-ep", "aep", "sep", "sep-batch", "sep-decreasing")),
    *(("probit", name) for name in ("sep-replace", "sep-literal", "daep", "daep-auto", "svi-step")),
    *(("logit", name) for name in ("parallel-ep", "averaged-vmp", "sep-batch", "dsep-auto")),
    *(("student-t", name) for name in ("parallel-ep", "aep")),
    *(("diagonal", name) for name in ("aep", "sep")),
    *(("clutter", name) for name in ("aep", "dsep")),
    ("fewer-rows", "daep-auto"),
    ("mixture", "parallel-ep"),
]


@pytest.mark.parametrize(
    ("model", "name"), thinned([(m, a) for m in MODELS for a in KNOBS], lambda *pair: pair in QUICK)
)
def test_a_fit_goes_on_as_if_it_had_never_stopped(model, name):
    check(partial(sweeps, MODELS[model], KNOBS[name]))


@pytest.mark.parametrize(
    ("model", "name"),
    thinned([(m, a) for m in ("probit", "clutter") for a in KNOBS], lambda m, a: (m, a) == ("probit", "sep-batch")),
)
def test_with_weights(model, name):
    check(partial(sweeps, MODELS[model], KNOBS[name], weights=np.where(np.arange(N) % 7, WEIGHTS, 0.0)))


@pytest.mark.parametrize("name", ["aep", "parallel-ep"])
def test_where_sweeps_are_damped_and_combined(name):
    """The past of the control and of the acceleration goes on too: a prior so wide that the share is halved."""
    rng = np.random.default_rng(9)
    features = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y = np.where(features @ [2.0, -1.0, 0.5] + rng.logistic(size=60) > 0, 1.0, -1.0)
    model = PROBIT, cavity.Gaussian.isotropic(3, 1e3), (features, y)
    whole = sweeps(model, KNOBS[name], 30)
    for stop in range(1, 30, 4):
        again = sweeps(model, KNOBS[name], 30 - stop, start=sweeps(model, KNOBS[name], stop))
        assert same(again.posterior, whole.posterior)
        assert np.array_equal(again.history.change, whole.history.change[stop:])
        assert np.array_equal(again.history.rate, whole.history.rate[stop:])


def test_a_fit_that_has_converged_and_goes_on_makes_one_more_sweep():
    """It stops where the other would have stopped, had its tolerance been smaller."""
    fit = lambda tol, **more: cavity.fit(*MODELS["logit"], cavity.ep(batch_size=6), tol=tol, evidence=False, **more)
    first, whole = fit(1e-3), fit(1e-9)
    again = fit(1e-9, start=first)
    assert same(again.posterior, whole.posterior)
    assert first.n_sweeps + again.n_sweeps == whole.n_sweeps
    assert fit(1e-3, start=first).n_sweeps == 1


@pytest.mark.parametrize("name", thinned(["aep", "ep", "sep-batch", "daep"], lambda name: name == "aep"))
def test_a_fit_that_began_at_a_distribution(name):
    """A mixture whose components are alike in the prior goes on from its sites, not from where it began."""
    components = lambda means: cavity.NormalWishart.from_parameters(means, np.ones(2), 4 * np.ones(2), [np.eye(2)] * 2)
    product = lambda means: {"weights": cavity.Dirichlet([1.0, 1.0]), "components": components(np.array(means))}
    model = cavity.factors.gaussian_mixture(), product([[0.0, 0.0], [0.0, 0.0]]), POINTS
    check(partial(sweeps, model, KNOBS[name]), begin=product([[-1.0, -1.0], [1.0, 1.0]]))


BLOCKS = cavity.factors.in_blocks((X, SIGNS), n_blocks=4)
OF_BLOCKS = {"ep": cavity.ep(), "parallel-ep": cavity.parallel_ep(), "sep": cavity.sep(), "adf": cavity.adf()}


@pytest.mark.parametrize("name", thinned(OF_BLOCKS, lambda name: name in ("ep", "sep")))
def test_nested_blocks(name):
    """Fits inside the blocks begin where the last ones ended, which is written down with the rest."""
    check(partial(sweeps, (cavity.factors.nested(PROBIT), FULL, BLOCKS), OF_BLOCKS[name]))


@pytest.mark.parametrize(
    ("name", "step"),
    thinned([(name, step) for name in OF_BLOCKS for step in (None, 0.3)], lambda *pair: pair == ("parallel-ep", None)),
)
def test_sampled_blocks(name, step):
    """Random numbers are keyed by sweep and block; step sizes and records of the chains are written down."""
    pytest.importorskip("numpyro")
    if (name, step) == ("adf", 0.3):
        pytest.skip("adf() would count a block by a part")
    factor = cavity.factors.sampled(PROBIT, n_draws=16, n_chains=2, n_warmup=4, step=step)
    check(partial(sweeps, (factor, FULL, BLOCKS), OF_BLOCKS[name]))
    fit = partial(sweeps, (factor, FULL, BLOCKS), OF_BLOCKS[name])
    whole, again = fit(6), fit(3, start=fit(3))
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(whole.sampling, again.sampling, strict=True))


OF_NETWORKS = {
    "adf": cavity.adf(),
    "ep": cavity.ep(rate=1.0),
    "sep": cavity.sep(rate=1.0),
    "sep-settling": cavity.sep(),
    "sep-batch": cavity.sep(batch_size=5),
    "ep-batch": cavity.ep(batch_size=5, rate=0.5),
}


def network(activation, name, number, start=None, dtype="float64", directory=None):
    factor = cavity.factors.network([3, 4, 1], activation, dtype, directory)
    return sweeps((factor, factor.prior(), (X, NOISY)), OF_NETWORKS[name], number, start=start)


@pytest.mark.parametrize(
    ("activation", "name"),
    thinned(
        [(a, name) for a in ("relu", "sin") for name in OF_NETWORKS],
        lambda a, name: (a == "relu" and name != "ep-batch") or (a, name) == ("sin", "sep-batch"),
    ),
)
def test_networks(activation, name):
    """By compiled loops and by the general path: what the prior's factors say goes on too."""
    if activation == "relu":
        pytest.importorskip("numba")
    check(partial(network, activation, name))


@pytest.mark.parametrize("name", ["ep", pytest.param("ep-batch", marks=pytest.mark.slow)])
def test_sites_of_half_the_size(name):
    """Sites kept in single precision are written down as they are."""
    check(partial(network, "relu", name, dtype="float32"))


@pytest.mark.parametrize("name", ["ep", "sep"])
def test_a_result_is_left_as_it_is_by_a_fit_that_goes_on_from_it(name):
    """Two fits from one result make the same sweeps, also where the sites of all rows are too large for a copy."""
    half = network("relu", name, 3)
    one, other = network("relu", name, 3, start=half), network("relu", name, 3, start=half)
    assert same(one.posterior, other.posterior)


def test_sites_in_a_file_are_gone_with_the_process(tmp_path):
    """A result whose sites are in a file can be gone on from while it lives; a pickled one says that it cannot."""
    pytest.importorskip("numba")
    fit = partial(network, "relu", "ep", directory=str(tmp_path))
    whole, half = fit(6), fit(3)
    with pytest.raises(ValueError, match="start must be a result that still holds its sites"):
        fit(3, start=pickle.loads(pickle.dumps(half)))
    assert same(fit(3, start=half).posterior, whole.posterior)
    assert same(network("relu", "ep", 6).posterior, whole.posterior)


NARROW = {
    "probit": cavity.Gaussian.from_mean([0.3, 0.0, -0.2], 0.5 * np.eye(3)),
    "diagonal": cavity.DiagonalGaussian.from_mean([0.3, 0.0, -0.2], [0.5, 0.4, 0.3]),
    "clutter": cavity.Gaussian.from_mean([0.5, 0.0], 0.5 * np.eye(2)),
}


@pytest.mark.parametrize(
    ("model", "name"),
    thinned(
        [(m, a) for m in NARROW for a in ("ep", "parallel-ep", "aep", "sep-batch", "daep", "vmp")],
        lambda m, a: m == "probit" and a in ("parallel-ep", "aep", "daep"),
    ),
)
def test_another_prior_begins_from_the_sites(model, name):
    """q is rebuilt as the new prior and the old sites, and converges to the fixed point of the new prior."""
    factor, prior, data = MODELS[model]
    fit = lambda prior, **more: cavity.fit(factor, prior, data, KNOBS[name], tol=1e-10, evidence=False, **more)
    first, afresh = fit(prior), fit(NARROW[model])
    again = fit(NARROW[model], start=first)
    assert again.converged
    assert again.posterior.distance(afresh.posterior) < 1e-7
    assert again.history.change[0] < afresh.history.change[0]
    assert again.posterior.distance(first.posterior) > 1e-2


def test_another_factor_begins_from_the_sites():
    """The same holds for hyper-parameters of the likelihood."""
    fit = lambda scale, **more: cavity.fit(
        cavity.factors.student_t(4.0, scale), FULL, (X, NOISY), cavity.aep(), tol=1e-10, evidence=False, **more
    )
    first, afresh = fit(0.5), fit(0.6)
    again = fit(0.6, start=first)
    assert again.posterior.distance(afresh.posterior) < 1e-7
    assert again.n_sweeps < afresh.n_sweeps


def test_other_data_are_refused():
    """A result of other rows, or of another algorithm, has sites of other shapes."""
    first = sweeps(MODELS["probit"], cavity.parallel_ep(), 2)
    with pytest.raises(ValueError, match="start must be a result for the same data and algorithm"):
        sweeps((PROBIT, FULL, (X[1:], SIGNS[1:])), cavity.parallel_ep(), 2, start=first)
    with pytest.raises(ValueError, match="start must be a result for the same data and algorithm"):
        sweeps(MODELS["probit"], cavity.aep(), 2, start=first)
