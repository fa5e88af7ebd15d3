"""What the exact posterior is: a long run of the No-U-Turn sampler, kept by content."""

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cavity
from cavity.datasets import cache_directory
from cavity.special import log_ndtr, log_sigmoid

N_CHAINS = 4
MIXED = 1.01  # R-hat above which a reference is none
LOG_LIKELIHOODS = {"probit": log_ndtr, "logit": log_sigmoid}  # of y xᵀθ: the functions that our own factors use


class Reference(NamedTuple):
    """A Gaussian with the mean and covariance of draws from the posterior, and how good it is."""

    posterior: cavity.Gaussian
    n_draws: int
    effective: float  # size of the sample, the worst over coefficients and products of two
    rhat: float  # the worst
    floor: float  # KL(p ‖ p̂) to expect between two such Gaussians from the finite number of draws

    def kl(self, q: cavity.Gaussian) -> float:
        """KL(p ‖ q), the paper's measure."""
        return float(self.posterior.kl(q))


def glm_potential(likelihood: str, X: np.ndarray, y: np.ndarray, prior_variance: float) -> Callable[[Any], Any]:
    """−log p(y, θ) of probit or logistic regression, up to a constant."""
    signed, log_lik = X * y[:, None], LOG_LIKELIHOODS[likelihood]
    return lambda theta: 0.5 * theta @ theta / prior_variance - log_lik(signed @ theta).sum()


def nuts_reference(
    likelihood: str, X: np.ndarray, y: np.ndarray, prior_variance: float, n_draws: int = 20_000, seed: int = 0
) -> Reference:
    """The posterior of probit or logistic regression with prior N(0, v I) and labels ±1, from the cache if it is there.

    The file's name is a checksum of all that decides the draws.
    """
    what = f"{likelihood} {prior_variance!r} {n_draws} {seed} {N_CHAINS} 2"
    content = hashlib.sha256(what.encode())
    for array in (X, y):
        content.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    path = cache_directory() / "references" / f"{content.hexdigest()[:32]}.npz"
    if not path.exists():
        summary = summarise(sample(glm_potential(likelihood, X, y, prior_variance), X.shape[1], n_draws, seed))
        if not summary["rhat"] < MIXED:
            raise RuntimeError(
                f"The sampler did not mix: R-hat is {summary['rhat']:.3f} with {n_draws:,} draws. Ask for more draws, "
                "or for a narrower prior."
            )
        keep(path, summary)
    with np.load(path, allow_pickle=False) as file:
        posterior = cavity.Gaussian.from_mean(file["mean"], file["covariance"])
        return Reference(posterior, n_draws, float(file["effective"]), float(file["rhat"]), float(file["floor"]))


def sample(potential: Callable[[Any], Any], dim: int, n_draws: int, seed: int, n_warmup: int = 1000) -> np.ndarray:
    """Draws of several chains (chain, draw, coefficient) in double precision."""
    import jax
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains on one device; whether they mixed is in the result
        kernel = NUTS(potential_fn=potential, dense_mass=True)
        chains = {"num_chains": N_CHAINS, "chain_method": "vectorized", "progress_bar": False}
        sampler = MCMC(kernel, num_warmup=n_warmup, num_samples=n_draws // N_CHAINS, **chains)
        sampler.run(jax.random.key(seed), init_params=np.zeros((N_CHAINS, dim)))
        return np.asarray(sampler.get_samples(group_by_chain=True))


def summarise(draws: np.ndarray) -> dict[str, Any]:
    """Mean, covariance, effective size and R-hat.

    A covariance is a mean of products, and chains may mix more slowly in those than in the coefficients.
    """
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    dim, flat = draws.shape[-1], draws.reshape(-1, draws.shape[-1])
    centred = draws - flat.mean(0)
    effective = float(np.min(effective_sample_size(draws)))
    for i in range(dim):
        effective = min(effective, float(np.min(effective_sample_size(centred[..., i:] * centred[..., [i]]))))
    effective = min(effective, len(flat))
    n_numbers = dim + dim * (dim + 1) / 2
    return {
        "mean": flat.mean(0),
        "covariance": np.cov(flat.T).reshape(dim, dim),
        "effective": effective,
        "rhat": float(np.max(split_gelman_rubin(draws))),
        "floor": n_numbers / (2 * effective),
    }


def keep(path: Path, arrays: dict[str, Any]) -> None:
    """All or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.replace(path)
