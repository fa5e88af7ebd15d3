"""KL(q‖p) = ⟨η − η', E_q[T]⟩ − A(η) + A(η') = E_q[log q − log p] ≥ 0, zero only at q = p."""

import mpmath as mp
import numpy as np
import pytest

from cavity.families import Beta, DiagonalGaussian, Dirichlet, ExpFamily, Gamma, Gaussian, NormalWishart, Wishart
from tests.registry import FAMILIES, draws, member


@pytest.mark.parametrize("name", FAMILIES)
def test_kl_is_the_bregman_divergence_and_vanishes_at_self(name):
    q, p = member(name, seed=1), member(name, seed=2)
    np.testing.assert_allclose(q.kl(p), ExpFamily.kl(q, p), rtol=1e-11)
    assert q.kl(p) > 1e-2
    assert abs(q.kl(q)) < 1e-13
    np.testing.assert_allclose(q.distance(p) ** 2, q.kl(p) + p.kl(q), rtol=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_kl_is_the_mean_log_ratio(name):
    # Five standard errors at a fixed key.
    q, p = member(name), member(name, seed=1)
    ratio = q.log_prob(draws(name)) - p.log_prob(draws(name))
    assert abs(ratio.mean() - q.kl(p)) < 5 * ratio.std() / np.sqrt(len(ratio))


def gamma_kl(a, b, c, d):
    with mp.workdps(60):
        a, b, c, d = map(mp.mpf, (a, b, c, d))
        return float((a - c) * mp.psi(0, a) - mp.loggamma(a) + mp.loggamma(c) + c * mp.log(b / d) + a * (d - b) / b)


def dirichlet_kl(alpha, other):
    with mp.workdps(60):
        alpha, other = [mp.mpf(a) for a in alpha], [mp.mpf(a) for a in other]
        log_norm = lambda parts: mp.loggamma(sum(parts)) - sum(mp.loggamma(a) for a in parts)
        total = mp.psi(0, sum(alpha))
        mean = sum((a - b) * (mp.psi(0, a) - total) for a, b in zip(alpha, other, strict=True))
        return float(log_norm(alpha) - log_norm(other) + mean)


@pytest.mark.parametrize("shape", [1e-6, 1e-2, 9.0, 11.0, 1e4, 1e8])
def test_kl_does_not_cancel_at_extreme_shapes(shape):
    # One posterior sd apart: KL is about one half, while log Γ(1e8) is 2e9.
    other = shape * (1 + 1 / np.sqrt(shape)) if shape > 1 else 1.3 * shape
    np.testing.assert_allclose(Gamma(shape, 2.0).kl(Gamma(other, 2.1)), gamma_kl(shape, 2.0, other, 2.1), rtol=1e-10)
    alpha, beta = np.array([shape, 2 * shape, 0.7 * shape]), np.array([other, 2 * shape, 0.8 * other])
    np.testing.assert_allclose(Dirichlet(alpha).kl(Dirichlet(beta)), dirichlet_kl(alpha, beta), rtol=1e-10)
    wanted = dirichlet_kl((shape, 2.0), (other, 3.0))
    np.testing.assert_allclose(Beta(shape, 2.0).kl(Beta(other, 3.0)), wanted, rtol=1e-10)


def wishart_kl(df, rate, df_other, rate_other):
    with mp.workdps(60):
        df, df_other, rate, rate_other = mp.mpf(df), mp.mpf(df_other), mp.matrix(rate), mp.matrix(rate_other)
        halves = [(df - i) / 2 for i in range(rate.rows)]
        log_gammas = sum(mp.loggamma(a + (df_other - df) / 2) - mp.loggamma(a) for a in halves)
        digammas = (df - df_other) / 2 * sum(mp.psi(0, a) for a in halves)
        ratio = rate_other * rate**-1
        trace = sum(ratio[i, i] - 1 for i in range(ratio.rows))
        return log_gammas + digammas + (df * trace - df_other * mp.log(mp.det(ratio))) / 2


def normal_wishart_kl(mean, count, df, rate, mean_other, count_other, df_other, rate_other):
    """As for a Wishart, and the expectation of the KL between two Gaussians given W."""
    with mp.workdps(60):
        step = mp.matrix(mean) - mp.matrix(mean_other)
        square = (step.T * mp.matrix(rate) ** -1 * step)[0] * df
        ratio = mp.mpf(count_other) / mp.mpf(count)
        means = (len(mean) * (ratio - 1 - mp.log(ratio)) + count_other * square) / 2
        return float(means + wishart_kl(df, rate, df_other, rate_other))


@pytest.mark.parametrize("df", [2.0 + 1e-6, 2.5, 9.0, 22.0, 1e4, 1e8])
@pytest.mark.parametrize("same_mean", [True, False])
def test_wishart_kl_does_not_cancel_at_extreme_degrees_of_freedom(df, same_mean):
    # One posterior sd apart, or of equal mean, where KL falls like 1/ν and A(η) grows like ν log ν.
    base = np.array([[2.0, 0.3, -0.4], [0.3, 1.0, 0.2], [-0.4, 0.2, 1.5]])
    near = base + np.array([[0.5, 0.2, 0.1], [0.2, -0.3, 0.0], [0.1, 0.0, 0.4]]) / np.sqrt(df)
    other = df * (1 + 1 / np.sqrt(df))
    rate, rate_other = df * base, other * base if same_mean else df * near
    wanted = float(wishart_kl(df, rate.tolist(), other, rate_other.tolist()))
    np.testing.assert_allclose(Wishart(df, rate).kl(Wishart(other, rate_other)), wanted, rtol=1e-11)
    means, counts = ([0.0, 0.0, 0.0], [1 / df, 0.0, -1 / df]), (df, 1.1 * df)
    wanted = normal_wishart_kl(means[0], counts[0], df, rate.tolist(), means[1], counts[1], other, rate_other.tolist())
    shifts = [count * np.array(mean) for mean, count in zip(means, counts, strict=True)]
    q = NormalWishart(shifts[0], counts[0], df, rate)
    p = NormalWishart(shifts[1], counts[1], other, rate_other + np.outer(shifts[1], shifts[1]) / counts[1])
    np.testing.assert_allclose(q.kl(p), wanted, rtol=1e-11)


def test_gaussian_kl_between_neighbours():
    # KL of 1e-16: a difference of traces and determinants would be all rounding.
    q, step = Gaussian(np.ones(2), np.array([[2.0, 0.5], [0.5, 1.0]])), np.array([[1.0, 0.3], [0.3, -2.0]])
    p = Gaussian(q.shift + 1e-8 * (step @ q.mean), q.precision + 1e-8 * step)
    np.testing.assert_allclose(q.kl(p), 0.25e-16 * np.trace(np.linalg.matrix_power(q.covariance @ step, 2)), rtol=1e-6)


def test_diagonal_gaussian_kl_and_distance_far_from_the_origin():
    # A mean of 1e6 sds: raw second moments of 1e12 would leave four digits.
    q = DiagonalGaussian.from_mean(np.array([1e6]), np.array([1.0]))
    p = DiagonalGaussian.from_mean(np.array([1e6 + 1e-3]), np.array([1.0]))
    np.testing.assert_allclose(q.kl(p), 0.5e-6, rtol=1e-6)
    np.testing.assert_allclose(q.distance(p), 1e-3, rtol=1e-6)
