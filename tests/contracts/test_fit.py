"""What `fit` promises: warnings with results kept, records, callbacks, seeds, no second trace, nothing lost."""

import gc
import pickle
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.complaints import is_collapsing
from tests.registry import assert_trees_close, thinned

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 2))
Y = np.where(X @ np.array([1.0, -1.0]) + RNG.normal(size=50) > 0, 1.0, -1.0)
PRIOR = cavity.Gaussian.isotropic(2)


def probit(algorithm, **options):
    return cavity.fit(cavity.factors.probit(), PRIOR, (X, Y), algorithm, **options)


def test_non_convergence_is_a_warning_and_the_result_is_kept():
    with pytest.warns(cavity.ConvergenceWarning, match="Not converged after 2 sweeps"):
        result = probit(cavity.aep(), max_sweeps=2)
    assert not result.converged
    assert result.n_sweeps == 2
    assert bool(result.posterior.is_proper())


def test_history_has_one_entry_per_sweep_and_evidence_where_asked():
    result = probit(cavity.aep(), evidence="history")
    assert all(len(column) == result.n_sweeps for column in result.history)
    assert np.all(np.diff(result.history.seconds) > 0)
    np.testing.assert_allclose(result.history.log_evidence[-1], result.log_evidence, rtol=1e-12)
    assert np.isnan(probit(cavity.aep(), evidence=False).log_evidence)


def test_looking_at_the_evidence_of_groups_does_not_change_the_order_of_visits():
    algorithm, stop = cavity.dsep(n_sites=3, rate=0.5, batch_size=4), lambda sweep: sweep.number == 3
    looked, unseen = (probit(algorithm, evidence=evidence, callback=stop) for evidence in ("history", False))
    np.testing.assert_array_equal(looked.posterior.shift, unseen.posterior.shift)


def test_callback_sees_each_sweep_and_can_stop_it():
    seen = []

    def stop_at_three(sweep):
        seen.append(sweep)
        return sweep.number == 3

    result = probit(cavity.aep(), callback=stop_at_three)
    assert not result.converged
    assert [sweep.number for sweep in seen] == [1, 2, 3]
    assert seen[0].posterior.kl(result.posterior) > 1e-6  # each record keeps the posterior of its own sweep
    assert abs(seen[2].posterior.kl(result.posterior)) < 1e-12


def test_an_interrupted_fit_returns_what_it_has():
    def interrupt(sweep):
        if sweep.number == 2:
            raise KeyboardInterrupt

    with pytest.warns(cavity.ConvergenceWarning, match="Interrupted after 2 sweeps"):
        result = probit(cavity.aep(), callback=interrupt)
    assert result.n_sweeps == 2
    assert np.isfinite(result.log_evidence)


def test_progress_bar_is_shown_on_request(capsys):
    probit(cavity.aep(), progress=True)
    assert "sweeps" in capsys.readouterr().err
    probit(cavity.aep())
    assert capsys.readouterr().err == ""


def test_the_seed_decides_the_order_of_visits():
    options = {"max_sweeps": 1, "tol": 1e9}
    first = [probit(cavity.sep(batch_size=5), seed=seed, **options).posterior.mean for seed in (0, 0, 1)]
    np.testing.assert_array_equal(first[0], first[1])
    assert np.max(np.abs(first[0] - first[2])) > 1e-6


@pytest.mark.parametrize("passes", [2, 100])
def test_any_repeated_pass_of_adf_is_called_out(passes):
    with pytest.warns(cavity.CollapseWarning):
        probit(cavity.adf(), max_sweeps=passes)


@pytest.mark.parametrize("name", ["aep", "parallel_ep"])
def test_the_default_rate_converges_from_a_wide_prior(name):
    rng = np.random.default_rng(9)
    features = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y = np.where(features @ [2.0, -1.0, 0.5] + rng.logistic(size=60) > 0, 1.0, -1.0)
    prior = cavity.Gaussian.isotropic(3, 1e3)
    ep = cavity.fit(cavity.factors.probit(), prior, (features, y), cavity.ep())
    result = cavity.fit(cavity.factors.probit(), prior, (features, y), getattr(cavity, name)())
    assert result.converged
    assert ep.posterior.distance(result.posterior) < 0.3


def test_normalised_weights_are_not_skipped():
    # weights that sum to one: the cavity of a shared site keeps nothing of it but the prior
    weights = np.full(50, 1 / 50)
    results = [probit(algorithm, weights=weights) for algorithm in (cavity.sep(), cavity.aep())]
    assert all(result.converged for result in results)
    assert results[0].n_skipped == 0
    assert results[0].posterior.distance(results[1].posterior) < 1e-4


def test_draws_with_replacement_settle_by_a_decreasing_rate():
    with pytest.warns(cavity.ConvergenceWarning):
        result = probit(cavity.sep(batch_size=5, replace=True), max_sweeps=200, tol=1e-4)
    assert probit(cavity.aep()).posterior.kl(result.posterior) < 0.02


def test_empty_groups_change_nothing():
    groups = np.arange(50) % 2
    plain, padded = (probit(cavity.dsep(n_sites=n, groups=groups, batch_size=5)) for n in (2, 40))
    assert plain.n_sweeps == padded.n_sweeps
    assert abs(plain.posterior.kl(padded.posterior)) < 1e-10


def test_averaged_vmp_converges_where_a_full_step_overshoots():
    rng = np.random.default_rng(9)
    features = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    y = np.where(features @ [2.0, -1.0, 0.5] + rng.logistic(size=60) > 0, 1.0, -1.0)
    fit = lambda algorithm: cavity.fit(
        cavity.factors.logit(), cavity.Gaussian.isotropic(3, 100.0), (features, y), algorithm
    )
    ours, damped = fit(cavity.averaged_vmp()), fit(cavity.averaged_vmp(rate=0.5))
    assert ours.converged
    assert damped.converged
    assert damped.posterior.kl(ours.posterior) < 1e-8


def test_a_fit_that_cannot_move_is_not_called_converged():
    # Poisson at power 0 from a prior far too wide: precisions of e^135 that no later step can take back
    features = np.random.default_rng(9).normal(size=(20, 2))
    with pytest.warns(cavity.ConvergenceWarning):
        result = cavity.fit(
            cavity.factors.poisson(),
            cavity.Gaussian.isotropic(2, 100.0),
            (features, np.full(20, 7.0)),
            cavity.averaged_vmp(rate=0.5),
            max_sweeps=60,
        )
    assert not result.converged


def test_history_tells_the_rate_that_was_used():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        result = probit(cavity.aep(rate=0.25), max_sweeps=6)
    np.testing.assert_allclose(result.history.rate, 0.25)
    assert np.all(np.diff(result.history.change[:4]) < 0)  # per unit of rate: no saw-tooth


@pytest.mark.slow
def test_a_small_rate_is_not_taken_for_convergence():
    # each sweep moves q by a hundredth of the way: far from done, however small the steps
    exact = probit(cavity.averaged_vmp(), tol=1e-8).posterior
    result = probit(cavity.svi(batch_size=50, rate=0.01), tol=1e-2, max_sweeps=2000)
    assert result.converged
    assert exact.distance(result.posterior) < 2e-2
    assert result.n_sweeps > 300


def test_repeated_passes_of_adf_are_called_a_collapse():
    with pytest.warns(cavity.CollapseWarning, match="shrunk sweep after sweep"):
        result = probit(cavity.adf(), max_sweeps=12)
    assert np.all(np.diff(result.history.entropy) < 0)


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.aep(), cavity.sep(batch_size=5), cavity.vmp()])
def test_algorithms_that_settle_are_not(algorithm):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probit(algorithm)


def test_collapse_is_told_from_convergence():
    passes = np.arange(1.0, 21.0)
    assert is_collapsing(-0.5 * np.log(passes))
    assert not is_collapsing(np.exp(-passes))
    assert not is_collapsing(np.zeros(20))


@pytest.mark.parametrize(
    ("algorithm", "n_rows"),
    [(cavity.sep(batch_size=10), 50), (cavity.sep(batch_size=10), 60), (cavity.sep(), 80), (cavity.aep(), 70)],
    ids=["same shapes", "more rows", "row by row", "all rows at once"],
)
def test_a_second_fit_does_not_trace_again(algorithm, n_rows):
    traces = []

    def log_lik(y, a):
        if not isinstance(a, np.ndarray):  # numbers are tried first
            traces.append(1)
        return -0.5 * jnp.square(y - a)

    factor = cavity.factors.glm(log_lik)
    cavity.fit(factor, PRIOR, (X, Y), algorithm)
    first = len(traces)
    rng = np.random.default_rng(1)
    cavity.fit(factor, PRIOR, (rng.normal(size=(n_rows, 2)), rng.normal(size=n_rows)), algorithm, seed=3)
    assert len(traces) == first > 0


@pytest.mark.parametrize("algorithm", [cavity.aep(), cavity.ep(batch_size=10)], ids=["aep", "ep"])
def test_a_likelihood_in_numpy_is_not_traced(algorithm):
    kinds = set()

    def log_lik(y, a):
        kinds.add(type(a))
        return -0.5 * np.square(y - a)

    cavity.fit(cavity.factors.glm(log_lik), PRIOR, (X, Y), algorithm)
    assert kinds == {np.ndarray}


def test_different_factors_never_share_a_compiled_program():
    structures = [jax.tree.structure(getattr(cavity.factors, name)()) for name in ("probit", "logit", "poisson")]
    assert len({str(s) for s in structures}) == 3
    assert structures[0] != structures[1] != structures[2] != structures[0]


def test_a_product_prior_may_be_given_as_a_dict():
    def log_mean(q, x, power):
        mean, variance = q["mean"].mean, q["mean"].variance
        return jnp.sum(-0.5 * jnp.log(2 * jnp.pi * (1 + variance)) - 0.5 * (x - mean) ** 2 / (1 + variance))

    prior = {"mean": cavity.DiagonalGaussian(np.zeros(2), np.ones(2)), "unused": cavity.Gamma(2.0, 1.0)}
    result = cavity.fit(cavity.factors.custom(log_mean), prior, X, cavity.ep())
    np.testing.assert_allclose(result.posterior["mean"].mean, X.sum(0) / 51, atol=1e-8)
    np.testing.assert_allclose(result.posterior["unused"].shape, 2.0, atol=1e-8)


@pytest.mark.parametrize("algorithm", [cavity.ep(), cavity.sep()], ids=["ep", "sep"])
def test_a_fit_can_begin_where_another_ended(algorithm):
    wide = cavity.Gaussian.isotropic(2, 1.1)
    first = probit(algorithm)
    again = cavity.fit(cavity.factors.probit(), wide, (X, Y), algorithm, start=first, tol=1e-9)
    afresh = cavity.fit(cavity.factors.probit(), wide, (X, Y), algorithm, tol=1e-9)
    assert again.converged
    assert again.n_sweeps < afresh.n_sweeps
    assert abs(afresh.posterior.kl(again.posterior)) < 1e-9
    assert probit(algorithm, start=first).n_sweeps == 1
    with pytest.raises(ValueError, match="start must be a result for the same data and algorithm"):
        probit(cavity.aep() if algorithm == cavity.ep() else cavity.ep(), start=first)
    kept = pickle.loads(pickle.dumps(first))
    pickled = cavity.fit(cavity.factors.probit(), wide, (X, Y), algorithm, start=kept, tol=1e-9)
    np.testing.assert_array_equal(pickled.posterior.precision, again.posterior.precision)


MIXTURE = cavity.factors.mixture([0.5, 0.5], 0.3)
POINTS = np.concatenate([X[:20] - 2.0, X[20:40] + 2.0])
ALIKE = cavity.Gaussian.from_mean(np.zeros((2, 2)), np.stack([4 * np.eye(2)] * 2))
APART = cavity.Gaussian.from_mean([[-1.0, -1.0], [1.0, 1.0]], np.stack([4 * np.eye(2)] * 2))
SEVERAL = [cavity.ep(), cavity.sep(5), cavity.aep(), cavity.daep(2), cavity.daep(groups="auto")]


@pytest.mark.parametrize(
    "algorithm",
    thinned(SEVERAL, lambda algorithm: algorithm in SEVERAL[:2]),
    ids=["ep", "sep", "aep", "daep", "auto"],
)
def test_a_fit_can_begin_at_a_distribution(algorithm):
    result = cavity.fit(MIXTURE, ALIKE, POINTS, algorithm, start=APART)
    assert result.converged
    np.testing.assert_allclose(result.posterior.mean, [[-2.0, -2.0], [2.0, 2.0]], atol=0.5)


def test_alike_components_stay_alike_unless_a_fit_begins_elsewhere():
    with pytest.warns(cavity.SharingWarning):  # EP would not stay there
        stuck = cavity.fit(MIXTURE, ALIKE, POINTS, cavity.aep())
    np.testing.assert_allclose(stuck.posterior.mean[0], stuck.posterior.mean[1], atol=1e-6)
    assert cavity.fit(MIXTURE, ALIKE, POINTS, cavity.aep(), start=APART).log_evidence > stuck.log_evidence + 10


def test_where_a_fit_begins_is_checked():
    fit = lambda start, algorithm: cavity.fit(MIXTURE, ALIKE, POINTS, algorithm, start=start)
    with pytest.raises(ValueError, match="start must be None for ADF"):
        fit(APART, cavity.adf())
    with pytest.raises(ValueError, match="start must be a Result, or of the prior's family and shape"):
        fit(cavity.Gaussian.isotropic(2), cavity.ep())
    with pytest.raises(ValueError, match="start must be a proper distribution"):
        fit(-1.0 * APART, cavity.ep())
    with pytest.raises(ValueError, match="start must be a Result here"):
        probit(cavity.ep(), start=cavity.Gaussian.isotropic(2))
    moved = probit(cavity.aep(), start=cavity.Gaussian.from_mean([3.0, -3.0], np.eye(2)))
    assert abs(moved.posterior.kl(probit(cavity.aep()).posterior)) < 1e-9


GOING_ON = {
    "adf": cavity.adf(),
    "ep": cavity.ep(),
    "ep in batches": cavity.ep(batch_size=8),
    "parallel-ep": cavity.parallel_ep(),
    "aep": cavity.aep(),
    "slow aep": cavity.aep(rate=0.4),
    "sep row by row": cavity.sep(),
    "sep": cavity.sep(batch_size=5),  # the rate within a sweep halves from one to the next
    "sep on schedule": cavity.sep(batch_size=5, rate=cavity.robbins_monro()),
    "sep with replacement": cavity.sep(batch_size=5, replace=True),
    "dsep": cavity.dsep(n_sites=3, batch_size=4),
    "svi": cavity.svi(batch_size=5, rate=0.2),
}


def assert_same_progress(one, other):
    """Where two fits stand, to the last bit."""
    assert one.control == other.control
    assert_trees_close(one._replace(control=None), other._replace(control=None), rtol=0, atol=0)


def assert_same_course(fits, whole):
    """Fits that go on from each other and one in one piece agree to the last bit, in what they found and how."""
    assert_trees_close(fits[-1].posterior, whole.posterior, rtol=0, atol=0)
    assert_same_progress(fits[-1].progress, whole.progress)
    np.testing.assert_array_equal(fits[-1].log_evidence, whole.log_evidence)
    for name in ("change", "skipped", "backoffs", "rate", "entropy", "score"):
        pieces = np.concatenate([getattr(fit.history, name) for fit in fits])
        np.testing.assert_array_equal(pieces, getattr(whole.history, name))


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")
@pytest.mark.parametrize("name", GOING_ON)
def test_a_fit_goes_on_in_steps_as_in_one_piece(name):
    fits = []
    for n_sweeps in (4, 4, 4, 1):
        fits.append(probit(GOING_ON[name], max_sweeps=n_sweeps, start=fits[-1] if fits else None, tol=0))
    assert_same_course(fits, probit(GOING_ON[name], max_sweeps=13, tol=0))


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning")
@pytest.mark.parametrize("name", ["ep", "sep", "aep"])
def test_a_pickled_fit_goes_on_as_if_it_had_never_stopped(name):
    half = probit(GOING_ON[name], max_sweeps=3, tol=0)
    rest = probit(GOING_ON[name], max_sweeps=3, tol=0, start=pickle.loads(pickle.dumps(half)))
    assert_same_course([half, rest], probit(GOING_ON[name], max_sweeps=6, tol=0))


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning")
@pytest.mark.parametrize("name", thinned(["aep", "sep", "ep"], lambda name: name == "aep"))
def test_sweeps_that_are_combined_go_on_as_if_they_had_never_stopped(name):
    # overlapping parts of a mixture, where q is moved ahead of its sweeps: wherever it is stopped
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(-1, 1, 300), rng.normal(1.2, 0.8, 300)])[:, None]
    components = cavity.NormalGamma.from_parameters([[-1.0], [1.0]], np.full(2, 0.1), np.ones(2), np.ones(2))
    prior = {"weights": cavity.Dirichlet([2.0, 2.0]), "components": components}
    algorithm = {"aep": cavity.aep(), "sep": cavity.sep(batch_size=100), "ep": cavity.ep(batch_size=100)}[name]
    fit = lambda n_sweeps, start=None: cavity.fit(
        cavity.factors.gaussian_mixture(), prior, x, algorithm, max_sweeps=n_sweeps, start=start, tol=0
    )
    whole, halves = fit(20), [fit(first) for first in (3, 8, 9, 12, 17)]
    for half in halves:
        assert_same_course([half, fit(20 - half.n_sweeps, half)], whole)
    assert any(half.progress.control.leapt for half in halves) == (name == "aep")


@pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning")
def test_a_result_is_left_as_it_was_by_fits_that_go_on_from_it():
    for algorithm in GOING_ON.values():
        if algorithm.n_sites == 0:
            continue
        half = probit(algorithm, max_sweeps=2, tol=0)
        before = pickle.loads(pickle.dumps(half))
        once, again = (probit(algorithm, max_sweeps=2, tol=0, start=half) for _ in range(2))
        assert_same_progress(half.progress, before.progress)
        assert_same_progress(once.progress, again.progress)


def test_rounding_is_not_taken_for_slow_convergence():
    # more features than rows and hardly any noise: activations are known so well that rounding moves q by 1e-9 sd
    rng = np.random.default_rng(42)
    features, y = rng.uniform(size=(15, 30)), rng.integers(0, 3, 15).astype(float)
    factor, prior = cavity.factors.student_t(4.0, 1e-4), cavity.Gaussian.isotropic(30)
    first = cavity.fit(factor, prior, (features, y), cavity.ep(batch_size=2), tol=1e-10)
    assert first.converged
    assert first.n_sweeps < 60
    assert first.history.change[-1] < 1e-7
    assert first.history.rate[-1] == 1.0


def test_the_evidence_of_another_noise_moves_as_that_of_a_refit():
    y = X @ [1.0, -1.0] + 0.7 * np.random.default_rng(3).normal(size=50)
    fit = lambda noise: cavity.fit(cavity.factors.gaussian(noise), PRIOR, (X, y), cavity.ep(), keep_data=True)
    result = fit(0.5)
    held = lambda noise: result.evidence_with(cavity.factors.gaussian(noise))
    assert held(0.5) == pytest.approx(result.log_evidence, rel=1e-12)
    refitted = (fit(0.5001).log_evidence - fit(0.4999).log_evidence) / 0.0002
    assert (held(0.5001) - held(0.4999)) / 0.0002 == pytest.approx(refitted, rel=1e-6)


def asked(result):
    """What only a result with its data can answer."""
    return [
        result.evidence_gradient,
        lambda: result.evidence_with(cavity.factors.probit()),
        lambda: result.linear_response(lambda q: q.shift),
    ]


def test_a_result_can_be_pickled_without_its_data():
    result = probit(cavity.ep(), keep_data=True)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.posterior.precision, result.posterior.precision)
    np.testing.assert_array_equal(again.history.change, result.history.change)
    for ask in asked(result):
        ask()
    for without in (again, result.without_data(), probit(cavity.ep())):
        assert without.fitted is None
        for ask in asked(without):
            with pytest.raises(ValueError, match="fit with keep_data=True"):
                ask()


def test_a_result_does_not_hold_on_to_its_data():
    features, y = X.copy(), Y.copy()
    held = weakref.ref(features)
    result = cavity.fit(cavity.factors.probit(), PRIOR, (features, y), cavity.ep())
    size = len(pickle.dumps(result))
    wide = cavity.fit(cavity.factors.probit(), PRIOR, (np.repeat(X, 20, 0), np.repeat(Y, 20)), cavity.aep())
    del features
    gc.collect()
    assert held() is None
    assert bool(result.posterior.is_proper())
    assert len(pickle.dumps(wide)) < size + 4000  # as large for a thousand rows as for fifty


def test_the_global_flag_stays_off():
    probit(cavity.ep())
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.ones(3)}, "weights must have one entry per row"),
        ({"weights": -np.ones(50)}, "weights must be finite and non-negative"),
        ({"weights": np.zeros(50)}, "weights must be finite and non-negative"),
        ({"max_sweeps": 0}, "max_sweeps must be a positive integer"),
        ({"tol": -1.0}, "tol must be a non-negative number"),
        ({"seed": -1}, "seed must be a non-negative integer"),
        ({"evidence": "yes"}, "evidence must be"),
    ],
)
def test_settings_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        probit(cavity.aep(), **options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cavity.power_ep(0.001), "power must be 0 or in"),
        (lambda: cavity.sep(batch_size=0), "batch_size must be a positive integer"),
        (lambda: cavity.sep(rate=-1.0), "rate must be a positive number"),
        (lambda: cavity.dsep(), "n_sites must be given"),
        (lambda: cavity.dsep(groups="clever"), "groups must be"),
        (lambda: cavity.dsep(groups=np.array([0.5])), "groups must be"),
        (lambda: cavity.dsep(n_sites=2, groups=np.array([0, 2])), "groups must hold labels below"),
        (lambda: probit(cavity.dsep(groups=np.zeros(3, int))), "groups must have one label per row"),
        (lambda: probit("ep"), "algorithm must be one of"),
        (lambda: cavity.robbins_monro(decay=0.3), "decay must lie"),
        (lambda: cavity.robbins_monro("a"), "decay must be a positive finite number"),
        (lambda: cavity.Algorithm("all", 1, groups=np.zeros(50, int)), "groups must be None"),
        (
            lambda: probit(cavity.aep(), keep_data=True).evidence_with(cavity.factors.poisson()),
            "factor must be of the kind",
        ),
        (lambda: probit(cavity.aep(), keep_data=True).evidence_with("probit"), "factor must be of the kind"),
        (lambda: probit(cavity.aep()).evidence_with(cavity.factors.probit()), "This result does not hold its data"),
        (lambda: cavity.Algorithm(5, None), "groups must be given for n_sites=5"),
        (lambda: cavity.Algorithm(2, None, groups=np.arange(50) % 6), "groups must hold labels below"),
        (lambda: cavity.Algorithm("all", 10, replace=True), "replace must be False"),
        (lambda: cavity.Algorithm(1, 10, replace=True), "rate must be given with replace"),
        (lambda: probit(cavity.sep(rate=lambda t: None)), "rate must give finite"),
        (lambda: probit(cavity.ep(), callback=3), "callback must be a function"),
        (lambda: probit(cavity.ep(), weights=["a"] * 50), "weights must be numeric"),
        (lambda: cavity.fit(cavity.factors.probit, PRIOR, (X, Y), cavity.ep()), "factor must be a factor"),
        (lambda: probit(cavity.sep(rate=lambda t: float("nan"))), "rate must give finite"),
        (lambda: cavity.fit(cavity.factors.probit(), 3.0, (X, Y), cavity.ep()), "prior must be"),
        (lambda: cavity.fit(cavity.factors.probit(), cavity.Gamma(1.0, 1.0), (X, Y), cavity.ep()), "prior must be"),
        (lambda: cavity.fit(cavity.factors.probit(), -1.0 * PRIOR, (X, Y), cavity.ep()), "prior must be a proper"),
        (lambda: cavity.fit(cavity.factors.probit(), PRIOR, X, cavity.ep()), "data must be a pair"),
        (lambda: cavity.fit(cavity.factors.probit(), PRIOR, (X, Y[:3]), cavity.ep()), "y must have one entry per row"),
        (lambda: cavity.fit(cavity.factors.probit(), PRIOR, (X[:0], Y[:0]), cavity.ep()), "at least one row"),
        (lambda: cavity.fit(cavity.factors.probit(), PRIOR, (X[:, :1], Y), cavity.ep()), "X must have as many columns"),
    ],
)
def test_mistakes_are_named(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()
