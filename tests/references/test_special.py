"""The normal tail functions and the logistic function against mpmath, in value and in derivative."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import cavity
from cavity import special
from cavity.special import host

FAR = -np.geomspace(8.0, 1e150, 40)
POINTS = np.concatenate([FAR, np.linspace(-9.0, 9.0, 181), np.linspace(9.5, 37.0, 12)])


def truncated(z: float) -> tuple[mpmath.mpf, ...]:
    """log Φ, hazard, excess and variance; beyond z = −50 from 300 terms of the continued fraction."""
    z = mpmath.mpf(z)
    if z < -50:
        rest = mpmath.mpf(0)
        for k in range(300, 1, -1):
            rest = k / (-z + rest)
        excess = 1 / (-z + rest)
        hazard, variance = excess - z, excess * (rest - excess)
        log_ndtr = -z * z / 2 - mpmath.log(mpmath.sqrt(2 * mpmath.pi) * hazard)
    else:
        upper = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        hazard = mpmath.npdf(z) / (1 - upper)
        excess, variance, log_ndtr = hazard + z, 1 - hazard * (hazard + z), mpmath.log1p(-upper)
    return log_ndtr, hazard, excess, variance, hazard * (excess**2 - variance)


@pytest.fixture(scope="module")
def exact() -> np.ndarray:
    with mpmath.workdps(700):  # 1 − Φ(37) and 1 − Φ(−50) both need their digits
        return np.array([[float(part) for part in truncated(z)] for z in POINTS])


FUNCTIONS = [special.log_ndtr, special.hazard, special.hazard_excess, special.truncated_variance]


@pytest.mark.parametrize("column", range(4))
def test_truncated_normal(exact: np.ndarray, column: int) -> None:
    with jax.enable_x64(True):
        value = np.asarray(jax.jit(FUNCTIONS[column])(jnp.asarray(POINTS)))
    np.testing.assert_allclose(value, exact[:, column], rtol=1e-10)


@pytest.mark.parametrize("column", range(4))
def test_truncated_normal_on_the_host(exact: np.ndarray, column: int) -> None:
    value = FUNCTIONS[column](POINTS)
    assert isinstance(value, np.ndarray)
    np.testing.assert_allclose(value, exact[:, column], rtol=1e-14 if column < 3 else 1e-13, atol=1e-307)
    np.testing.assert_allclose(host.truncated(POINTS)[column], value, rtol=1e-14)
    np.testing.assert_array_equal([FUNCTIONS[column](z) for z in POINTS], value)


@pytest.mark.parametrize("column", range(3))
def test_derivatives(exact: np.ndarray, column: int) -> None:
    """log Φ′ = hazard, hazard′ = −hazard · excess, excess′ = variance."""
    slope = [exact[:, 1], -exact[:, 1] * exact[:, 2], exact[:, 3]][column]
    with jax.enable_x64(True):
        value = np.asarray(jax.jit(jax.vmap(jax.grad(FUNCTIONS[column])))(jnp.asarray(POINTS)))
    np.testing.assert_allclose(value, slope, rtol=1e-10)


def test_derivative_of_variance(exact: np.ndarray) -> None:
    near = POINTS > -1e3  # further out the third cumulant, 2/z³, loses the digits that it does not need
    with jax.enable_x64(True):
        value = np.asarray(jax.jit(jax.vmap(jax.grad(special.truncated_variance)))(jnp.asarray(POINTS[near])))
    np.testing.assert_allclose(value, exact[near, 4], rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_extremes_are_numbers(function) -> None:
    with jax.enable_x64(True):
        ends = jnp.array([-1e300, -1e155, 0.0, 1e4, 1e155, 1e300])
        assert not np.any(np.isnan(function(ends)))
        assert not np.any(np.isnan(jax.vmap(jax.grad(function))(ends[1:])))
        np.testing.assert_allclose(function(np.asarray(ends)), function(ends), rtol=1e-10, atol=1e-307)


def test_numbers_of_the_host_need_no_jax() -> None:
    code = "import sys; sys.modules['jax'] = None; from cavity.special import host; print(host.log_ndtr(-1e4))"
    loader = f"import types, sys; p = types.ModuleType('cavity'); p.__path__ = {[*cavity.__path__]}; "
    done = subprocess.run([sys.executable, "-c", loader + "sys.modules['cavity'] = p; " + code], capture_output=True)
    assert float(done.stdout) == pytest.approx(-50000010.12927892, rel=1e-14), done.stderr.decode()


def test_logistic() -> None:
    points = np.concatenate([np.linspace(-40, 40, 161), [-1e4, -700.0, 700.0, 1e4]])
    with mpmath.workdps(700):
        small = [mpmath.exp(-mpmath.mpf(z)) for z in points]
        log_sigmoid = np.array([float(-mpmath.log1p(e)) for e in small])
        slope = np.array([float(e / (1 + e)) for e in small])
        curve = np.array([float(-e / (1 + e) ** 2) for e in small])
    with jax.enable_x64(True):
        grad = jax.grad(special.log_sigmoid)
        np.testing.assert_allclose(special.log_sigmoid(jnp.asarray(points)), log_sigmoid, rtol=1e-13)
        np.testing.assert_allclose(jax.vmap(grad)(jnp.asarray(points)), slope, rtol=1e-13)
        np.testing.assert_allclose(jax.vmap(jax.grad(grad))(jnp.asarray(points)), curve, rtol=1e-13)
    np.testing.assert_allclose(special.log_sigmoid(points), log_sigmoid, rtol=1e-14)
    np.testing.assert_allclose(special.sigmoid(-points), slope, rtol=1e-14)
