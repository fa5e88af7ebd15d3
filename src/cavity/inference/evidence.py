"""The closing pass over the data: the evidence log Z, equation (26), and what it costs that data share sites."""

from typing import Any, NamedTuple

import numpy as np

from cavity.inference.contract import Family, Setting
from cavity.inference.measure import reads_of
from cavity.inference.update import State
from cavity.inference.walk import Walk


class Evidence(NamedTuple):
    """log Z, and what may be wrong with it."""

    value: float
    left_out: float = 0.0  # data whose term could not be formed
    rebuilt: bool = True  # whether q could be rebuilt from the data's own sites
    unsettled: float = 0.0  # data whose term was found by a fit of its own that did not converge
    refusal: str | None = None  # why there is none: `value` is then NaN
    moves: Any = None  # of q, if every datum had a site of its own: where data share sites and this could be found


def log_evidence(walk: Walk, state: State, power: float, seed: int = 0) -> Evidence:
    """log Z = A(q̂) − A(λ₀) + Σ w {ℓ_α(c) + (A(c) − A(q))/α}, c the cavity of a datum's own site.

    q̂ = λ₀ + Σ w λ̂ is q rebuilt from the data's own sites. At a fixed point it is q; short of one, it makes the error of
    log Z second order in what is left to move, where q itself would leave it first order. At power 0 the gap KL(q ‖ q̂)
    between this and the ELBO is taken off: log Z is then a lower bound wherever q is.
    """
    refusal = walk.sums.no_evidence(walk.slots)
    if refusal:
        return Evidence(float("nan"), refusal=refusal)
    state = walk.at(state, state.sites)
    terms = walk.terms(state, Setting(power, seed))
    return closed(state.prior, state.q, terms, power)


def closed(prior: Family, q: Family, terms: Any, power: float) -> Evidence:
    """log Z from its sums over the data."""
    reads, q_hat = reads_of(q), prior + terms.own_sites
    here = float(reads.log_partition(q))
    rebuilt = here + float(reads.rise(q, q_hat)) if power == 0 else float(reads.log_partition(q_hat))
    ok = bool(np.isfinite(rebuilt))  # far from a fixed point q̂ may be improper
    value = (rebuilt if ok else here) - float(reads.log_partition(prior)) + float(terms.value)
    return Evidence(value, float(terms.left_out), ok, float(terms.unsettled), moves=terms.moves)
