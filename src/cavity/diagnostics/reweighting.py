"""What the exact posterior would say, from draws reweighted towards it.

How good draws of a Gaussian q are for that is asked first: the shape of their weights' tail, k-hat, and their effective
share. How far means and standard deviations of q are off is asked of draws that also reach where q hardly does: half of
them are of q, half of a Student distribution of the same place and shape, and all are weighed by the density of the
mixture (Owen & Zhou 2000, "Safe and effective importance sampling"). No weight is then large only because q has too
short a tail.

Four times as many are drawn where a number is within chance of its limit, or beyond it for the first time.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from cavity.diagnostics.importance import BY_CHANCE, khat_limit, weighed

BLOCK = 250  # draws at once, of each distribution
MORE, MOST = 4, 16  # times as many draws in the next round, and in the last one
FREEDOM = 5.0  # of the Student distribution: tails that the posteriors of most models do not have
MOST_SHIFT = 0.1  # of means in standard deviations, and of these relatively: less does not change what is read off
LEAST_SHARE, COST = 0.5, 0.05  # effective share of draws where there are few coefficients, and what each may cost of it


def least_share(dim: int) -> float:
    """The smallest effective share of draws that is not held against a posterior of so many coefficients.

    Where q is a little off in each of many directions the share is exp(−Σ costs): a mean that is off by d standard
    deviations costs d², a standard deviation that is off by the share s costs 2 s², and a skewness g, which no Gaussian
    has, g²/6. Each may cost 0.05: errors as large as `MOST_SHIFT` and a skewness of a third.
    """
    return LEAST_SHARE * float(np.exp(-COST * dim))


class Reweighted(NamedTuple):
    """Estimates from reweighted draws, with standard errors; arrays have an entry for every coefficient."""

    khat: float
    khat_error: float
    share: float
    share_error: float
    log_evidence: float
    means: np.ndarray  # less those of q, in its standard deviations
    means_error: np.ndarray
    sds: np.ndarray  # over those of q, less one
    sds_error: np.ndarray
    n_draws: int  # of q

    def beyond(self) -> tuple[np.ndarray, np.ndarray]:
        """How far all that is limited is over its limit, and how far it may be by chance."""
        least, limit = least_share(len(self.means)), khat_limit(self.n_draws)
        shifts = np.abs([self.means, self.sds]).ravel() - MOST_SHIFT
        errors = [self.khat_error, self.share_error], self.means_error, self.sds_error
        over = np.concatenate([[self.khat - limit, least - self.share], shifts])
        return over, BY_CHANCE * np.concatenate(errors)


class Draws:
    """Standardised draws in blocks, half of each of q, which are made anew when they are looked at: none is kept."""

    def __init__(self, dim: int, seed: int) -> None:
        self.dim, self.seed = dim, seed

    def blocks(self, begin: int, end: int) -> Iterator[np.ndarray]:
        """Some of them, by number."""
        for number in range(begin, end):
            rng = np.random.default_rng([self.seed, number])
            white = rng.standard_normal((2 * BLOCK, self.dim))
            white[BLOCK:] *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (BLOCK, 1)))
            yield white

    def log_mixture(self, white: np.ndarray) -> np.ndarray:
        """Logarithm of the density of all draws over that of q."""
        square, both = np.sum(white**2, axis=1), FREEDOM + self.dim
        constant = gammaln(0.5 * both) - gammaln(0.5 * FREEDOM) - 0.5 * self.dim * np.log(0.5 * FREEDOM)
        student = constant - 0.5 * both * np.log1p(square / FREEDOM) + 0.5 * square
        return np.logaddexp(0.0, student) - np.log(2.0)


def reweighted(
    q: Any, log_joint: Callable[[np.ndarray], np.ndarray], n_draws: int, most: float, seed: int
) -> Reweighted:
    """Weigh draws by `log_joint`, a function of coefficients (n, D), until there is nothing left to chance.

    There are never more draws of q than `most`, unless the first round has.
    """
    mean, root = np.asarray(q.mean), np.linalg.cholesky(q.covariance)
    draws, log_ratios = Draws(len(mean), seed), np.empty((0, 2 * BLOCK))
    axes = root / np.sqrt(np.sum(root**2, axis=1))[:, None]  # from standardised draws to coefficients in their sds
    done, wanted, was_bad = 0, -(-n_draws // BLOCK), False
    while True:
        places = (mean + white @ root.T for white in draws.blocks(done, wanted))
        log_ratios = np.stack([*log_ratios, *(log_joint(place) - q.log_prob(place) for place in places)])
        found = estimates(draws, axes, log_ratios)
        over, by_chance = found.beyond()
        is_good, is_bad = bool(np.all(over < -by_chance)), bool(np.any(over > by_chance))
        done, wanted = wanted, MORE * wanted
        if is_good or (is_bad and was_bad) or wanted * BLOCK > most:
            return found
        was_bad = is_bad


def estimates(draws: Draws, axes: np.ndarray, log_ratios: np.ndarray) -> Reweighted:
    """From logarithms of exact density over q (block, draw); errors are those of ratios of sums, to first order."""
    n_blocks = len(log_ratios)
    check, of_q, tail = weighed(log_ratios[:, :BLOCK].ravel())
    mixture = np.stack([draws.log_mixture(white) for white in draws.blocks(0, n_blocks)])
    weights = weighed((log_ratios - mixture).ravel())[1].reshape(n_blocks, -1)
    walk = lambda: zip(weights, (white @ axes.T for white in draws.blocks(0, n_blocks)), strict=True)
    means = sum(weight @ step for weight, step in walk())
    variances = sum(weight @ (step - means) ** 2 for weight, step in walk())
    means_error = sum(weight**2 @ (step - means) ** 2 for weight, step in walk())
    variances_error = sum(weight**2 @ ((step - means) ** 2 - variances) ** 2 for weight, step in walk())
    sds, share = np.sqrt(variances), check.effective_size / len(of_q)
    return Reweighted(
        khat=check.khat,
        khat_error=tail.error,
        share=share,
        share_error=share * check.effective_size * float(np.sqrt(np.sum(of_q**4))),
        log_evidence=check.log_evidence,
        means=means,
        means_error=np.sqrt(means_error),
        sds=sds - 1,
        sds_error=0.5 * np.sqrt(variances_error) / np.maximum(sds, np.finfo(float).tiny),
        n_draws=len(of_q),
    )
