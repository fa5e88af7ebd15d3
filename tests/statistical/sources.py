"""Where statistical tests take their references from: real data, and a sampler."""

import os
import warnings

import numpy as np
import pytest

from cavity.datasets import load

needs_data = pytest.mark.skipif("CAVITY_DATA" not in os.environ, reason="set CAVITY_DATA to the data's directory")


def dataset(name):
    """Features and 0/1 labels of a set."""
    try:
        found = load(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return found.X, found.y


def nuts(potential, dim, seed=0, n_draws=20_000):
    """Draws after 1,000 of warm-up, in double precision."""
    pytest.importorskip("numpyro", reason="install cavity[nuts]")
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = NUTS(potential_fn=potential, dense_mass=True)
        sampler = MCMC(kernel, num_warmup=1000, num_samples=n_draws, progress_bar=False)
        sampler.run(jax.random.key(seed), init_params=jnp.zeros(dim))
        return np.asarray(sampler.get_samples())
