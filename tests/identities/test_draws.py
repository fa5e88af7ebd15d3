"""Draws where a naive sampler underflows have a finite log-density."""

import jax
import numpy as np
import pytest

from cavity.families import Beta, Dirichlet, Gamma

TINY = np.array([1e-4, 0.05])
CASES = {
    "gamma": Gamma(TINY, np.full(2, 2.0)),
    "beta": Beta(TINY, 2 * TINY),
    "beta near one": Beta(np.full(2, 1e3), TINY),
    "dirichlet": Dirichlet(np.array([[1e-4, 1e-3, 1.0], [0.05, 0.05, 0.05]])),
}


@pytest.mark.parametrize("name", CASES)
def test_draws_at_tiny_shapes_have_finite_logs(name):
    draws = CASES[name].sample(jax.random.key(0), (10_000,))
    assert np.all(np.isfinite(CASES[name].log_prob(draws)))


def test_tiny_shapes_draw_the_right_logs():
    # E[log x] = ψ(a) − log b; a draw at a = 0.05 falls below the smallest double with probability 4e-16.
    q = CASES["gamma"]
    logs = np.log(q.sample(jax.random.key(1), (10_000,)))[:, 1]
    assert abs(logs.mean() - q.moments().shape[1]) < 5 * logs.std() / np.sqrt(len(logs))
