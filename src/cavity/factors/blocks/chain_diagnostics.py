"""Whether chains mixed: split R-hat and effective sample size, sweep by sweep."""

from typing import Any, NamedTuple

import numpy as np

from cavity.inference.contract import Report

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


class Record(NamedTuple):
    """How the chains of one visit to a block mixed."""

    r_hat: float  # NaN where draws are too few to tell by themselves
    ess: float
    within: np.ndarray | None  # variances within chains, and of their means, where draws are few
    between: np.ndarray | None
    shape: tuple[int, int]  # chains, and draws of each
    transitions: int
    diverging: int


def record_of(draws: np.ndarray, diverging: Any, n_warmup: int) -> Record:
    """The record of draws (chain, draw, D) of a block."""
    n_chains, n_draws = draws.shape[:2]
    tail: Any = (n_chains, n_draws), n_chains * (n_draws + n_warmup), int(diverging)
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=-1)
    if not np.all(np.isfinite(both)):
        return Record(np.inf, 0.0, None, None, *tail)
    if n_draws >= ENOUGH:
        r_hat, ess = worst(both)
        return Record(*((np.inf, 0.0) if np.isnan(r_hat) else (r_hat, ess)), None, None, *tail)
    within, between = spreads(both) if n_draws > 1 else (None, None)
    return Record(np.nan, np.nan, within, between, *tail)


def of_sweep(records: list[Record]) -> tuple[float, float, int, int]:
    """The worst R-hat and effective sample size of a sweep, its transitions, and how many diverged.

    Few draws say little about one visit: then the variances are averaged over the visits of the sweep.
    """
    alone = [record for record in records if not np.isnan(record.r_hat)]
    few = [record for record in records if record.within is not None]
    r_hat, ess = np.nan, np.nan
    if alone:
        r_hat, ess = np.max([record.r_hat for record in alone]), np.min([record.ess for record in alone])
    elif few:
        within, between = (np.mean([getattr(record, name) for record in few], axis=0) for name in ("within", "between"))
        n_chains, n_draws = few[0].shape
        with np.errstate(divide="ignore", invalid="ignore"):  # chains that never moved
            r_hat = np.max(np.sqrt((n_draws - 1) / n_draws + between / within))
            ess = n_chains * np.min(within / between)
    if np.isnan(r_hat) and (alone or few):  # 0/0: nothing moved
        r_hat, ess = np.inf, 0.0
    counts = (sum(getattr(record, name) for record in records) for name in ("transitions", "diverging"))
    return float(r_hat), float(ess), *counts


def report_of(sweeps: tuple[tuple[float, float, int, int], ...]) -> Report:
    """The records of all sweeps, and a complaint where the last one's chains disagree or often diverge."""
    if not sweeps:
        return Report()
    values = Sampling(*np.array(sweeps).T)
    r_hat, ess, transitions, diverging = sweeps[-1]
    found = []
    if r_hat > LARGEST_R_HAT:
        found.append(f"chains of a block disagree, R-hat is {r_hat:.3f} with {ess:.0f} effective draws")
    if diverging > MOST_DIVERGING * transitions or (found and diverging):
        found.append(f"{diverging:.0f} of {transitions:.0f} transitions diverged")
    if not found:
        return Report(values)
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
