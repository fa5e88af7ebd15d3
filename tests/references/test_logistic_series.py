"""The series for narrow cavities against high-precision integrals, and its polynomials against derivatives of σ."""

import mpmath as mp
import numpy as np
import pytest

from cavity.factors.glm.likelihoods import Logit, logistic_series

MEANS = np.array([-40.0, -12.0, -3.0, -0.7, -1e-3, 0.0, 1e-3, 0.4, 2.0, 5.0, 30.0])


def test_polynomials_are_derivatives_of_sigma():
    odd, even = logistic_series.derivatives_of_sigma(12)
    with mp.workdps(40):
        sigma = lambda a: 1 / (1 + mp.exp(-a))
        for a in (-1.3, 0.2, 2.1):
            u, t = float(sigma(a) * sigma(-a)), float(sigma(-a) - sigma(a))
            for j, polynomial in odd.items():
                np.testing.assert_allclose(u * polynomial(u), float(mp.diff(sigma, a, j)), rtol=1e-9, atol=1e-12)
            for j, polynomial in even.items():
                np.testing.assert_allclose(u * t * polynomial(u), float(mp.diff(sigma, a, j)), rtol=1e-9, atol=1e-12)


def integrated(mean: float, variance: float) -> tuple[float, float, float]:
    """ℓ, g and h by quadrature with forty digits."""
    with mp.workdps(40):
        sd, sigma = mp.sqrt(mp.mpf(variance)), lambda a: 1 / (1 + mp.exp(-a))
        density = lambda t: mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)
        expect = lambda f: mp.quad(lambda t: f(mean + sd * t) * density(t), [-14, -6, 0, 6, 14])
        z = expect(sigma)
        slope = expect(lambda a: sigma(a) * sigma(-a)) / z
        curve = expect(lambda a: sigma(a) * sigma(-a) * (sigma(-a) - sigma(a))) / z - slope**2
        return float(mp.log(z)), float(slope), float(curve)


@pytest.mark.parametrize("variance", [1e-9, 1e-4, 0.003999, 0.004001, 0.0199])
def test_ten_digits_of_everything(variance):
    expected = np.transpose([integrated(mean, variance) for mean in MEANS])
    for y in (1.0, -1.0):
        tilt = logistic_series.tilts(np.full(len(MEANS), y), y * MEANS, np.full(len(MEANS), variance))
        np.testing.assert_allclose(tilt.log_mean, expected[0], rtol=2e-10)
        np.testing.assert_allclose(tilt.slope, y * expected[1], rtol=2e-10)
        np.testing.assert_allclose(tilt.curvature, expected[2], rtol=2e-10)
        np.testing.assert_allclose(tilt.shrinkage, 1 + variance * expected[2], rtol=1e-12)


def test_rows_of_all_widths_are_as_each_by_itself():
    rng = np.random.default_rng(3)
    y, mean, variance = rng.choice([-1.0, 1.0], 300), 3 * rng.normal(size=300), 10 ** rng.uniform(-6, 2, 300)
    variance[::50], mean[7] = np.nan, np.nan
    together = Logit().tilts(y, mean, variance, 1.0)
    each = [Logit().tilts(y[i : i + 1], mean[i : i + 1], variance[i : i + 1], 1.0) for i in range(300)]
    for whole, parts in zip(together, zip(*each, strict=True), strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))
