"""Where statistical tests take their references from: real data, and a sampler."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest


def dataset(name):
    """Features and 0/1 labels of a set in the directory that CAVITY_DATA names."""
    pandas = pytest.importorskip("pandas")
    path = Path(os.environ.get("CAVITY_DATA", "data")) / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"set CAVITY_DATA to a directory that holds {path.name}")
    frame = pandas.read_csv(path)
    return frame.drop(columns="target").to_numpy(dtype=float), frame["target"].to_numpy()


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
