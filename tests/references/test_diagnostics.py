"""Diagnostics against distributions and integrals that are known."""

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import genpareto, norm

import cavity
from cavity.diagnostics import calibration_curve, check_posterior, importance_check, score
from cavity.diagnostics.importance import pareto_tail


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3, 0.7, 1.0])
def test_the_shape_of_a_pareto_tail_is_recovered(shape):
    estimates = [pareto_tail(np.sort(genpareto(shape).rvs(400, random_state=seed))) for seed in range(30)]
    assert np.mean(estimates, axis=0) == pytest.approx([shape, 1.0], abs=0.05)


def test_importance_weights_of_a_normal():
    # q = N(0, s²) for p = N(0, 1): the weights are bounded where q is wider, otherwise their tail has shape 1 − s²
    def check(sd):
        draws = sd * np.random.default_rng(0).normal(size=100_000)
        return importance_check(norm.logpdf(draws) - norm.logpdf(draws, scale=sd) + 3.0)

    assert check(1.3).khat < 0
    assert check(1.3).log_evidence == pytest.approx(3.0, abs=0.01)
    assert check(0.5).khat == pytest.approx(0.75, abs=0.1)


def test_an_exact_posterior_has_no_tail():
    rng = np.random.default_rng(8)
    features = rng.normal(size=(300, 4))
    y = features @ [1.0, 0.5, -0.5, 0.0] + rng.normal(size=300)
    model = cavity.GaussianRegressor(prior_variance="auto").fit(features, y)  # Gaussian, given the best prior and noise
    check = check_posterior(model, features, y)
    assert check.khat == -np.inf
    assert check.effective_share == pytest.approx(1.0)
    assert check.log_evidence == pytest.approx(model.log_evidence_, abs=1e-6)
    zero_weights = np.append(np.log(rng.pareto(1.0, 10_000)), -np.inf)
    assert importance_check(zero_weights).khat == pytest.approx(1.0, abs=0.15)


@pytest.mark.slow
def test_the_correction_brings_the_evidence_nearer_to_the_integral():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(12, 2))
    y = np.where(features @ [2.0, -1.0] + rng.normal(size=12) > 0, 1, 0)
    model = cavity.ProbitClassifier(prior_variance=4.0, fit_intercept=False).fit(features, y)
    line = np.linspace(-20, 20, 1001)
    theta = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    log_joint = log_ndtr(theta @ features.T * (2 * y - 1)).sum(1) - np.sum(theta**2, 1) / 8 - np.log(8 * np.pi)
    exact = logsumexp(log_joint) + 2 * np.log(line[1] - line[0])
    check = check_posterior(model, features, y)
    assert check.log_evidence == pytest.approx(exact, abs=0.01)
    assert abs(exact - model.log_evidence_ - check.correction) < 0.5 * abs(exact - model.log_evidence_)


@pytest.mark.slow
def test_two_halves_of_one_row_are_one_row():
    rng = np.random.default_rng(4)
    features, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    model = cavity.LogisticClassifier().fit(features, y, sample_weight=np.full(30, 2.0))
    twice = cavity.LogisticClassifier().fit(features.repeat(2, 0), y.repeat(2))
    weighted = check_posterior(model, features, y, sample_weight=np.full(30, 2.0))
    repeated = check_posterior(twice, features.repeat(2, 0), y.repeat(2))
    assert weighted.correction == pytest.approx(repeated.correction, rel=1e-4)


@pytest.mark.slow
def test_a_row_whose_activation_is_known_adds_nothing():
    rng = np.random.default_rng(5)
    features, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    model = cavity.ProbitClassifier(fit_intercept=False).fit(features, y)
    with_zeros = check_posterior(model, np.vstack([features, np.zeros((1, 2))]), np.append(y, 1))
    assert with_zeros.correction == pytest.approx(check_posterior(model, features, y).correction, rel=1e-9)


def test_a_posterior_with_two_peaks_is_not_reliable():
    # Cauchy noise around two places: EP settles on one of them, and its Gaussian has no tails
    y = np.array([-5.0, -5.1, 5.0, 5.1])
    options = {"df": 1.0, "scale": 0.1, "prior_variance": 100.0, "fit_intercept": False}
    model = cavity.StudentTRegressor(**options).fit(np.ones((4, 1)), y)
    check = check_posterior(model, np.ones((4, 1)), y)
    assert check.sd_shift > 0.1
    assert not check.reliable


@pytest.mark.slow
def test_repeated_hard_constraints_are_seen_by_the_correction_only():
    # θ > 0, said a hundred times: EP counts each as news. Cunningham, Hennig & Lacoste-Julien (2011), "Gaussian
    # probabilities and expectation propagation", explain why. The exact log Z is that of a single constraint.
    features, y = np.append(np.full(100, 100.0), -100.0)[:, None], np.append(np.ones(100), 0)
    model = cavity.ProbitClassifier(fit_intercept=False, standardize=False).fit(features, y)
    check = check_posterior(model, features, y)
    line = np.linspace(0, 10, 1_000_001)[1:]
    exact = np.log(np.sum(np.exp(101 * log_ndtr(100 * line) - 0.5 * line**2)) * 1e-5 / np.sqrt(2 * np.pi))
    assert abs(model.log_evidence_ - exact) > 0.3
    assert check.khat < 0.7
    assert not check.reliable


@pytest.mark.slow
@pytest.mark.parametrize("given", ["offset", "exposure"])
def test_counts_are_checked_with_their_exposure(given):
    rng = np.random.default_rng(6)
    features, exposure = rng.normal(size=(200, 2)), rng.uniform(0.5, 5.0, 200)
    y = rng.poisson(exposure * np.exp(features @ [0.5, -0.3]))
    more = {"exposure": exposure} if given == "exposure" else {"offset": np.log(exposure)}
    model = cavity.PoissonRegressor().fit(features, y, **more)
    check = check_posterior(model, features, y, **more)
    assert check.reliable
    assert check.log_evidence == pytest.approx(model.log_evidence_, abs=0.05)


def test_scores():
    y, probability = np.array([1, 0, 1, 1]), np.array([0.8, 0.4, 0.3, 0.9])
    scores = score(y, probability)
    assert scores.log_loss == pytest.approx(-np.mean(np.log([0.8, 0.6, 0.3, 0.9])))
    assert scores.brier == pytest.approx(np.mean([0.04, 0.16, 0.49, 0.01]))
    assert scores.error == 0.25
    rng = np.random.default_rng(0)
    probability = rng.uniform(size=200_000)
    honest = calibration_curve(rng.uniform(size=200_000) < probability, probability)
    assert honest.error < 0.01
    assert calibration_curve(rng.uniform(size=200_000) < probability**2, probability).error > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: score([0, 2], [0.1, 0.2]), "y must hold 0 and 1 only"),
        (lambda: score([0, 1], [0.1, 1.2]), "probability must lie between 0 and 1"),
        (lambda: importance_check(np.zeros(3)), "log_ratios must be one array of at least 100 numbers"),
        (lambda: importance_check(np.full(200, np.nan)), "log_ratios must not hold NaN"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
