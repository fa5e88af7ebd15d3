"""Probabilities of several classes against integrals over all their activations at once."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from cavity.estimators.odds import LogitLink, ProbitLink, Sharpened, log_chosen, log_shares

LINKS = [LogitLink(), ProbitLink()]
NAMES = ["logit", "probit"]


def brute_force(link, mean, sd, n_nodes=1201, reach=9.0):
    """log E[o_c / Σ o] for two or three classes on a grid over all activations; the first dimension in slices."""
    z = np.linspace(-reach, reach, n_nodes)
    log_mass = -0.5 * z**2
    log_mass -= logsumexp(log_mass)
    log_odds = [link.log_odds(m + s * z) for m, s in zip(mean, sd, strict=True)]
    if len(mean) == 2:
        top = np.logaddexp(log_odds[0][:, None], log_odds[1])
        weight = log_mass[:, None] + log_mass
        return np.array([logsumexp(weight + log_odds[0][:, None] - top), logsumexp(weight + log_odds[1] - top)])
    answers = []
    rest = np.logaddexp(log_odds[1][:, None], log_odds[2])
    for here, mass in zip(log_odds[0], log_mass, strict=True):
        top = np.logaddexp(here, rest)
        weight = mass + log_mass[:, None] + log_mass
        answers.append([logsumexp(weight + part - top) for part in (here, log_odds[1][:, None], log_odds[2])])
    return logsumexp(answers, axis=0)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
@pytest.mark.parametrize("sd", [0.01, 0.4, 1.0, 3.0])
def test_two_classes(link, sd):
    rng = np.random.default_rng(0)
    for _ in range(3):
        mean, sds = rng.normal(size=2) * 2, sd * rng.uniform(0.7, 1.4, 2)
        value = log_shares(link, mean[None], sds[None])[0]
        np.testing.assert_allclose(np.exp(value), np.exp(brute_force(link, mean, sds)), atol=1e-7)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
@pytest.mark.parametrize("sds", [[0.2, 0.3, 0.5], [2.0, 0.05, 1.0], [0.8, 1.5, 3.0]])
def test_three_classes(link, sds):
    mean = np.array([0.5, -1.0, 1.5])
    value = log_shares(link, mean[None], np.array([sds]))[0]
    np.testing.assert_allclose(np.exp(value), np.exp(brute_force(link, mean, sds, 161)), atol=1e-6)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_known_activations_give_normalised_odds(link):
    mean = np.random.default_rng(1).normal(size=(5, 4)) * 3
    log_odds = link.log_odds(mean)
    exact = log_odds - logsumexp(log_odds, axis=1, keepdims=True)
    np.testing.assert_allclose(log_shares(link, mean, np.zeros((5, 4))), exact, rtol=1e-6)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_small_probabilities_keep_their_digits(link):
    mean, sds = np.array([3.0, -4.0]), np.array([0.5, 0.5])
    np.testing.assert_allclose(log_shares(link, mean[None], sds[None])[0], brute_force(link, mean, sds), rtol=1e-6)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_extreme_activations_stay_finite(link):
    mean = np.array([[1e5, -1e5, 0.0], [30.0, 29.0, -30.0], [0.0, 0.0, 0.0]])
    sd = np.array([[1.0, 10.0, 100.0], [1e-8, 1e-8, 1e-8], [1e4, 1e-4, 1.0]])
    value = log_shares(link, mean, sd)
    assert np.all(np.isfinite(value))
    probability = np.exp(value)
    np.testing.assert_allclose(probability[0], [1.0, 0.0, 0.0], atol=1e-12)
    log_odds = link.log_odds(mean[1])
    np.testing.assert_allclose(probability[1], np.exp(log_odds - logsumexp(log_odds)), rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(probability[2, 0], 0.5, atol=5e-3)  # so wide that the others are nothing beside it


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
@pytest.mark.parametrize("widest", [8.0, 20.0, 300.0, 3000.0])
def test_one_wide_class_among_narrow_ones(link, widest):
    mean, sds = np.array([0.0, 1.0, 2.0]), np.array([widest, 0.1, 0.1])
    wide = mean[0] + widest * norm.ppf((np.arange(200_000) + 0.5) / 200_000)  # the others hardly vary
    log_odds = np.column_stack([link.log_odds(wide), *(np.full(len(wide), link.log_odds(m)) for m in mean[1:])])
    exact = np.exp(log_odds - logsumexp(log_odds, axis=1, keepdims=True)).mean(0)
    np.testing.assert_allclose(np.exp(log_shares(link, mean[None], sds[None])[0]), exact, atol=5e-3)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_the_links_invert(link):
    activation = np.array([-30.0, -2.0, 0.0, 0.3, 8.0, 35.0])
    np.testing.assert_allclose(link.activation(link.log_odds(activation)), activation, rtol=1e-9, atol=1e-12)
    rise = link.log_odds(activation + 1e-5) - link.log_odds(activation - 1e-5)
    np.testing.assert_allclose(link.slope(activation), rise / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("link", LINKS, ids=NAMES)
def test_points_where_sharpness_is_looked_for_agree_with_the_integral(link):
    rng = np.random.default_rng(3)
    mean, sd, chosen = rng.normal(size=(6, 4)), rng.uniform(0.2, 1.0, (6, 4)), rng.integers(0, 4, 6)
    values = log_chosen(link, np.array([0.7, 1.4]), mean, sd, chosen)
    for column, power in zip(values.T, (0.7, 1.4), strict=True):
        exact = log_shares(Sharpened(link, power), mean, sd)[np.arange(6), chosen]
        np.testing.assert_allclose(np.exp(column), np.exp(exact), rtol=0.01, atol=5e-4)
