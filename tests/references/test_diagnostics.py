"""Diagnostics against distributions and integrals that are known."""

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import genpareto, norm

import cavity
from cavity.diagnostics import calibration_curve, check_posterior, importance_check, score
from cavity.diagnostics.importance import pareto_shape


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3, 0.7, 1.0])
def test_the_shape_of_a_pareto_tail_is_recovered(shape):
    estimates = [pareto_shape(np.sort(genpareto(shape).rvs(400, random_state=seed))) for seed in range(30)]
    assert np.mean(estimates) == pytest.approx(shape, abs=0.05)


def test_importance_weights_of_a_normal():
    # q = N(0, s²) for p = N(0, 1): the weights are bounded where q is wider, otherwise their tail has shape 1 − s²
    def check(sd):
        draws = sd * np.random.default_rng(0).normal(size=100_000)
        return importance_check(norm.logpdf(draws) - norm.logpdf(draws, scale=sd) + 3.0)

    assert check(1.3).khat < 0
    assert check(1.3).log_evidence == pytest.approx(3.0, abs=0.01)
    assert check(0.5).khat == pytest.approx(0.75, abs=0.1)


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


def test_two_halves_of_one_row_are_one_row():
    rng = np.random.default_rng(4)
    features, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    model = cavity.LogisticClassifier().fit(features, y, sample_weight=np.full(30, 2.0))
    twice = cavity.LogisticClassifier().fit(features.repeat(2, 0), y.repeat(2))
    weighted = check_posterior(model, features, y, sample_weight=np.full(30, 2.0))
    repeated = check_posterior(twice, features.repeat(2, 0), y.repeat(2))
    assert weighted.correction == pytest.approx(repeated.correction, rel=1e-4)


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
