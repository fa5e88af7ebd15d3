"""Mean and variance of an activation function of a Gaussian variable, in closed form, of NumPy's arrays or JAX's.

Each is written so that neither loses its digits in the tails: where the function is all but flat, or all but linear.
"""

from cavity._array import Array, namespace
from cavity.special import hazard_excess, log_ndtr, truncated_variance

LEAK = 0.01  # slope of the leaky ReLU below zero


def relu(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Of max(a, 0)."""
    mean_of, variance_of, _ = _rectified(mean, variance)
    return mean_of, variance_of


def leaky_relu(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Of max(a, 0) + LEAK · min(a, 0) = LEAK · a + (1 − LEAK) max(a, 0); Cov[a, max(a, 0)] = variance · P(a > 0)."""
    mean_of, variance_of, above = _rectified(mean, variance)
    both = LEAK**2 * variance + (1 - LEAK) ** 2 * variance_of + 2 * LEAK * (1 - LEAK) * variance * above
    return LEAK * mean + (1 - LEAK) * mean_of, both


def sin(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Of sin a: e^{−v/2} sin m and ½ (1 − e^{−v})(1 + e^{−v} cos 2m)."""
    xp = namespace(mean, variance)
    damping = xp.exp(-variance)
    mean_of = xp.exp(-0.5 * variance) * xp.sin(mean)
    return mean_of, -0.5 * xp.expm1(-variance) * (1 + damping * xp.cos(2 * mean))


def identity(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Of a itself."""
    return mean, variance


def _rectified(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Mean and variance of max(a, 0), and P(a > 0).

    From those of a where it is above zero: with r = m/s, e = φ(r)/Φ(r) + r and the truncated variance t, they are
    s Φ(r) e and s² Φ(r) (t + e² Φ(−r)), in which nothing cancels.
    """
    xp = namespace(mean, variance)
    scale = xp.sqrt(variance)
    ratio = mean / scale
    excess, above, below = hazard_excess(ratio), xp.exp(log_ndtr(ratio)), xp.exp(log_ndtr(-ratio))
    return scale * above * excess, variance * above * (truncated_variance(ratio) + excess**2 * below), above


ACTIVATIONS = {"relu": relu, "leaky_relu": leaky_relu, "sin": sin, "identity": identity}
