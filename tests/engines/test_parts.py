"""A source in several parts gives what one part gives: the same sums, and the same fixed points."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import cavity
from cavity.inference import grouping, memory
from cavity.inference.loop import Limits, Loop
from cavity.inference.problem import Problem
from cavity.inference.result import Progress
from cavity.inference.source import Arrays
from cavity.inference.sweep import first_state
from cavity.inference.threads import Threads
from cavity.inference.walk import Walk
from tests.registry import assert_trees_close, leaves, thinned

pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")

N, PARTS = 131, 3  # parts of unequal size
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 3))
SIGNS = np.where(X @ [1.0, -0.7, 0.3] + RNG.normal(size=N) > 0, 1.0, -1.0)
NOISY = X @ [1.0, -0.7, 0.3] + 0.5 * RNG.standard_t(4.0, size=N)
POINTS = np.concatenate([RNG.normal(-1.5, 0.7, size=(N // 2, 2)), RNG.normal(1.5, 0.7, size=(N - N // 2, 2))])
WEIGHTS = np.where(np.arange(N) % 9, RNG.uniform(0.3, 2.0, N), 0.0)
MIXED, SORTED = np.arange(N) % 4, np.sort(np.arange(N) % 4)  # groups in all parts, and each in one or two of them
FULL = cavity.Gaussian.isotropic(3, 4.0)


def mixture():
    means = np.array([[-1.0, -1.0], [1.0, 0.5]])
    components = cavity.NormalWishart.from_parameters(means, np.ones(2), 4 * np.ones(2), [np.eye(2)] * 2)
    return (
        cavity.factors.gaussian_mixture(),
        {"weights": cavity.Dirichlet([1.0, 2.0]), "components": components},
        POINTS,
    )


MODELS = {
    "probit": (cavity.factors.probit(), FULL, (X, SIGNS)),
    "logit": (cavity.factors.logit(), FULL, (X, SIGNS)),
    "student-t": (cavity.factors.student_t(4.0, 0.5), FULL, (X, NOISY)),
    "diagonal": (cavity.factors.logit(), cavity.DiagonalGaussian.isotropic(3, 4.0), (X, SIGNS)),
    "fewer-rows": (cavity.factors.probit(), cavity.Gaussian.isotropic(150), (RNG.normal(size=(N, 150)), SIGNS)),
    "clutter": (cavity.factors.clutter(weight=0.3), cavity.Gaussian.isotropic(2, 4.0), POINTS),
    "mixture": mixture(),
}


def in_parts(model, algorithm, n_parts, weights=None, **limits):
    """A fit by the engine's own loop, of rows that come in so many parts."""
    problem = Problem.of(*model, algorithm, weights, 0)
    (whole,) = problem.source.parts
    source = Arrays.of(whole.data, n_parts)
    sizes = [part.n_rows for part in source.parts]
    weight = None if problem.weight is None else np.concatenate(problem.weight)
    labels = None if problem.slots.of_row is None else np.concatenate(problem.slots.of_row)
    by_part = None if weight is None else tuple(np.split(weight, np.cumsum(sizes)[:-1]))
    slots = memory.assign(labels, problem.slots.n_sites, sizes, weight)
    problem = problem._replace(source=source, weight=by_part, slots=slots)
    given = Limits(**({"max_sweeps": 300, "tol": 1e-11, "seed": 0, "evidence": True} | limits))
    with Threads(2) as threads:
        walk, begun = Walk(problem, threads), None
        if algorithm.finds_groups:
            walk, begun = grouping.grouped(walk, algorithm, given, None)
        loop = Loop(walk, algorithm, given, begun or Progress.at(first_state(walk, 0)))
        return loop.result(loop.run(False, None), keep_data=True)


def distance(one, other):
    """The largest difference of a leaf, relative to its largest number."""
    pairs = zip(leaves(one.posterior), leaves(other.posterior), strict=True)
    return max(np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in pairs)


def test_one_part_is_what_a_fit_has():
    """The test's own test: with one part the loop gives what `cavity.fit` gives, bit for bit."""
    for algorithm in (cavity.aep(), cavity.sep(batch_size=20), cavity.daep(groups=MIXED)):
        ours = in_parts(MODELS["probit"], algorithm, 1, weights=WEIGHTS, max_sweeps=5, tol=0.0)
        theirs = cavity.fit(*MODELS["probit"], algorithm, weights=WEIGHTS, max_sweeps=5, tol=0.0)
        assert all(np.array_equal(a, b) for a, b in zip(leaves(ours.posterior), leaves(theirs.posterior), strict=True))
        assert ours.log_evidence == theirs.log_evidence


ONE_BATCH = {
    "aep": cavity.aep(),
    "parallel-ep": cavity.parallel_ep(),
    "daep": cavity.daep(groups=MIXED),
    "daep-sorted": cavity.daep(groups=SORTED),
    "averaged-vmp": cavity.averaged_vmp(),
    "parallel-power-ep": cavity.parallel_ep(power=0.5),
    "adf-all": cavity.Algorithm(0, None),
}
QUICK = [(model, name) for model in ("probit", "student-t") for name in ONE_BATCH] + [
    *(("logit", name) for name in ("aep", "daep")),
    *(("diagonal", name) for name in ("aep", "parallel-ep")),
    *(("clutter", name) for name in ("aep", "parallel-ep")),
    ("fewer-rows", "parallel-ep"),
]
PAIRS = [(model, name) for model in MODELS for name in ONE_BATCH]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize(("model", "name"), thinned(PAIRS, lambda *pair: pair in QUICK))
def test_all_rows_at_once(model, name, weights):
    """Rows of all parts are judged from one q: there is one sum, in whatever parts it is formed."""
    given = {"max_sweeps": 1 if name == "adf-all" else 5, "tol": 0.0, "weights": weights}
    one = in_parts(MODELS[model], ONE_BATCH[name], 1, **given)
    for n_parts in (2, PARTS, 10):
        several = in_parts(MODELS[model], ONE_BATCH[name], n_parts, **given)
        assert distance(several, one) < 1e-12
        np.testing.assert_allclose(several.log_evidence, one.log_evidence, rtol=1e-10)
        np.testing.assert_array_equal(several.history.skipped, one.history.skipped)


BATCHES = {
    "ep": cavity.ep(),
    "ep-batch": cavity.ep(batch_size=10),
    "sep": cavity.sep(),
    "sep-batch": cavity.sep(batch_size=10),
    "svi": cavity.svi(batch_size=10),
    "dsep": cavity.dsep(groups=MIXED, batch_size=10),
    "dsep-sorted": cavity.dsep(groups=SORTED, batch_size=10),
}
QUICK_BATCHES = [("probit", name) for name in BATCHES] + [("logit", "ep-batch"), ("clutter", "sep-batch")]
PAIRS = [(model, name) for model in MODELS for name in BATCHES]


@pytest.mark.parametrize(("model", "name"), thinned(PAIRS, lambda *pair: pair in QUICK_BATCHES))
def test_batches_of_parts(model, name):
    """Batches lie within parts, so that the way differs; where it ends does not."""
    one, several = (in_parts(MODELS[model], BATCHES[name], n_parts) for n_parts in (1, PARTS))
    assert several.posterior.distance(one.posterior) < 1e-8
    np.testing.assert_allclose(several.log_evidence, one.log_evidence, rtol=1e-8)


@pytest.mark.parametrize("name", ["sep-batch", "dsep-sorted"])
def test_batches_of_parts_with_weights(name):
    """The same where rows weigh different amounts, and some nothing."""
    one, several = (in_parts(MODELS["probit"], BATCHES[name], n_parts, weights=WEIGHTS) for n_parts in (1, PARTS))
    assert several.posterior.distance(one.posterior) < 1e-8


def test_a_conjugate_model_is_exact_in_any_number_of_parts():
    """One pass of ADF, in whatever order of parts, adds what all data say."""
    x = RNG.poisson(2.5, size=N).astype(float)
    for n_parts in (1, 2, PARTS, N):
        model = cavity.factors.poisson_rate(), cavity.Gamma(2.0, 1.5), x
        q = in_parts(model, cavity.adf(), n_parts, max_sweeps=1).posterior
        assert_trees_close(q, cavity.Gamma(2.0 + x.sum(), 1.5 + N), rtol=1e-11)


@pytest.mark.parametrize("rate", [cavity.robbins_monro(), lambda step: 1 / (1 + step)], ids=["schedule", "function"])
def test_steps_are_counted_over_all_parts(rate):
    """A rate that depends on the step sees the steps of a sweep once each, with as many in parts as in one."""
    algorithm = cavity.sep(batch_size=10, rate=rate)
    model = (MODELS["probit"][0], FULL, (X[:120], SIGNS[:120]))  # four batches in each part
    one, several = (in_parts(model, algorithm, n_parts, max_sweeps=3, tol=0.0) for n_parts in (1, PARTS))
    np.testing.assert_allclose(several.history.rate, one.history.rate, rtol=1e-14)


def test_svi_steps_know_the_weight_of_all_parts():
    """ρ N/M is of all rows: with one batch in each part and equal weights the mean of ε is n_parts ρ."""
    algorithm = cavity.svi(batch_size=40, rate=0.1)
    model = (MODELS["probit"][0], FULL, (X[:120], SIGNS[:120]))
    several = in_parts(model, algorithm, PARTS, max_sweeps=2, tol=0.0)
    np.testing.assert_allclose(several.history.rate, 0.1 * PARTS, rtol=1e-14)


@pytest.mark.parametrize("name", ["probit", pytest.param("clutter", marks=pytest.mark.slow)])
def test_groups_are_found_in_parts(name):
    """The error of sharing is a sum over all rows, and groups are of all rows."""
    algorithm = cavity.daep(groups="auto", n_sites=4)
    rng = np.random.default_rng(3)
    model = MODELS[name]
    if name == "probit":  # so few rows beside the columns that one site is not enough
        X = rng.normal(size=(40, 12)) * np.exp(rng.normal(size=(40, 1)))
        y = np.where(X[:, 0] > 0, 1.0, -1.0)
        model = cavity.factors.probit(), cavity.Gaussian.isotropic(12, 4.0), (X, y)
    one, several = (in_parts(model, algorithm, n_parts) for n_parts in (1, PARTS))
    if name == "probit":
        assert one.n_sites > 1
    assert np.array_equal(one.groups, several.groups)
    assert distance(several, one) < 1e-9
    np.testing.assert_allclose(several.sharing_error, one.sharing_error, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "name"),
    thinned(
        [(model, name) for model in ("probit", "student-t") for name in ("aep", "parallel-ep", "daep-sorted")],
        lambda model, name: model == "probit" and name != "daep-sorted",
    ),
)
def test_questions_after_a_fit(model, name):
    """Gradients, evidences of another likelihood and linear response are folds over all parts."""
    one, several = (in_parts(MODELS[model], ONE_BATCH[name], n_parts) for n_parts in (1, PARTS))
    assert_trees_close(several.evidence_gradient(), one.evidence_gradient(), rtol=1e-7)
    other = cavity.factors.student_t(4.0, 0.6) if model == "student-t" else MODELS[model][0]
    np.testing.assert_allclose(several.evidence_with(other), one.evidence_with(other), rtol=1e-10)
    if name == "aep":
        means = lambda result: result.linear_response(lambda q: q.mean)
        np.testing.assert_allclose(means(several).added, means(one).added, rtol=1e-7, atol=1e-12)


def test_blocks_in_parts():
    """A fit inside a block begins where its last one ended, in whichever part the block is."""
    blocks = cavity.factors.in_blocks((X, SIGNS), n_blocks=7)
    model = cavity.factors.nested(cavity.factors.probit()), FULL, blocks
    one, several = (in_parts(model, cavity.parallel_ep(), n, max_sweeps=3, tol=0.0) for n in (1, PARTS))
    assert distance(several, one) < 1e-12


def test_draws_of_blocks_in_parts():
    """Random numbers are keyed by the block, not by its place in a part: no two blocks have the same ones."""
    pytest.importorskip("numpyro")
    blocks = cavity.factors.in_blocks((X, SIGNS), n_blocks=6)
    factor = cavity.factors.sampled(cavity.factors.probit(), n_draws=16, n_chains=2, n_warmup=4)
    one, several = (in_parts((factor, FULL, blocks), cavity.parallel_ep(), n, max_sweeps=2, tol=0.0) for n in (1, 2))
    assert distance(several, one) < 1e-9


def test_rows_know_their_numbers():
    """A chunk says which rows of the data it has, counted over all parts: blocks of rows here, which ask for it."""
    blocks = cavity.factors.in_blocks((X, SIGNS), n_blocks=10)
    problem = Problem.of(cavity.factors.nested(cavity.factors.probit()), FULL, blocks, cavity.aep(), None, 0)
    problem = problem._replace(source=Arrays.of(problem.source.parts[0].data, PARTS))
    with Threads(1) as threads:
        walk = Walk(problem, threads)
        numbers = np.concatenate([walk.rows(part).number for part in range(PARTS)])
    assert np.array_equal(numbers, np.arange(10))


def test_parts_are_views():
    """A part of arrays in memory copies nothing, and parts cover all rows in order."""
    parts = Arrays.of((X, SIGNS), PARTS).parts
    assert all(np.shares_memory(part.read()[0], X) for part in parts)
    assert np.array_equal(np.concatenate([part.read()[0] for part in parts]), X)
    assert [part.n_rows for part in parts] == [43, 44, 44]


def test_a_fit_in_parts_goes_on():
    """Sites of the rows' own are kept part by part, and go on bit for bit."""
    for algorithm in (cavity.ep(batch_size=10), cavity.sep(batch_size=10)):
        whole = in_parts(MODELS["probit"], algorithm, PARTS, max_sweeps=6, tol=0.0)
        half = in_parts(MODELS["probit"], algorithm, PARTS, max_sweeps=3, tol=0.0)
        given = Limits(max_sweeps=3, tol=0.0, seed=0, evidence=False)
        with Threads(1) as threads:
            loop = Loop(Walk(half.fitted.walk.problem, threads), algorithm, given, half.progress)
            loop.run(False, None)
        pairs = zip(jax.tree.leaves(loop.progress.state), jax.tree.leaves(whole.progress.state), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)


def test_an_algorithm_with_groups_of_rows_that_weigh_nothing():
    """Labels are those of the user's rows; rows without weight are in no part."""
    algorithm = replace(cavity.daep(groups=SORTED), n_sites=6)  # two groups are empty
    one, several = (in_parts(MODELS["logit"], algorithm, n, weights=WEIGHTS, max_sweeps=4, tol=0.0) for n in (1, PARTS))
    assert distance(several, one) < 1e-12
