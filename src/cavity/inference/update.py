"""Equations (1) and (5): how q and its sites change by what a batch asks for. There is nothing else to an algorithm.

K is the length of a stack, and the batch size the number of rows that were summed; power and rate are numbers. The
functions serve the host and compiled programs alike.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._array import Array
from cavity.inference import memory
from cavity.inference.contract import Found, Member, Sites
from cavity.inference.guard import advance


class State(NamedTuple):
    """What the next step needs."""

    q: Member
    sites: Sites  # λ_k stacked over slots; where each datum has its own, a stack for each part of the source
    filed: Any  # Σ w λ̂ stacked over slots: this sweep's estimates; None where each datum has its own slot
    filed_weight: Any  # Σ w of those estimates, a number for each slot
    prior: Member  # λ₀
    inner: Any = None  # what a factor carries from sweep to sweep
    beside: Any = None  # what it keeps with each row: a stack for each part


class Info(NamedTuple):
    """What a person may want to see, summed over the data visited."""

    skipped: Any  # number of data whose cavity or tilted distribution was improper
    backoffs: Any  # number of batches whose rate was cut to keep q proper
    log_scale: Any  # Σ w log s, the scales of the sites: equation (24)
    score: Any = float("nan")  # Σ w log density of the data under their cavities, where the factor tells it
    value: Any = float("nan")  # Σ w {ℓ_α(c) + (A(c) − A(q))/α} of the sites before, where all rows are one batch
    response: Any = 0.0  # how the sum of what rows ask for answers, where all of them are one batch

    def __add__(self, other: "Info") -> "Info":  # type: ignore[override]
        return Info(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Info(0, 0, 0.0, 0.0, 0.0)


def update(state: State, slot: Array, found: Found, rate: Array, counts: Array) -> tuple[State, Any]:
    """q += ε Σ w δ and λ_k += (ε/W_k) Σ_{n in k} w δ, for the slots that a batch has data in; whether ε was cut.

    `found` is stacked over these slots. Estimates are filed too: at the end of a sweep each slot may become their mean.
    """
    site, count = memory.read(state.sites, slot), memory.count_of(counts, slot)
    move = found.total - memory.times(found.weight, site)
    q, rate, cut = advance(state.q, memory.summed(move), rate, is_safe(state, slot, found, rate, count))
    return state._replace(
        q=q,
        sites=memory.file(state.sites, slot, memory.times(rate / count, move)),
        filed=memory.file(state.filed, slot, found.total),
        filed_weight=memory.file(state.filed_weight, slot, found.weight),
    ), cut


def is_safe(state: State, slot: Array, found: Found, rate: Array, count: Array) -> Any:
    """Whether q is sure to stay proper: no need to factorise it to see.

    With one site for all, taking copies of it from q = λ₀ + W λ leaves a mean of q and the prior, to which rows add
    what is safe. That is exact arithmetic: at extreme scales rounding may lose q all the same, and then the next visits
    are skipped.
    """
    if len(slot) > 1 or len(state.filed_weight) > 1:
        return False
    keeps = (slot[0] >= len(state.filed_weight)) | (rate * found.weight[0] <= count[0])
    return found.safe[0] & keeps


def update_own(q: Member, found: Found, rate: Array) -> tuple[Any, Any, Any]:
    """q after a step by what rows with sites of their own ask for, the rate of that step, and whether it was cut."""
    return advance(q, found.total, rate)


def settle(start: State, end: State, counts: np.ndarray, share: float, average: bool) -> tuple[State, bool]:
    """The end of a sweep: each shared slot becomes the mean of the estimates filed in it, and q is rebuilt from (1).

    Only a share of the way is taken, halved until q is proper. Where each datum has its own slot the steps have done
    this already. Without averaging the sites stay as the steps left them: the paper's literal update. Also returned:
    whether the share had to be cut.
    """
    if end.filed is None:
        return end, False
    cleared = end._replace(filed=zeros_like(end.filed), filed_weight=np.zeros_like(end.filed_weight))
    if not average:
        return cleared, False
    seen = end.filed_weight > 0
    mean = memory.times(1 / np.where(seen, end.filed_weight, 1.0), end.filed)
    change = memory.times(seen.astype(float), mean - start.sites)
    _, share, cut = advance(start.q, memory.total(change, counts), share)
    sites = start.sites + share * change
    return cleared._replace(q=end.prior + memory.total(sites, counts), sites=sites), cut


def zeros_like(stack: Any) -> Any:
    """A stack of sites that say nothing."""
    return tree.map(np.zeros_like, stack)
