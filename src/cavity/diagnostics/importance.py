"""How good q is as a stand-in for the exact posterior: the tail of its importance weights.

With θ drawn from q and log r = log p(data, θ) − log q(θ), the exact posterior is q reweighted by r. If the largest
weights follow a generalised Pareto distribution with shape k, sums over them converge well for k < 0.5, slowly up to
0.7 and not usefully beyond: Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling". The
shape is estimated as Zhang & Stephens (2009), "A new and efficient estimation method for the generalized Pareto
distribution".
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

ROUNDING = 1e-9  # of log ratios, which are differences of larger numbers


class ImportanceCheck(NamedTuple):
    """What the weights of draws from q say."""

    khat: float  # shape of their tail: below 0.5 good, above 0.7 do not trust q
    log_evidence: float  # log of the mean weight: an estimate of the exact log Z, good where khat is
    effective_size: float  # of the draws, as draws from the exact posterior


def importance_check(log_ratios: Any) -> ImportanceCheck:
    """k-hat, evidence and effective sample size from log p(data, θ) − log q(θ) at draws θ ~ q."""
    log_ratios = np.asarray(log_ratios, dtype=float)
    if log_ratios.ndim != 1 or len(log_ratios) < 100:
        raise ValueError(f"log_ratios must be one array of at least 100 numbers; got shape {log_ratios.shape}.")
    if np.any(np.isnan(log_ratios)) or np.any(log_ratios == np.inf):
        raise ValueError("log_ratios must not hold NaN or +infinity.")
    weights = np.exp(log_ratios - logsumexp(log_ratios))
    return ImportanceCheck(
        tail_shape(log_ratios),
        float(logsumexp(log_ratios) - np.log(len(log_ratios))),
        float(1 / np.sum(weights**2)),
    )


def tail_shape(log_ratios: np.ndarray) -> float:
    """The shape k of the generalised Pareto tail of exp(log_ratios); −∞ where they differ by rounding only."""
    n = len(log_ratios)
    if np.ptp(log_ratios) <= ROUNDING * (1 + abs(np.max(log_ratios))):
        return -np.inf
    n_tail = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    ordered = np.sort(log_ratios)
    tail = np.exp(ordered[-n_tail:] - ordered[-1]) - np.exp(ordered[-n_tail - 1] - ordered[-1])
    return pareto_shape(tail) if tail[-1] > 0 else -np.inf


def pareto_shape(excess: np.ndarray) -> float:
    """Shape of a generalised Pareto distribution from sorted positive excesses over its threshold.

    The profile likelihood in θ = −k/σ is averaged over a grid with a weak prior; k is then shrunk towards one half by
    ten prior observations, which matters for short tails only.
    """
    n = len(excess)
    n_grid = 30 + int(np.sqrt(n))
    quartile = excess[int(n / 4 + 0.5) - 1]
    quartile = quartile if quartile > 0 else np.mean(excess)
    grid = 1 / excess[-1] + (1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))) / (3 * quartile)
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.mean(np.log1p(-grid[:, None] * excess), axis=1)
        profile = n * (np.log(-grid / shape) - shape - 1)
    profile = np.where(np.isnan(profile), -np.inf, profile)
    weight = np.exp(profile - logsumexp(profile))
    shape = np.mean(np.log1p(-np.sum(weight * grid) * excess))
    return float((n * shape + 10 * 0.5) / (n + 10))
