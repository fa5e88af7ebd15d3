"""Whether chains mixed: split R-hat and effective sample size, sweep by sweep."""

from typing import NamedTuple

import numpy as np

from cavity.inference.driver import Report

ENOUGH = 20  # draws of each chain at a visit for which R-hat is taken of that visit alone
LARGEST_R_HAT = 1.1  # with 25 draws a chain 1.05 is reached by chance
# Share of a sweep's transitions. One that diverges is rejected, and a few in warm-up cost no more than that; one in a
# hundred means that there is a region of some weight which chains cannot enter, and R-hat does not see it.
MOST_DIVERGING = 0.01


class Sampling(NamedTuple):
    """How the chains mixed: one entry per sweep, the worst over its visits and over means and variances."""

    r_hat: np.ndarray
    ess: np.ndarray  # of the draws looked at
    transitions: np.ndarray  # made by all chains, those of warm-up included and those of the evidence not
    diverging: np.ndarray  # transitions that left the region where the step size is stable


class Mixing:
    """Within- and between-chain variances of the visits of a sweep, and a record for each sweep."""

    def __init__(self, n_warmup: int) -> None:
        self.n_warmup = n_warmup
        self.visits: list[tuple[float, float]] = []
        self.spreads: list[tuple[np.ndarray, np.ndarray]] = []
        self.sweeps: list[tuple[float, ...]] = []
        self.shape, self.transitions, self.diverging = (0, 0), 0, 0

    def add(self, theta: np.ndarray, diverging: np.ndarray) -> None:
        """The draws (block, chain, draw, D) of a visit."""
        self.shape = theta.shape[1:3]
        self.transitions += theta.shape[0] * self.shape[0] * (self.shape[1] + self.n_warmup)
        self.diverging += int(np.sum(diverging))
        for draws in theta:
            both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=-1)
            if not np.all(np.isfinite(both)):
                self.visits.append((np.inf, 0.0))
            elif self.shape[1] >= ENOUGH:
                self.visits.append(worst(both))
            elif self.shape[1] > 1:
                self.spreads.append(spreads(both))

    def end_sweep(self) -> None:
        """Few draws say little about one visit: then the variances are averaged over the visits of the sweep."""
        r_hat, ess = np.nan, np.nan
        if self.visits:
            r_hat, ess = np.max([v[0] for v in self.visits]), np.min([v[1] for v in self.visits])
        elif self.spreads:
            within, between = (np.mean(part, axis=0) for part in zip(*self.spreads, strict=True))
            n_chains, n_draws = self.shape
            with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
                r_hat = np.max(np.sqrt((n_draws - 1) / n_draws + between / within))
                ess = n_chains * np.min(within / between)
        if np.isnan(r_hat) and (self.visits or self.spreads):  # 0/0: nothing moved
            r_hat, ess = np.inf, 0.0
        self.sweeps.append((r_hat, ess, self.transitions, self.diverging))
        self.visits, self.spreads, self.transitions, self.diverging = [], [], 0, 0

    def report(self) -> Report | None:
        """The record, and a complaint where the last sweep's chains disagree or often diverge."""
        if not self.sweeps:
            return None
        values = Sampling(*np.array(self.sweeps).T)
        r_hat, ess, transitions, diverging = self.sweeps[-1]
        found = []
        if r_hat > LARGEST_R_HAT:
            found.append(f"chains of a block disagree, R-hat is {r_hat:.3f} with {ess:.0f} effective draws")
        if diverging > MOST_DIVERGING * transitions or (found and diverging):
            found.append(f"{diverging:.0f} of {transitions:.0f} transitions diverged")
        if not found:
            return Report(values, None)
        message = (
            f"In the last sweep {', and '.join(found)}. Moments of such blocks cannot be trusted: raise n_draws or "
            "n_warmup of cavity.factors.sampled, or use sampler='nuts'."
        )
        return Report(values, message)


def worst(draws: np.ndarray) -> tuple[float, float]:
    """The largest split R-hat and the smallest effective sample size over the last axis of (chain, draw, statistic)."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
        return float(np.max(split_gelman_rubin(draws))), float(np.min(effective_sample_size(draws)))


def spreads(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The variance within chains and that of their means, in units of the variance of all."""
    total = np.var(draws, axis=(0, 1)) + 1e-300
    within = np.mean(np.var(draws, axis=1, ddof=1), axis=0)
    return within / total, np.var(np.mean(draws, axis=1), axis=0, ddof=1) / total
