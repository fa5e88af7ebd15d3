"""KL(q‖p) = ⟨η − η', E_q[T]⟩ − A(η) + A(η') = E_q[log q − log p] ≥ 0, zero only at q = p."""

import mpmath as mp
import numpy as np
import pytest

from cavity.families import Beta, DiagonalGaussian, Dirichlet, ExpFamily, Gamma
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


def test_diagonal_gaussian_kl_and_distance_far_from_the_origin():
    # A mean of 1e6 sds: raw second moments of 1e12 would leave four digits.
    q = DiagonalGaussian.from_mean(np.array([1e6]), np.array([1.0]))
    p = DiagonalGaussian.from_mean(np.array([1e6 + 1e-3]), np.array([1.0]))
    np.testing.assert_allclose(q.kl(p), 0.5e-6, rtol=1e-6)
    np.testing.assert_allclose(q.distance(p), 1e-3, rtol=1e-6)
