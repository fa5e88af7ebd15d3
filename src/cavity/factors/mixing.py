"""Whether chains mixed: split R-hat and effective sample size, sweep by sweep."""

from typing import Any, NamedTuple

import numpy as np

from cavity.inference.driver import Report

WINDOW = 50  # draws of each chain that are looked at, from several visits where one has fewer
LARGEST_R_HAT = 1.05
TOO_FEW = 50  # effective draws in the window below which R-hat says little


class Sampling(NamedTuple):
    """How the chains mixed: one entry per sweep, the worst over its visits and over means and variances."""

    r_hat: np.ndarray
    ess: np.ndarray  # of the draws looked at
    transitions: np.ndarray  # made by all chains, those of warm-up included
    diverging: np.ndarray  # transitions that left the region where the step size is stable


class Mixing:
    """The last draws of each block, and a record for each sweep."""

    def __init__(self, n_blocks: int, n_warmup: int) -> None:
        self.last: list[Any] = [None] * n_blocks
        self.n_warmup, self.visits, self.sweeps = n_warmup, list[tuple[float, float]](), list[tuple[float, ...]]()
        self.transitions, self.diverging = 0, 0

    def add(self, which: np.ndarray, theta: np.ndarray, diverging: np.ndarray) -> None:
        """The draws (block, chain, draw, D) of a visit."""
        _, n_chains, n_draws, _ = theta.shape
        self.transitions += len(which) * n_chains * (n_draws + self.n_warmup)
        self.diverging += int(np.sum(diverging))
        for block, draws in zip(which, theta, strict=True):
            past = self.last[block]
            kept = draws if past is None else np.concatenate([past, draws], axis=1)
            self.last[block] = kept[:, -max(WINDOW, n_draws) :]
            self.visits.append(worst(self.last[block]))

    def end_sweep(self) -> None:
        r_hat, ess = np.array(self.visits).T
        self.sweeps.append((r_hat.max(), ess.min(), self.transitions, self.diverging))
        self.visits, self.transitions, self.diverging = [], 0, 0

    def report(self) -> Report | None:
        """The record, and a complaint where the last sweep's chains disagree."""
        if not self.sweeps:
            return None
        values = Sampling(*np.array(self.sweeps).T)
        r_hat, ess = values.r_hat[-1], values.ess[-1]
        if r_hat <= LARGEST_R_HAT or np.isnan(r_hat):
            return Report(values, None)
        message = (
            f"Chains of a block disagree in the last sweep: R-hat is {r_hat:.3f}, with {ess:.0f} effective draws. Its "
            "moments cannot be trusted: raise n_draws or n_warmup of cavity.factors.sampled, or use sampler='nuts'."
        )
        return Report(values, message)


def worst(draws: np.ndarray) -> tuple[float, float]:
    """The largest split R-hat and the smallest effective sample size over θ and its squared deviations."""
    from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

    if draws.shape[1] < 4 or not np.all(np.isfinite(draws)):
        return np.nan, np.nan
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=-1)
    return float(np.max(split_gelman_rubin(both))), float(np.min(effective_sample_size(both)))
