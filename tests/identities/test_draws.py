"""Draws where a naive sampler underflows have a finite log-density."""

import jax
import numpy as np
import pytest

from cavity.families import Beta, Dirichlet, Gamma


@pytest.mark.parametrize(
    "q",
    [Gamma(1e-4, 2.0), Beta(1e-4, 2e-4), Beta(1e3, 1e-4), Dirichlet(np.array([1e-4, 1e-3]))],
)
def test_draws_at_tiny_shapes_have_finite_logs(q):
    assert np.all(np.isfinite(q.log_prob(q.sample(jax.random.key(0), (4_000,)))))


def test_tiny_shapes_draw_the_right_logs():
    # E[log x] = ψ(a) − log b; a = 0.05 stays above the smallest double with probability 1 − 3e-16.
    q = Gamma(0.05, 2.0)
    logs = np.log(q.sample(jax.random.key(1), (4_000,)))
    assert abs(logs.mean() - q.moments().shape) < 5 * logs.std() / np.sqrt(len(logs))
