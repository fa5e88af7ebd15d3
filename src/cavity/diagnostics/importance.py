"""How good q is as a stand-in for the exact posterior: the importance weights of draws from it.

With θ drawn from q and log r = log p(data, θ) − log q(θ), the exact posterior is q reweighted by r. If the largest
weights follow a generalised Pareto distribution with shape k, sums over them converge well for k < 0.5, slowly up to
0.7 and not usefully beyond; and for less than two thousand draws the limit is lower (`khat_limit`). The largest weights
are replaced by what the distribution expects of them, which costs a little bias and saves much variance: Vehtari,
Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance sampling". The shape is estimated as Zhang & Stephens
(2009), "A new and efficient estimation method for the generalized Pareto distribution".
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import boxcox, logsumexp

ROUNDING = 1e-9  # of log ratios, which are differences of larger numbers
BY_CHANCE = 2.0  # standard errors that a number may be off
SHORTEST = 50  # weights in a tail that is looked at for itself


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
    return weighed(log_ratios)[0]


class Tail(NamedTuple):
    """The largest weights over the one before them, as a generalised Pareto distribution has them."""

    khat: float
    scale: float
    length: int

    @property
    def error(self) -> float:
        """Standard error of k-hat: that of maximum likelihood."""
        return float(max(1 + self.khat, 0.0) / np.sqrt(self.length))

    @classmethod
    def of(cls, ordered: np.ndarray, length: int) -> "Tail":
        """Of the last of ordered weights; k-hat is −∞ where they are all alike."""
        excess = ordered[-length:] - ordered[-length - 1]
        return cls(*pareto_tail(excess), length) if excess[-1] > 0 else cls(-np.inf, 0.0, length)


def weighed(log_ratios: np.ndarray) -> tuple[ImportanceCheck, np.ndarray, Tail]:
    """What the weights say, these with a sum of one, and their tail."""
    smooth, tail = smoothed(log_ratios)
    total = logsumexp(smooth)
    weights = np.exp(smooth - total)
    found = ImportanceCheck(tail.khat, float(total - np.log(len(weights))), float(1 / np.sum(weights**2)))
    return found, weights, tail


def khat_limit(n: int) -> float:
    """The largest k with which n draws still estimate usefully: Vehtari et al., equation (13)."""
    return float(min(1 - 1 / np.log10(n), 0.7))


def smoothed(log_ratios: np.ndarray) -> tuple[np.ndarray, Tail]:
    """Log ratios with the largest replaced by quantiles of their Pareto tail, and the tail."""
    n, top = len(log_ratios), np.max(log_ratios)
    n_tail = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    if np.ptp(log_ratios) <= ROUNDING * (1 + abs(top)):
        return log_ratios, Tail(-np.inf, 0.0, n_tail)
    order = np.argsort(log_ratios, kind="stable")[-n_tail - 1 :]
    ordered = np.exp(log_ratios[order] - top)
    tail = stable_tail(ordered)
    if tail.khat == -np.inf:
        return log_ratios, tail
    survival = 1 - (np.arange(tail.length) + 0.5) / tail.length
    quantiles = ordered[-tail.length - 1] + tail.scale * boxcox(1 / survival, tail.khat)  # (survival⁻ᵏ − 1) σ/k
    smooth = log_ratios.copy()
    smooth[order[-tail.length :]] = top + np.log(np.minimum(quantiles, 1.0))
    return smooth, tail


def stable_tail(ordered: np.ndarray) -> Tail:
    """The tail of all weights but the first, or of half of them, and so on, until its half has the same shape.

    Where q is symmetric and the exact posterior is not, many weights lie close together at the top of a hump, and few
    in the tail beyond it. A tail that begins on the hump looks much heavier than it is.
    """
    tail = Tail.of(ordered, len(ordered) - 1)
    while tail.length // 2 >= SHORTEST:
        half = Tail.of(ordered, tail.length // 2)
        if abs(half.khat - tail.khat) <= BY_CHANCE * half.error:
            break
        tail = half
    return tail


def pareto_tail(excess: np.ndarray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution from sorted positive excesses over its threshold.

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
    theta = np.sum(weight * grid)
    shape = np.mean(np.log1p(-theta * excess))
    return float((n * shape + 10 * 0.5) / (n + 10)), float(-shape / theta)
