"""The inverse moment maps against mpmath, over the whole domain, with first and second derivatives.

References go forward: moments of chosen parameters with 50 digits, which the solver must take back.
"""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from cavity.families import Gamma
from cavity.families.concentrations import dirichlet_near, dirichlet_newton, near_concentrations
from cavity.families.inverse import (
    dirichlet_concentration,
    dirichlet_step,
    gamma_shape,
    half_step,
    wishart_df,
    wishart_half,
)
from cavity.families.roots import near_halves, newton
from cavity.families.stirling import (
    log_minus_digamma,
    log_minus_digamma_slope,
    trigamma,
    wishart_excess,
    wishart_excess_slope,
)

GRID = np.geomspace(1e-6, 1e8, 43)
EPS = np.finfo(float).eps


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(50):
        yield


TRACED = type(jax.jit(abs))  # functions that only JAX computes


def psi(order, a):
    return mp.psi(order, mp.mpf(a))


def run(function, *args):
    """The value in JAX."""
    with jax.enable_x64(True):
        return np.asarray(
            function(*(jnp.asarray(arg) if isinstance(arg, np.ndarray | np.generic) else arg for arg in args))
        )


def both(function, *args):
    """The values in NumPy and in JAX, one above the other."""
    with np.errstate(all="ignore"):
        return np.stack([function(*args), run(function, *args)])


def test_gamma_shape():
    excess = np.array([float(mp.log(a) - psi(0, a)) for a in GRID])
    np.testing.assert_allclose(both(gamma_shape, excess), [GRID] * 2, rtol=1e-13)
    assert np.all(np.isnan(gamma_shape(np.array([0.0, -1.0, np.nan, np.inf]))))


def test_gamma_shape_derivatives():
    excess, first, second = [], [], []
    for a in map(mp.mpf, GRID):
        slope, bend = 1 / a - psi(1, a), -1 / a**2 - psi(2, a)
        excess.append(float(mp.log(a) - psi(0, a)))
        first.append(float(1 / slope))
        second.append(float(-bend / slope**3))
    got = run(jax.jit(jax.vmap(jax.grad(gamma_shape))), np.array(excess))
    np.testing.assert_allclose(got, first, rtol=1e-11)
    got = run(jax.jit(jax.vmap(jax.grad(jax.grad(gamma_shape)))), np.array(excess))
    np.testing.assert_allclose(got, second, rtol=1e-10)


@pytest.mark.parametrize("dim", [8])
def test_wishart_df(dim):
    # The unknown is (ν − D + 1)/2, which ν = D − 1 + 2x itself can only hold to rounding.
    half = [mp.mpf(x) for x in GRID]
    total = lambda x: sum(psi(0, x + mp.mpf(i) / 2) for i in range(dim))
    excess = np.array([float(dim * mp.log(x + mp.mpf(dim - 1) / 2) - total(x)) for x in half])
    np.testing.assert_allclose(both(lambda s: wishart_half(s, dim), excess), [GRID] * 2, rtol=1e-12)
    np.testing.assert_allclose(both(lambda s: wishart_df(s, dim), excess), [dim - 1 + 2 * GRID] * 2, rtol=1e-12)
    slope = [float(1 / mp.diff(lambda x: dim * mp.log(x + mp.mpf(dim - 1) / 2) - total(x), x)) for x in half[5::9]]
    got = run(jax.jit(jax.vmap(jax.grad(lambda s: wishart_half(s, dim)))), excess[5::9])
    np.testing.assert_allclose(got, slope, rtol=1e-10)


def dirichlet_case(alpha):
    """E[log x] and the condition number of its inverse, max_j Σ_i |∂α_j/∂m_i| |m_i| / α_j."""
    parts = [mp.mpf(a) for a in alpha]
    total = sum(parts)
    mean_log = [psi(0, a) - psi(0, total) for a in parts]
    hessian = mp.diag([psi(1, a) for a in parts]) - psi(1, total) * mp.ones(len(parts))
    inverse = hessian**-1
    rows = [sum(abs(inverse[j, i] * mean_log[i]) for i in range(len(parts))) / parts[j] for j in range(len(parts))]
    return [float(m) for m in mean_log], float(max(rows)), inverse


def test_dirichlet_concentration():
    # 1e-10, or where that is not possible what rounding the moments alone costs: half of the digits at 1e8.
    rng = np.random.default_rng(0)
    alpha = np.concatenate(
        [10 ** rng.uniform(*span, (12, 3)) for span in [(-6, -3), (-3, 0), (-1, 3), (3, 8), (-6, 8)]]
    )
    mean_log, condition, _ = zip(*map(dirichlet_case, alpha), strict=True)
    error = np.max(np.abs(both(dirichlet_concentration, np.array(mean_log)) / alpha - 1), axis=(0, -1))
    assert np.all(error < np.maximum(1e-10, 20 * EPS * np.array(condition)))
    assert np.max(error[:36]) < 1e-10


def test_dirichlet_concentration_of_many_categories():
    alpha = 10 ** np.random.default_rng(1).uniform(-1, 2, 40)
    found = both(dirichlet_concentration, np.array(dirichlet_case(alpha)[0]))
    np.testing.assert_allclose(found, [alpha] * 2, rtol=1e-10)


def test_dirichlet_derivatives():
    # Along one direction v: the first by reverse mode, the second by forward mode over forward mode.
    alphas = [(1e-4, 3e-4, 2e-4), (0.5, 2.0, 9.0), (300.0, 80.0, 2000.0), (1e6, 2e6, 1e5)]
    mean_log, _, inverses = zip(*map(dirichlet_case, alphas), strict=True)
    v = np.array([1.0, -0.5, 0.25])
    along = lambda m: jax.jvp(dirichlet_concentration, (m,), (v,))[1]
    pulled = lambda m: jax.grad(lambda t: dirichlet_concentration(t) @ v)(m)
    first = run(jax.jit(jax.vmap(pulled)), np.array(mean_log))
    second = run(jax.jit(jax.vmap(lambda m: jax.jvp(along, (m,), (v,))[1])), np.array(mean_log))
    for alpha, inverse, slope, bend in zip(alphas, inverses, first, second, strict=True):
        step = inverse * mp.matrix(v)
        np.testing.assert_allclose(slope, [float(x) for x in step], rtol=1e-10 + 1e-14 * sum(alpha))
        # d²α = −H⁻¹ (ψ''(α) dα² − ψ''(Σα) (Σ dα)²)
        total = psi(2, sum(map(mp.mpf, alpha))) * sum(step) ** 2
        wanted = -inverse * mp.matrix([psi(2, a) * x**2 - total for a, x in zip(alpha, step, strict=True)])
        np.testing.assert_allclose(bend, [float(x) for x in wanted], rtol=1e-9 + 1e-13 * sum(alpha))


def test_impossible_moments_give_nan():
    # log E[x] < E[log x], or a point mass, or Σ exp E[log x_j] ≥ 1: no distribution has these.
    assert np.isnan(both(gamma_shape, np.array([-1.0, 0.0, np.nan, np.inf]))).all()
    assert np.isnan(both(lambda s: wishart_df(s, 3), np.array([-1.0, 0.0]))).all()
    assert np.isnan(both(dirichlet_concentration, np.log([[0.5, 0.7], [0.5, np.nan]]))).all()
    assert not Gamma(1.0, -2.0).from_moments().is_proper()  # E[log x] = 1 > log E[x] = log 2


def test_solvers_work_inside_vmap_and_do_not_mix_rows():
    excess = np.array([1e-8, 0.3, 1e5, -1.0])
    batched = run(jax.vmap(gamma_shape), excess)
    single = np.array([run(gamma_shape, s) for s in excess])
    np.testing.assert_allclose(batched, single, rtol=1e-13)


@pytest.mark.parametrize("copies", [1, 20])  # each by itself, or between nodes
@pytest.mark.parametrize("far", [True, False])  # with and without steps that go far
@pytest.mark.parametrize("dim", [1, 3, 20])  # with many dimensions, few nodes are not enough for 0.7 and 30
def test_steps_of_degrees_of_freedom_keep_their_digits(dim, copies, far):
    excess = lambda x: dim * mp.log(x + mp.mpf(dim - 1) / 2) - sum(psi(0, x + mp.mpf(i) / 2) for i in range(dim))
    for half in (0.05, 0.7, 30.0, 1e6):
        near = [-0.3 * half, -0.2 * half, 1e-3 * half, 0.1 * half, 0.3 * half]
        steps = np.array([-0.9 * half, -0.2 * half, 1e-3, 0.5, 5.0 * half] if far else near)
        change = np.array([float(excess(mp.mpf(half) + mp.mpf(h)) - excess(mp.mpf(half))) for h in steps])
        found = both(half_step, np.array([half]), np.repeat(change, copies), dim)
        np.testing.assert_allclose(found, [np.repeat(steps, copies)] * 2, rtol=1e-10, atol=4 * EPS * half)


@pytest.mark.parametrize("copies", [1, 20])  # each by itself, or between nodes where steps are small
@pytest.mark.parametrize("alpha", [[0.01, 1.0, 3.0], [5.0, 20.0, 1.0], [1e6, 2e5, 3.0], [1e6, 2e5, 30.0]])
def test_steps_of_concentrations_keep_their_digits(alpha, copies):
    steps = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [2.0, 0.3, -0.9], [0.2, -0.4, 0.6]])
    steps = np.maximum(steps, -0.9 * np.array(alpha))
    rise = lambda a, h: psi(0, mp.mpf(a) + mp.mpf(h)) - psi(0, a)
    gain = [[rise(a, h) - rise(sum(alpha), mp.fsum(row)) for a, h in zip(alpha, row, strict=True)] for row in steps]
    gain = np.repeat(np.array(gain, dtype=float), copies, axis=0)
    for found in both(dirichlet_step, np.array(alpha)[:, None], gain.T):
        rounding = 8 * EPS * sum(alpha)  # of the concentrations themselves
        np.testing.assert_allclose(found.T, np.repeat(steps, copies, axis=0), rtol=1e-9, atol=max(1e-9, rounding))


def test_small_steps_of_concentrations_are_interpolated_and_far_ones_refused():
    rng, alpha = np.random.default_rng(0), np.array([30.0, 400.0, 5e4])
    alpha, gain = alpha[:, None], (rng.dirichlet(np.ones(3), 100) / alpha - 1 / alpha.sum()).T
    answer = lambda a, g: dirichlet_near(near_concentrations(a), g)
    wanted = run(dirichlet_newton, alpha, gain)
    np.testing.assert_allclose(both(lambda a, g: answer(a, g)[0], alpha, gain), [wanted] * 2, rtol=1e-9, atol=1e-11)
    assert both(lambda a, g: answer(a, g)[1], alpha, gain).all()
    assert not both(lambda a, g: answer(a, g)[1], alpha, 10 * gain).any()


def test_slopes_are_those_of_the_functions():
    slope = [float(1 / mp.mpf(a) - psi(1, a)) for a in GRID]
    np.testing.assert_allclose(both(log_minus_digamma_slope, GRID), [slope] * 2, rtol=1e-12)
    np.testing.assert_allclose(both(trigamma, GRID), [[float(psi(1, a)) for a in GRID]] * 2, rtol=1e-13)
    with jax.enable_x64(True):
        for function, derivative in ((log_minus_digamma, log_minus_digamma_slope), (excess_of_three, slope_of_three)):
            by_jax = jax.vmap(jax.grad(function))(jnp.asarray(GRID))
            np.testing.assert_allclose(by_jax, derivative(GRID), rtol=1e-10)


def excess_of_three(half):
    return wishart_excess(half, 3)


def slope_of_three(half):
    return wishart_excess_slope(half, 3)


@pytest.mark.parametrize("dim", [1, 2, 10])
@pytest.mark.parametrize("farthest", [1.0, 0.2, 0.05, 1e-3])
def test_the_host_interpolates_as_far_as_it_is_asked(dim, farthest):
    """Every reach agrees with Newton's method, which takes over where interpolation is not exact."""
    half = np.array([[3.0], [40.0], [1e5]])
    change = wishart_excess(half, dim) * np.expm1(farthest * np.linspace(-1, 1, 300))
    near, wanted = near_halves(half, dim), inverse_by_newton(half, change, dim)
    np.testing.assert_allclose(half_step(half, change, dim, near) / half, wanted / half, rtol=1e-10, atol=1e-13)
    assert near.near(farthest).exact or farthest == 1.0


def inverse_by_newton(half, change, dim):
    return np.concatenate([half_step(half, part, dim) for part in np.split(change, change.shape[1], axis=1)], axis=1)


@pytest.mark.parametrize("dim", [1, 2, 10])
def test_newton_ends_where_it_arrives(dim):
    """Rounding leaves the last value above or below zero: that is no reason to bisect."""
    with jax.enable_x64(True), jax.disable_jit():
        half, seen = jnp.geomspace(0.6, 900.0, 60), []
        target = jnp.log(wishart_excess(half, dim))

        def residual(t):
            seen.append(t)
            at = jnp.exp(t)
            value = wishart_excess(at, dim)
            return jnp.log(value) - target, at * wishart_excess_slope(at, dim) / value

        found = newton(residual, jnp.log(half) + 0.5)
    np.testing.assert_allclose(found, np.log(half), rtol=1e-12)
    assert len(seen) < 10
