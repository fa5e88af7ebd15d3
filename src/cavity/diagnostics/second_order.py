"""How far EP's evidence is from exact, to second order in what its Gaussians leave out.

EP matches mean and variance of every tilted distribution; what it leaves out begins with their third cumulants.
Expanding the exact evidence in these, the terms of one datum alone vanish, and to second order

    log Z − log Z_EP ≈ ½ Σ_{m≠n} Σ_{l≥3} κ_{l,m} κ_{l,n}/l! · (Cov[a_m, a_n]/(Var[a_m] Var[a_n]))^l

with κ_{l,n} the l-th cumulant of activation a_n under its tilted distribution and the covariances those of q: Opper,
Paquet & Winther (2013), "Perturbative corrections for approximate inference in Gaussian latent variable models". The
terms l = 3 and 4 are kept. A correction that is not small says that the posterior is not Gaussian enough for EP.
"""

from typing import Any

import numpy as np


def correction(
    third: np.ndarray, fourth: np.ndarray, covariance: np.ndarray, weight: np.ndarray | None = None
) -> float:
    """The sum over pairs, from cumulants (n,) and the covariance (n, n) of the activations; weights count rows."""
    variance = np.diag(covariance)
    ratio = covariance / np.outer(variance, variance)
    copies = np.ones(len(variance)) if weight is None else weight
    total = 0.0
    for order, cumulant, factorial in ((3, third, 6.0), (4, fourth, 24.0)):
        scaled = copies * cumulant
        pairs = scaled @ ratio**order @ scaled
        alone = np.sum(copies * cumulant**2 / variance**order)  # a row with itself; its other copies are pairs
        total += 0.5 * (pairs - alone) / factorial
    return float(total)


def tilted_cumulants(
    log_lik: Any, mean: np.ndarray, variance: np.ndarray, tilted: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Third and fourth cumulants of N(a; mean, variance) exp(log_lik(a)), row by row.

    The grid spans `tilted`, the tilted means and variances; `log_lik` takes activations (row, point).
    """
    middle, spread = (np.asarray(part)[:, None] for part in tilted)
    grid = middle + np.sqrt(spread) * np.linspace(-12, 12, 481)
    log_density = log_lik(grid) - 0.5 * (grid - mean[:, None]) ** 2 / variance[:, None]
    density = np.exp(log_density - log_density.max(1, keepdims=True))
    density /= density.sum(1, keepdims=True)
    step = grid - np.sum(density * grid, 1, keepdims=True)
    second, third, fourth = (np.sum(density * step**order, 1) for order in (2, 3, 4))
    return third, fourth - 3 * second**2
