"""Networks: moments against quadrature, the projection against its definition, and compiled loops against autodiff."""

import pickle

import jax
import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import cavity
from cavity.factors.networks import gamma_noise, loops, varying_noise
from cavity.factors.networks.activations import ACTIVATIONS, LEAK
from cavity.factors.networks.factor import weights_site
from cavity.factors.networks.loops import refined_by_loop
from cavity.factors.networks.weight_prior import LEAST_SHARE, Refined, one_site, refine
from cavity.families import DiagonalGaussian, Gamma
from cavity.inference import order, scan
from cavity.inference.contract import Setting
from cavity.inference.sweep import Course, sweep
from cavity.inference.traced import Traced
from tests.registry import assert_trees_close, thinned
from tests.steps import first, walk_of

ALGORITHMS = {
    "adf": cavity.adf(),
    "adf in batches": cavity.adf(batch_size=4),
    "literal sep": cavity.sep(rate=1.0),
    "sep": cavity.sep(),
    "sep in batches": cavity.sep(batch_size=4),
    "slow sep": cavity.sep(batch_size=3, rate=0.3),
    "aep": cavity.aep(),
    "dsep": cavity.dsep(n_sites=3, groups="random", rate=1.0),
    "ep": cavity.ep(rate=1.0),
}

SIZES = [(3, 5, 1), (3, 4, 6, 1), (3, 5, 2), "labels"]
few = lambda name, sizes: sizes == SIZES[0] or name in ("literal sep", "ep", "sep in batches")  # what differs most


def from_python(part):
    """A part of compiled loops, which has no way in from Python."""
    from numba import njit

    return njit(lambda *arguments: part(*arguments))


def run(function, *args):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*args))


@pytest.mark.parametrize("ratio", [-40.0, -37.0, -20.0, -8.0, -3.0, -0.5, 0.0, 1e-3, 2.0, 6.0, 9.0, 25.0, 40.0])
def test_relu_moments_are_right_from_minus_to_plus_40_deviations(ratio):
    scale = 0.7
    with mp.workdps(60):
        r = mp.mpf(ratio)
        pdf, cdf = mp.npdf(r), mp.erfc(-r / mp.sqrt(2)) / 2
        mean = scale * (pdf + r * cdf)
        second = mp.mpf(scale) ** 2 * ((r**2 + 1) * cdf + r * pdf)
        wanted = float(mean), float(second - mean**2)
    found = run(ACTIVATIONS["relu"], np.float64(scale * ratio), np.float64(scale**2))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-300)
    compiled = pytest.importorskip("cavity.factors.networks.compiled.rectified")
    mean, variance, _, _ = out = np.zeros((4, 1))
    from_python(compiled.rectify)(1, np.array([scale * ratio]), np.array([scale**2]), *out)
    np.testing.assert_allclose([mean[0], variance[0]], wanted, rtol=1e-12, atol=1e-300)


def test_compiled_tails_lose_no_digits_from_minus_to_plus_40_deviations():
    compiled = pytest.importorskip("cavity.factors.networks.compiled.rectified")
    ratios = np.concatenate([np.linspace(-40, 40, 641), np.linspace(-0.01, 0.01, 21)])
    found = np.zeros((4, len(ratios)))
    from_python(compiled.rectify)(len(ratios), ratios, np.ones(len(ratios)), *found)
    with mp.workdps(60):
        tails = [(r, mp.npdf(r), mp.erfc(-r / mp.sqrt(2)) / 2) for r in map(mp.mpf, ratios.tolist())]
        first = [pdf + r * cdf for r, pdf, cdf in tails]
        second = [(r**2 + 1) * cdf + r * pdf - m**2 for (r, pdf, cdf), m in zip(tails, first, strict=True)]
        wanted = np.array([first, second, [cdf for _, _, cdf in tails], [pdf for _, pdf, _ in tails]], dtype=float)
    allowed = 1e-15 * (1 + ratios**2)  # a rounded r² / 2 is all that the exponential sees
    normal = wanted > 1e-305
    assert np.all((np.abs(found / np.where(normal, wanted, 1.0) - 1) <= allowed)[normal])
    assert np.all(found[~normal] < 1e-304)


@pytest.mark.parametrize("size", [41.0, 1e3, 1e150])
def test_compiled_tails_beyond_all_deviations(size):
    compiled = pytest.importorskip("cavity.factors.networks.compiled.rectified")
    found = np.zeros((4, 2))
    from_python(compiled.rectify)(2, np.array([-size, size]), np.ones(2), *found)
    np.testing.assert_array_equal(found, [[0, size], [0, 1], [0, 1], [0, 0]])


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.5), (-1.0, 2.0), (2.5, 0.01)])
def test_moments_of_activations_by_quadrature(name, mean, variance):
    functions = {
        "relu": lambda a: np.maximum(a, 0),
        "leaky_relu": lambda a: np.where(a > 0, a, LEAK * a),
        "sin": np.sin,
        "identity": lambda a: a,
    }
    normal = stats.norm(mean, np.sqrt(variance))
    moment = lambda k: integrate.quad(
        lambda a: functions[name](a) ** k * normal.pdf(a), *normal.interval(1 - 1e-15), points=[0.0], limit=200
    )[0]
    wanted = moment(1), moment(2) - moment(1) ** 2
    np.testing.assert_allclose(run(ACTIVATIONS[name], np.float64(mean), np.float64(variance)), wanted, rtol=1e-7)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(("shape", "rate"), [(3.0, 2.0), (500.0, 80.0), (1e6, 3e5)])
def test_the_noise_is_matched_in_its_first_two_moments(shape, rate, power):
    residual, variance = 0.9, 0.2
    with mp.workdps(50):

        def z(more):
            spread = mp.mpf(rate) / (mp.mpf(shape) + more - 1)
            total = variance + spread / power
            return (
                spread ** ((1 - mp.mpf(power)) / 2)
                * total ** mp.mpf(-0.5)
                * mp.exp(-(mp.mpf(residual) ** 2) / (2 * total))
            )

        first = mp.mpf(shape) / rate * z(1) / z(0)
        second = mp.mpf(shape) * (mp.mpf(shape) + 1) / mp.mpf(rate) ** 2 * z(2) / z(0)
        matched = first**2 / (second - first**2), first / (second - first**2)
        wanted = [float((new - old) / power) for new, old in zip(matched, (shape, rate), strict=True)]
    site = run(lambda: gamma_noise.site(np.float64(residual), variance, Gamma(shape, rate), power))
    np.testing.assert_allclose([site.shape, site.rate], wanted, rtol=1e-7)


def test_without_power_the_noise_is_updated_as_conjugacy_says():
    site = run(lambda: gamma_noise.site(np.float64(0.9), 0.2, Gamma(3.0, 2.0), 0.0))
    assert (site.shape, site.rate) == pytest.approx((0.5, 0.5 * (0.9**2 + 0.2)))


def test_a_prior_factor_takes_the_same_from_weight_and_precision_as_a_grid():
    # PBP matches moments of λ under a Gaussian log Z; where the cavity of λ is narrow this is the exact posterior
    cavity_w, cavity_l = DiagonalGaussian(0.4 / 0.3, 1 / 0.3), Gamma(400.0, 200.0)
    with jax.enable_x64(True):
        of_weight, of_precision = one_site(cavity_w, cavity_l)
        q = cavity_w + of_weight
        precision = cavity_l + of_precision
    grid = np.linspace(1.3, 2.9, 4001)
    w = np.linspace(-3, 3, 2001)[:, None]
    density = (
        stats.norm.pdf(w, 0.4, np.sqrt(0.3))
        * stats.norm.pdf(w, 0, grid**-0.5)
        * stats.gamma.pdf(grid, 400, scale=1 / 200)
    )
    density /= density.sum()
    mean = np.sum(density * w)
    np.testing.assert_allclose(q.mean, mean, rtol=3e-3)
    np.testing.assert_allclose(q.variance, np.sum(density * w**2) - mean**2, rtol=3e-3)
    np.testing.assert_allclose(precision.mean, np.sum(density * grid), rtol=1e-4)


def test_a_prior_factor_is_to_a_weight_what_the_slopes_of_log_z_say():
    weight, others = DiagonalGaussian(np.array([1.3, -0.2]), np.array([3.0, 0.1])), Gamma(4.0, 2.5)

    def by_slopes():
        log_mean = lambda mean, variance: gamma_noise.log_mean(mean, variance, others, 1.0)
        at = weight.mean, weight.variance
        return weights_site(at, jax.vmap(jax.grad(log_mean, (0, 1)))(*at), 1.0)

    wanted, found = run(by_slopes), run(lambda: one_site(weight, others)[0])
    np.testing.assert_allclose(wanted.shift, 0.0, atol=1e-14)
    np.testing.assert_array_equal(found.shift, 0.0)
    np.testing.assert_allclose(found.precision, wanted.precision, rtol=1e-13)


def test_the_compiled_round_over_prior_factors_is_the_plain_one():
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    weights = DiagonalGaussian(rng.normal(size=50), rng.uniform(0.5, 40.0, size=50))
    sites = DiagonalGaussian(np.zeros(50), np.where(np.arange(50) == 7, 50.0, 0.4))  # the eighth has no cavity
    now = Refined(
        weights, Gamma(np.float64(31.0), np.float64(17.0)), sites, Gamma(*rng.uniform(0.1, 0.4, size=(2, 50)))
    )
    for _ in range(3):
        wanted, found = run(refine, now), refined_by_loop(now)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
        now = wanted


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_noise_of_unknown_size_is_averaged_over(power):
    residual, variance, noise, log_size = 0.9, 0.2, Gamma(30.0, 12.0), varying_noise.LogSize(0.4, 0.3)
    normal = stats.norm(log_size[0], np.sqrt(log_size[1]))

    def log_of_one(s):
        limit = varying_noise.LIMIT
        sized = Gamma(np.float64(30.0), np.float64(12.0 * np.exp(limit * np.tanh(s / limit))))
        return float(run(lambda: gamma_noise.log_mean(np.float64(residual), variance, sized, power)))

    grid = np.linspace(*normal.interval(1 - 1e-12), 400)
    logs = np.array([log_of_one(s) for s in grid])
    mean = lambda values: np.trapezoid(values * normal.pdf(grid), grid)
    wanted = mean(logs) if power == 0 else np.log(mean(np.exp(power * logs))) / power
    found = run(lambda: varying_noise.log_mean(np.float64(residual), variance, log_size, noise, power))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_noise_of_known_size_is_noise_of_constant_size():
    noise, size = Gamma(30.0, 12.0), 0.7
    factor = np.exp(varying_noise.LIMIT * np.tanh(size / varying_noise.LIMIT))
    of_size = run(lambda: gamma_noise.site(np.float64(0.9), 0.2, Gamma(30.0, 12.0 * factor), 1.0))
    log_size = varying_noise.LogSize(np.float64(size), 1e-20)
    found = run(lambda: varying_noise.site(np.float64(0.9), 0.2, log_size, noise, 1.0))
    np.testing.assert_allclose([found.shape, found.rate * factor], [of_size.shape, of_size.rate], rtol=1e-8)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("mean", [-3e3, -60.0, -32.0, -29.0, -2.0, 0.0, 0.3, 7.0, 60.0])
def test_what_a_label_says_of_an_output(mean, y):
    compiled = pytest.importorskip("cavity.factors.networks.compiled.noise")
    from cavity.factors.networks.compiled.arrays import signals_in

    variance = 0.3
    room = np.zeros((8, 1, 1))
    signals = signals_in.py_func(room)
    signals.total[:], signals.spread[:] = mean, variance
    found = from_python(compiled.label)(room, 0, y), signals.by_mean[0, 0], signals.by_variance[0, 0]
    with mp.workdps(800):
        log_z = lambda m, v: mp.log(mp.erfc(-y * m / mp.sqrt(2 * (1 + v))) / 2)
        at = mp.mpf(mean), mp.mpf(variance)
        wanted = [log_z(*at), mp.diff(log_z, at, (1, 0)), mp.diff(log_z, at, (0, 1))]
    np.testing.assert_allclose(found, np.array(wanted, dtype=float), rtol=2e-11, atol=1e-300)


def always_scan(self, state, rows, plan, rates, counts, setting):
    """The batches of the general programs inside a compiled scan, however few they are."""
    return scan.visits(self.compiled, state, rows, plan, rates, counts, setting.power)


@pytest.fixture
def without_loops(monkeypatch):
    """The general engine instead of compiled loops: batch by batch, or scanned."""

    def choose(way):
        monkeypatch.setattr(loops, "has_loops", lambda *_: False)
        monkeypatch.setattr(Traced, "visits", {"batches": lambda *_: None, "scan": always_scan}[way])

    return choose


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
@pytest.mark.parametrize(("name", "sizes"), thinned([(name, sizes) for name in ALGORITHMS for sizes in SIZES], few))
def test_compiled_loops_are_the_general_engine(name, sizes, data, without_loops):
    assert_loops_are_the_engine(ALGORITHMS[name], sizes, data, None, without_loops)


def assert_loops_are_the_engine(algorithm, sizes, data, weights, without_loops):
    pytest.importorskip("numba")
    factor = cavity.factors.network(sizes if sizes != "labels" else (3, 5, 1), labels=sizes == "labels")
    data = (data[0], np.where(data[1] > 0, 1.0, -1.0)) if factor.labels else data
    options = {"weights": weights, "max_sweeps": 3, "tol": 0.0, "seed": 1, "evidence": False}
    fit = lambda: cavity.fit(factor, factor.prior(), data, algorithm, **options)
    fast = fit()
    assert np.all(np.isfinite(fast.history.score))
    for way in ("batches", "scan"):
        without_loops(way)
        slow = fit()
        for part in fast.posterior.parts:
            for a, b in zip(jax.tree.leaves(fast.posterior[part]), jax.tree.leaves(slow.posterior[part]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(fast.history.change, slow.history.change, rtol=1e-5)
        np.testing.assert_array_equal(fast.history.backoffs, slow.history.backoffs)


COUNTS = {"counts": np.arange(30) % 4.0, "shares": 0.1 + 0.3 * (np.arange(30) % 3)}


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
@pytest.mark.parametrize("weights", COUNTS)
@pytest.mark.parametrize(
    ("name", "sizes"),
    thinned(
        [(name, sizes) for name in ALGORITHMS for sizes in SIZES], lambda name, sizes: name == "ep" or few(name, sizes)
    ),
)
def test_compiled_loops_are_the_general_engine_for_rows_that_weigh(name, sizes, weights, data, without_loops):
    assert_loops_are_the_engine(ALGORITHMS[name], sizes, data, COUNTS[weights], without_loops)


@pytest.mark.parametrize("name", ["ep", "sep", "dsep"])
def test_q_begins_as_the_prior_and_all_sites_as_often_as_rows_weigh(name, data):
    factor = cavity.factors.network((3, 5, 1))
    walk = walk_of(factor, factor.prior(), data, ALGORITHMS[name], COUNTS["counts"] + 0.5)
    state = first(walk)
    assert_trees_close(state.q, state.prior + walk.total(state.sites), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
def test_weights_are_counts_where_all_rows_are_seen_at_once(data):
    factor, counts = cavity.factors.network((3, 5, 2)), np.arange(30) % 4
    again = lambda leaf: np.repeat(leaf, counts, axis=0)
    options = {"max_sweeps": 8, "tol": 0.0, "evidence": False}
    weighted = cavity.fit(factor, factor.prior(), data, cavity.aep(rate=1.0), weights=counts, **options)
    plain = cavity.fit(factor, factor.prior(), tuple(map(again, data)), cavity.aep(rate=1.0), **options)
    assert_trees_close(weighted.posterior, plain.posterior, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weighted.history.score, plain.history.score, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning")
def test_weights_are_counts_at_fixed_points_of_ep(data):
    """One site of a row that weighs two, and the sites of two equal rows, settle at the same q."""
    factor, counts = cavity.factors.network((3, 5, 1)), 1 + np.arange(30) % 2
    prior, rows = factor.prior(weight_variance=1.0), tuple(np.repeat(leaf, counts, axis=0) for leaf in data)
    fit = lambda data, weights, algorithm, n_sweeps, start=None: cavity.fit(
        factor, prior, data, algorithm, weights=weights, max_sweeps=n_sweeps, tol=0.0, evidence=False, start=start
    )
    begin = fit(data, counts, ALGORITHMS["literal sep"], 30).posterior
    weighted = fit(data, counts, ALGORITHMS["ep"], 400, begin)
    repeated = fit(rows, None, ALGORITHMS["ep"], 400, begin)
    assert max(weighted.history.change[-1], repeated.history.change[-1]) < 1e-10  # both have settled
    assert_trees_close(weighted.posterior, repeated.posterior, rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_compiled_loops_tell_scores_and_the_general_engine_knows_none(name, data, without_loops):
    pytest.importorskip("numba")
    factor = cavity.factors.network((3, 5, 1))
    fit = lambda: cavity.fit(factor, factor.prior(), data, ALGORITHMS[name], max_sweeps=2, tol=0.0, evidence=False)
    fast = fit()
    assert np.all(np.isfinite(fast.history.score))
    assert np.all(fast.history.score < 0)
    np.testing.assert_array_equal(fast.sampling, fast.history.score)
    for way in ("batches", "scan"):
        without_loops(way)
        assert np.all(np.isnan(fit().history.score))


AT_ONCE = {
    "aep": cavity.aep(),
    "aep, decreasing": cavity.aep(rate=cavity.robbins_monro()),
    "daep": cavity.daep(n_sites=3),
    "daep, decreasing": cavity.daep(n_sites=3, rate=cavity.robbins_monro()),
    "adf": cavity.Algorithm(0, None),
}
WEIGHTS = {"ones": None, "counts": np.arange(30) % 3 + 1.0, "less than one in all": np.full(30, 0.02)}


def two_sweeps(walk, algorithm):
    """Two sweeps with all rows as the batch, and what the engine is told of the second."""
    made = sweep(walk, first(walk), Course(algorithm, 0, 1, 1.0))
    return sweep(walk, made.state, Course(algorithm, 0, 2, 1.0))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    ("name", "sizes"),
    thinned([(name, sizes) for name in AT_ONCE for sizes in SIZES[:3]], lambda _, sizes: len(sizes) < 4),
)
def test_all_rows_at_once_are_the_general_engine_with_and_without_loops(name, sizes, weights, data, monkeypatch):
    """Groups are judged from one q, and a step is counted once; less than a whole site is left in part."""
    pytest.importorskip("numba")
    factor, algorithm = cavity.factors.network(sizes), AT_ONCE[name]
    given = factor, factor.prior(), data, algorithm, WEIGHTS[weights]
    fast = two_sweeps(walk_of(*given), algorithm)
    by_loops = bool(np.isfinite(fast.info.score))
    assert by_loops == (not name.startswith("daep"))
    monkeypatch.setattr(loops, "has_loops", lambda *_: False)
    slow = two_sweeps(walk_of(*given), algorithm)
    assert (fast.is_a_map, fast.rate) == (slow.is_a_map, slow.rate)
    assert fast.info.backoffs == slow.info.backoffs
    forget = lambda made: made.state._replace(inner=None)  # scores are of loops alone
    assert_trees_close(forget(fast), forget(slow), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("sizes", [(3, 5, 1), (3, 5, 2)])
def test_a_row_that_holds_nearly_all_of_a_weight_leaves_it_alone(sizes, data):
    """Compiled loops and the general engine, from sites of which some have no cavity, or one that does not count."""
    pytest.importorskip("numba")
    factor, algorithm, rng = cavity.factors.network(sizes), cavity.ep(rate=1.0), np.random.default_rng(3)
    walk = walk_of(factor, factor.prior(), data, algorithm)
    state = first(walk)
    weights = state.sites[0]["weights"]
    weights.precision[:] = rng.uniform(0.0, 0.02, size=weights.precision.shape)
    weights.precision[rng.integers(30, size=40), rng.integers(factor.n_weights, size=40)] = 200.0
    state = state._replace(q=state.prior + walk.total(state.sites))
    assert bool(state.q.is_proper())
    share = weights.precision / state.q["weights"].precision
    assert np.sum(share > 1 - LEAST_SHARE) >= 5
    plan, rates = order.plan(np.random.default_rng(0), walk.slots, 0, 30, 1, False), np.ones(30)

    def by_loops(state):
        return loops.visits(factor, algorithm.settles, state, walk.rows(0, state), plan, rates, walk.slots.counts)[0]

    def by_batches(state):
        rows = walk.rows(0, state)
        for which in plan.rows:
            state, _ = walk.own_step(state, 0, rows, which, 1, 1.0, Setting(1.0))
        return state

    def by_scan(state):
        rows = walk.rows(0, state)
        return always_scan(walk.sums.traced, state, rows, plan, rates, walk.slots.counts, Setting(1.0))[0]

    begin = lambda: jax.tree.map(np.array, state)  # sites change in place
    fast = by_loops(begin())
    for slow in (by_batches(begin()), by_scan(begin())):
        assert_trees_close((fast.q, fast.sites), (slow.q, slow.sites), rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_network_goes_on_as_if_it_had_never_stopped(name, data):
    factor = cavity.factors.network((3, 5, 1))
    run = lambda n_sweeps, start=None: cavity.fit(
        factor, factor.prior(), data, ALGORITHMS[name], max_sweeps=n_sweeps, tol=0, start=start, evidence=False
    )
    half, whole = run(2), run(4)
    kept = pickle.loads(pickle.dumps(half))
    for start in (kept, half, half):  # which is left as it was
        rest = run(2, start)
        assert_trees_close(rest.posterior, whole.posterior, rtol=0, atol=0)
        assert_trees_close(rest.progress.state, whole.progress.state, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:log_evidence is NaN")
@pytest.mark.parametrize("algorithm", [cavity.adf(), cavity.adf(4), cavity.sep(rate=1.0)])
def test_a_network_has_no_evidence(algorithm, data, without_loops):
    factor = cavity.factors.network((3, 5, 1))
    once = lambda: cavity.fit(factor, factor.prior(), data, algorithm, callback=lambda sweep: True)
    assert np.isnan(once().log_evidence)
    for way in ("batches", "scan"):
        without_loops(way)
        assert np.isnan(once().log_evidence)
