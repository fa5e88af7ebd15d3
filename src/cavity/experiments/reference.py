"""What the exact posterior is: a long run of the No-U-Turn sampler, kept by content."""

import hashlib
import itertools
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
    draw = lambda: sample(glm_potential(likelihood, X, y, prior_variance), X.shape[1], n_draws, seed)
    what = f"{likelihood} {prior_variance!r} {n_draws} {seed} {N_CHAINS} 2"
    found = from_cache(what, (X, y), lambda: summarise(draw()))
    posterior = cavity.Gaussian.from_mean(found["mean"], found["covariance"])
    return Reference(posterior, n_draws, float(found["effective"]), float(found["rhat"]), float(found["floor"]))


class MixtureReference(NamedTuple):
    """Moments of each mean of a mixture (component, …) from draws from the posterior, and how good they are."""

    mean: np.ndarray
    covariance: np.ndarray  # of each mean by itself
    effective: float  # size of the sample, the worst over coordinates and products of two
    rhat: float  # the worst
    permuted: float  # share of the draws whose components had to be put in another order
    mean_floor: float  # averaged F-norm to expect between these moments and the posterior's own
    covariance_floor: float

    def errors(self, q: cavity.Gaussian) -> dict[str, float]:
        """Averaged F-norms, the paper's measures, and the error of the means in posterior standard deviations."""
        mean, covariance = np.asarray(q.mean) - self.mean, np.asarray(q.covariance) - self.covariance
        deviations = np.abs(mean) / np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        return {
            "mean": averaged_norm(mean),
            "covariance": averaged_norm(covariance),
            "average": float(deviations.mean()),
            "worst": float(deviations.max()),
        }


def averaged_norm(differences: np.ndarray) -> float:
    """The Frobenius norm of each component's difference, averaged over components."""
    return float(np.mean([np.linalg.norm(each) for each in differences]))


def mixture_potential(points: np.ndarray, noise: float, shape: tuple[int, int]) -> Callable[[Any], Any]:
    """−log p(x, θ) with assignments summed out, up to a constant; means ~ N(0, I), equal weights, variance `noise`."""
    import jax
    import jax.numpy as jnp

    def potential(theta: Any) -> Any:
        means = theta.reshape(shape)
        squares = jnp.sum((jnp.asarray(points)[:, None] - means) ** 2, axis=-1)
        return 0.5 * jnp.sum(means**2) - jax.nn.logsumexp(-0.5 * squares / noise, axis=1).sum()

    return potential


def mixture_reference(
    points: np.ndarray, start: np.ndarray, noise: float, n_draws: int = 80_000, seed: int = 0
) -> MixtureReference:
    """The posterior of a mixture's means around one of its alike modes, the one where `start` (component, D) is.

    All chains begin there, and every draw has its components put in the order of `start`.
    """

    def summary() -> dict[str, Any]:
        draws = sample(mixture_potential(points, noise, start.shape), start.size, n_draws, seed, start=start.ravel())
        ordered, permuted = aligned(draws.reshape(*draws.shape[:2], *start.shape), start)
        return summarise_mixture(ordered) | {"permuted": permuted}

    what = f"mixture {noise!r} {n_draws} {seed} {N_CHAINS} 1"
    found = from_cache(what, (points, start), summary)
    numbers = {name: float(found[name]) for name in MixtureReference._fields[2:]}
    return MixtureReference(found["mean"], found["covariance"], **numbers)


def aligned(draws: np.ndarray, anchor: np.ndarray) -> tuple[np.ndarray, float]:
    """Draws (…, component, D) in the order that is nearest to the anchor, and the share for which that is another."""
    orders = np.array(list(itertools.permutations(range(len(anchor)))))  # the first changes nothing
    squares = np.sum((draws[..., :, None, :] - anchor) ** 2, axis=-1)  # from each component to each of the anchor's
    best = np.argmin(sum(squares[..., orders[:, j], j] for j in range(len(anchor))), axis=-1)
    return np.take_along_axis(draws, orders[best][..., None], axis=-2), float(np.mean(best != 0))


def summarise_mixture(draws: np.ndarray) -> dict[str, Any]:
    """Moments by component of aligned draws (chain, draw, component, D), and how far from the truth they may be."""
    chains, n_draws, count, dim = draws.shape
    whole = summarise(draws.reshape(chains, n_draws, count * dim))
    centred = draws - draws.mean((0, 1))
    products = centred[..., :, None] * centred[..., None, :]
    return {
        "mean": whole["mean"].reshape(count, dim),
        "covariance": np.stack([whole["covariance"][i : i + dim, i : i + dim] for i in range(0, count * dim, dim)]),
        "effective": whole["effective"],
        "rhat": whole["rhat"],
        "mean_floor": averaged_norm(standard_error(draws)),
        "covariance_floor": averaged_norm(standard_error(products)),
    }


def standard_error(series: np.ndarray) -> np.ndarray:
    """Of the mean over draws and chains (chain, draw, …), by the effective size of the sample."""
    from numpyro.diagnostics import effective_sample_size

    return np.std(series, axis=(0, 1)) / np.sqrt(effective_sample_size(series))


def from_cache(
    what: str, arrays: tuple[np.ndarray, ...], summary: Callable[[], dict[str, Any]]
) -> dict[str, np.ndarray]:
    """What is known of draws, by words and arrays that decide them; computed if it is not there, kept if they mixed."""
    content = hashlib.sha256(what.encode())
    for array in arrays:
        content.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    path = cache_directory() / "references" / f"{content.hexdigest()[:32]}.npz"
    if not path.exists():
        computed = summary()
        if not computed["rhat"] < MIXED:
            raise RuntimeError(
                f"The sampler did not mix: R-hat is {computed['rhat']:.3f}. Ask for more draws, or a narrower prior."
            )
        keep(path, computed)
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def sample(
    potential: Callable[[Any], Any], dim: int, n_draws: int, seed: int, n_warmup: int = 1000, start: Any = 0.0
) -> np.ndarray:
    """Draws of several chains (chain, draw, coefficient) in double precision, all begun at the same place."""
    import jax
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains on one device; whether they mixed is in the result
        kernel = NUTS(potential_fn=potential, dense_mass=True)
        chains = {"num_chains": N_CHAINS, "chain_method": "vectorized", "progress_bar": False}
        sampler = MCMC(kernel, num_warmup=n_warmup, num_samples=n_draws // N_CHAINS, **chains)
        sampler.run(jax.random.key(seed), init_params=np.broadcast_to(np.asarray(start, float), (N_CHAINS, dim)))
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
