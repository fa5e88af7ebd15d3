"""Where clusters overlap the data couple parameters that q takes for independent: what that adds to their spread.

If the assignments were known, the sufficient statistics would have the covariance H of a conjugate posterior, block by
block. Not to know them costs Σ_n Cov[s_h(x_n)], the covariance under the responsibilities of what a row adds to the
natural parameters: Louis (1982). The posterior of the statistics is then about (H⁻¹ − Σ_n Cov)⁻¹, equation (51), which
is the linear response of a variational fixed point (Giordano, Broderick and Jordan 2015; `Result.linear_response` has
it for any model). Statistics are those of y = μ − m, in which H is block diagonal.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag, solve_triangular
from scipy.special import digamma, polygamma

from cavity.estimators.mixture.correction import Correction
from cavity.estimators.mixture.model import given_shares
from cavity.estimators.mixture.posterior import MixturePosterior
from cavity.families import Product
from cavity.inference.contract import CHUNK
from cavity.inference.source import Arrays, chunks
from cavity.inference.threads import one_blas_thread

CERTAIN = 1e-6  # what is left to other components by a row whose assignment is taken for known
NUMBERS = 2**16  # in what is formed of some rows at a time: fewer are more calls of small functions
MOST_LOST = 0.99  # of what assignments would tell of a direction: beyond, a first-order answer says nothing


class Block(NamedTuple):
    """The statistics of one component, or of one of its features."""

    fisher: np.ndarray  # H, their covariance under q
    with_means: np.ndarray  # their covariance with μ, a column for each feature
    with_variances: np.ndarray  # and with log σ²


def wishart_block(posterior: MixturePosterior, j: int) -> Block:
    """Of (Wy, −½ yᵀWy, ½ log |W|, −½ W), off-diagonal entries of W once."""
    dim = posterior.mean.shape[1]
    count, shape, rate = posterior.count[j, 0], posterior.shape[j, 0], 2 * posterior.rate[j]
    df, scale = 2 * shape + dim - 1, np.linalg.inv(rate)
    row, column = np.triu_indices(dim)
    fisher = np.zeros((dim + 2 + len(row),) * 2)
    fisher[:dim, :dim] = df * scale / count
    fisher[dim, dim] = 0.5 * dim / count**2
    fisher[dim + 1, dim + 1] = 0.25 * np.sum(polygamma(1, 0.5 * (df - np.arange(dim))))
    fisher[dim + 1, dim + 2 :] = fisher[dim + 2 :, dim + 1] = -0.5 * scale[row, column]
    pairs = lambda a, b: scale[np.ix_(a, b)]
    fisher[dim + 2 :, dim + 2 :] = (
        0.25 * df * (pairs(row, row) * pairs(column, column) + pairs(row, column) * pairs(column, row))
    )
    means, variances = np.zeros((len(fisher), dim)), np.zeros((len(fisher), dim))
    means[:dim] = np.eye(dim) / count
    variances[dim + 1] = -0.5 * polygamma(1, shape)
    variances[dim + 2 + np.flatnonzero(row == column), np.arange(dim)] = 1 / np.diag(rate)
    return Block(fisher, means, variances)


def gamma_block(count: Any, shape: Any, rate: Any, dim: int) -> Block:
    """Of (wy, −½ w‖y‖², log w, −w) for `dim` coordinates that share w."""
    fisher = np.diag([*[shape / (rate * count)] * dim, 0.5 * dim / count**2, polygamma(1, shape), shape / rate**2])
    fisher[dim + 1, dim + 2] = fisher[dim + 2, dim + 1] = -1 / rate
    means, variances = np.zeros((dim + 3, dim)), np.zeros((dim + 3, dim))
    means[:dim] = np.eye(dim) / count
    variances[dim + 1], variances[dim + 2] = -polygamma(1, shape), 1 / rate
    return Block(fisher, means, variances)


def blocks_of(posterior: MixturePosterior) -> list[list[Block]]:
    """The blocks of every component: one, or one for each feature."""
    n_components, dim = posterior.mean.shape
    if posterior.kind == "full":
        return [[wishart_block(posterior, j)] for j in range(n_components)]
    gamma = lambda j, d, size: gamma_block(posterior.count[j, d], posterior.shape[j, d], posterior.rate[j, d, d], size)
    if posterior.kind == "spherical":
        return [[gamma(j, 0, dim)] for j in range(n_components)]
    return [[gamma(j, d, 1) for d in range(dim)] for j in range(n_components)]


def added_by_rows(posterior: MixturePosterior, Z: np.ndarray, j: int) -> np.ndarray:
    """What each row adds to the natural parameters of component j if it belongs to it, (n, P_j)."""
    d, one = Z - posterior.mean[j], np.ones((len(Z), 1))
    if posterior.kind == "full":
        row, column = np.triu_indices(d.shape[1])
        return np.hstack([d, one, one, np.where(row == column, 1.0, 2.0) * d[:, row] * d[:, column]])
    if posterior.kind == "spherical":
        return np.hstack([d, one, 0.5 * d.shape[1] * one, 0.5 * np.sum(d**2, axis=1, keepdims=True)])
    each = [d, np.ones_like(d), np.full_like(d, 0.5), 0.5 * d**2]
    return np.stack(each, axis=-1).reshape(len(Z), 4 * d.shape[1])


def unknown_assignments(
    posterior: MixturePosterior, Z: np.ndarray, weight: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Σ_n w_n Cov[s_h(x_n)] over assignments h with probabilities `share` (n, J): weights first, then components."""
    rows = [added_by_rows(posterior, Z, j) for j in range(share.shape[1])]
    mean = np.hstack([share, *[share[:, j : j + 1] * rows[j] for j in range(len(rows))]])
    share = weight[:, None] * share
    total = -mean.T @ (weight[:, None] * mean)
    total[np.arange(len(rows)), np.arange(len(rows))] += share.sum(0)
    begin = len(rows)
    for j, values in enumerate(rows):
        at = slice(begin, begin + values.shape[1])
        weighted = share[:, j : j + 1] * values
        total[at, at] += weighted.T @ values
        total[j, at] += weighted.sum(0)
        total[at, j] += weighted.sum(0)
        begin = at.stop
    return total


@one_blas_thread()  # for small matrices several threads only wait for each other
def correction_of(posterior: MixturePosterior, prior: Product, X: np.ndarray, weight: np.ndarray) -> Correction | None:
    """How much more spread the rows of X leave u than q says; None where that is lost in rounding.

    The conjugate posterior with the responsibilities for assignments stands for what would be known with them: q itself
    holds a part of what is not known already.
    """
    given, to_fit, source = prior, posterior.units.to_fit, Arrays.of((X, weight))
    size = CHUNK * max(NUMBERS // (CHUNK * len(posterior.mean) * X.shape[1] ** 2), 1)
    for rows, w in chunks(source, size):
        given = given + given_shares(prior, to_fit(rows), w[:, None] * posterior.shares(rows))
    complete = MixturePosterior.of(given, posterior.units)

    def unknown(rows: np.ndarray, w: np.ndarray) -> np.ndarray:
        share = posterior.shares(rows)
        unsure = share.max(axis=1) < 1 - CERTAIN
        return unknown_assignments(complete, to_fit(rows[unsure]), w[unsure], share[unsure])

    missing = np.asarray(sum(unknown(*part) for part in chunks(source, size)))
    try:
        total, too_small = covariance_of(complete, missing)
        own, _ = covariance_of(posterior)
    except np.linalg.LinAlgError:
        return None
    alpha = posterior.family["weights"].concentration
    log_variance = np.log(np.einsum("jdd->jd", posterior.rate)) - digamma(posterior.shape)
    center = np.concatenate([digamma(alpha) - digamma(alpha.sum()), posterior.mean.ravel(), log_variance.ravel()])
    return Correction(center, own, total - own, len(alpha), too_small)


def covariance_of(complete: MixturePosterior, missing: np.ndarray | None = None) -> tuple[np.ndarray, bool]:
    """Cov[u] where so much is missing of what a complete posterior knows, and whether it is too small.

    Statistics are first divided by their own spread: a cluster far away has squares of its distance among them.
    """
    fisher, with_u = assembled(complete)
    spread, white = np.sqrt(np.diag(fisher)), np.empty_like(with_u)
    lost = None if missing is None else missing * np.outer(spread, spread)
    for at in places_of(complete):
        root = np.linalg.cholesky(fisher[at, at] / np.outer(spread[at], spread[at]))
        white[at] = solve_triangular(root, with_u[at] / spread[at, None], lower=True)
        if lost is not None:
            lost[at] = root.T @ lost[at]
            lost[:, at] = lost[:, at] @ root
    return (white.T @ white, False) if lost is None else inflated(white, lost)


def inflated(white: np.ndarray, lost: np.ndarray) -> tuple[np.ndarray, bool]:
    """Wᵀ (I − L)⁻¹ W, and whether nearly all is missing in some direction.

    There `MOST_LOST` of it is taken: the covariance is then too small. Only there are eigenvectors needed.
    """
    unit = np.eye(len(lost))
    try:
        np.linalg.cholesky(MOST_LOST * unit - lost)
        half = solve_triangular(np.linalg.cholesky(unit - lost), white, lower=True)
        return half.T @ half, False
    except np.linalg.LinAlgError:
        shares, directions = np.linalg.eigh(lost)
        half = directions.T @ white / np.sqrt(1 - np.minimum(shares, MOST_LOST))[:, None]
        return half.T @ half, True


def places_of(posterior: MixturePosterior) -> list[slice]:
    """Where the statistics of the weights, and those of each component or feature, are among all."""
    sizes = [len(posterior.mean), *[len(part.fisher) for parts in blocks_of(posterior) for part in parts]]
    return [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]


def assembled(posterior: MixturePosterior) -> tuple[np.ndarray, np.ndarray]:
    """H of all statistics, and their covariance with u under q: weights first, then components."""
    alpha, (n_components, dim) = posterior.family["weights"].concentration, posterior.mean.shape
    weights = np.diag(polygamma(1, alpha)) - polygamma(1, alpha.sum())
    parts = [part for parts in blocks_of(posterior) for part in parts]
    fisher = block_diag(weights, *[part.fisher for part in parts])
    means = block_diag(*[part.with_means for part in parts])
    variances = block_diag(*[part.with_variances for part in parts])
    below = np.zeros((n_components, n_components * dim))
    beside = np.zeros((len(fisher) - n_components, n_components))
    return fisher, np.block([[weights, below, below], [beside, means, variances]])
