"""A second fit on the same shapes must not trace anything again."""

from collections.abc import Iterator

import jax.numpy as jnp

import cavity
from benchmarks.timing import probit_data


def lines() -> Iterator[str]:
    """How often the likelihood was traced by the first and by the second fit."""
    count = 0

    def log_lik(y: jnp.ndarray, a: jnp.ndarray) -> jnp.ndarray:
        nonlocal count
        count += 1
        return -jnp.logaddexp(0.0, -y * a)

    factor, prior = cavity.factors.glm(log_lik), cavity.Gaussian.isotropic(4)
    features, y = probit_data(1000, 4)
    traces = []
    for _ in range(2):
        before = count
        cavity.fit(factor, prior, (features, y), cavity.sep(batch_size=100))
        traces.append(count - before)
        features = features + 0.1
    yield f"traces of the likelihood: first fit {traces[0]}, second fit on the same shapes {traces[1]} (limit 0)"
