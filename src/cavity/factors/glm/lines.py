"""Sums over the rows of a generalised linear model with a full Gaussian: sites lie along the rows of X.

A site is two numbers, its shift and precision along x (`Line`), so that a sum over rows is a matrix product,
Xᵀ diag(w τ) X, and what rows see of q is another, X Σ. Written once, for the host and for compiled programs.
"""

from typing import Any, NamedTuple

import numpy as np

from cavity import linalg
from cavity._array import is_jax, namespace
from cavity.factors.glm import rows as rows_of
from cavity.factors.glm.line import (
    Asked,
    Line,
    ask,
    ask_with_scales,
    changes,
    log_replacement,
    only,
    tilts_of,
    without,
)
from cavity.inference import memory
from cavity.inference.contract import Found, Terms


class Seen(NamedTuple):
    """A Gaussian as rows see it: its mean, and its covariance or a factor of its precision."""

    mean: Any
    covariance: Any  # None where rows are so few beside the features that solves are cheaper:
    chol: Any  # then the factor, and otherwise None
    proper: Any  # whether it is that of a proper distribution

    def marginals(self, features: Any) -> tuple[Any, Any]:
        """Mean and variance of xᵀθ for every row."""
        mean = rows_of.times(features, self.mean)
        if self.covariance is not None:
            return mean, rows_of.quadratic(features, self.covariance)
        return mean, (linalg.half_solve(self.chol, features) ** 2).sum(-1)


def seen(cavity: Any, q: Any, by_covariance: bool) -> Seen:
    """A cavity as rows see it; q in its place where it is improper."""
    if not is_jax(cavity.precision):
        is_proper = bool(np.isfinite(cavity.reads().logdet))
        reads = (cavity if is_proper else type(q)(cavity.shift, q.precision)).reads()
        return Seen(
            reads.mean, reads.covariance if by_covariance else None, None if by_covariance else reads.chol, is_proper
        )
    import jax

    chol = linalg.cholesky(cavity.precision)
    proper = jax.numpy.all(jax.numpy.isfinite(chol))
    chol = jax.lax.cond(proper, lambda: chol, lambda: linalg.cholesky(q.precision))
    mean = linalg.solve(chol, cavity.shift)
    return Seen(mean, linalg.inverse(chol), None, proper) if by_covariance else Seen(mean, None, chol, proper)


def cavity_of(q: Any, site: Any, present: Any, power: float) -> Any:
    """q without a shared site; q itself where there is none."""
    return q if site is None else q - (power * present) * site


def needs_covariance(features: Any, n_rows: int) -> bool:
    """Whether rows are many enough for a covariance to be worth its cost."""
    return isinstance(features, rows_of.SparseRows) or 2 * n_rows >= features.shape[1]


def expand(like: Any, features: Any, weight: Any, site: Line) -> Any:
    """Σ w site in the natural parameters of q."""
    shift = rows_of.weighted_sum(features, weight * site.shift)
    return type(like)(shift, rows_of.weighted_gram(features, weight * site.precision))


def asked_of(likelihood: Any, y: Any, mean: Any, variance: Any, proper: Any, power: float) -> Asked:
    """What rows ask for in cavities with these marginals."""
    return ask(tilts_of(likelihood, y, mean, variance, power), mean, variance, proper)


def estimates(likelihood: Any, q: Any, view: Seen, data: Any, weight: Any, power: float) -> Found:
    """Σ w λ̂ over rows that see one cavity."""
    features, y = data
    mean, variance = view.marginals(features)
    asked = asked_of(likelihood, y, mean, variance, view.proper, power)
    return summed(q, features, asked, asked.site, weight)


def estimates_with_scales(likelihood: Any, q: Any, view: Seen, data: Any, weight: Any, power: float) -> Found:
    """Σ w λ̂ over rows of which nothing is remembered, and Σ w log s of the scales of their sites."""
    features, y = data
    mean, variance = view.marginals(features)
    tilt = tilts_of(likelihood, y, mean, variance, power)
    site, valid, log_scale = ask_with_scales(tilt, mean, variance, view.proper, power)
    found = summed(q, features, Asked(site, valid), site, weight)
    return found._replace(log_scale=(weight * log_scale).sum())


def own_estimates(
    likelihood: Any, q: Any, view: Seen, sites: Line, data: Any, weight: Any, power: float, values: bool = False
) -> Found:
    """Σ w (λ̂ − λ) over rows with sites of their own, from q's marginals along them.

    With `values` also what they add to the evidence with the sites as they are: only logarithms are still to be taken.
    """
    features, y = data
    marginals, present = view.marginals(features), memory.present(weight)
    if not is_jax(present) and np.all(present == 1):
        present = 1.0
    mean, variance, remains = without(sites, *marginals, power * present)
    tilt = tilts_of(likelihood, y, mean, variance, power)
    asked = ask(tilt, mean, variance, remains & view.proper)
    change = changes(asked, sites)
    found = summed(q, features, asked, change, weight)._replace(change=change)
    if not values:
        return found
    value = tilt.log_mean + log_replacement(sites, *marginals, power, present)
    return found._replace(value=(weight * value).sum())


def summed(q: Any, features: Any, asked: Asked, site: Line, weight: Any) -> Found:
    """Sites of rows added up with their weights, and what there is to say about them."""
    xp = namespace(weight, site.shift)
    used = only(asked.valid, weight)
    skipped = xp.sum(~asked.valid & (weight > 0))
    safe = xp.all(used * site.precision >= 0)
    total = expand(q, features, used, site)
    return Found(total, xp.sum(used), skipped, xp.zeros(()), safe)


def terms(likelihood: Any, q: Any, view: Seen, here: Seen, data: Any, weight: Any, power: float) -> Terms:
    """What rows that see one cavity add to the closing evidence, and how far visits of their own sites would move q.

    `here` is q as they see it.
    """
    features, y = data
    mean, variance = view.marginals(features)
    asked = asked_of(likelihood, y, mean, variance, view.proper & (variance >= 0), power)
    own = in_own_cavities(likelihood, here, asked.site, data, weight, power)
    again = ask(own.tilt, own.mean, own.variance, own.proper & asked.valid)
    moves = expand(q, features, weight, changes(again, asked.site))
    return terms_of(q, own, asked.site, asked.valid, features, weight)._replace(moves=moves)


def own_terms(likelihood: Any, q: Any, here: Seen, sites: Line, data: Any, weight: Any, power: float) -> Terms:
    """What rows with sites of their own add to the closing evidence."""
    own = in_own_cavities(likelihood, here, sites, data, weight, power)
    return terms_of(q, own, sites, here.proper, data[0], weight)


class InOwnCavities(NamedTuple):
    """Rows in the cavities of their own sites."""

    tilt: Any
    mean: Any
    variance: Any
    proper: Any
    value: Any  # ℓ_α(c) + (A(c) − A(q))/α


def in_own_cavities(likelihood: Any, here: Seen, site: Line, data: Any, weight: Any, power: float) -> InOwnCavities:
    """What rows ask for without their own sites, from the marginals under q."""
    features, y = data
    mean, variance = here.marginals(features)
    present = memory.present(weight)  # of its own site, whichever cavity that was formed from
    m, v, proper = without(site, mean, variance, power * present)
    tilt = tilts_of(likelihood, y, m, v, power)
    value = tilt.log_mean + log_replacement(site, mean, variance, power, present)
    return InOwnCavities(tilt, m, v, proper, value)


def terms_of(q: Any, own: InOwnCavities, site: Line, valid: Any, features: Any, weight: Any) -> Terms:
    """Σ w λ̂ and Σ w {ℓ_α(c) + (A(c) − A(q))/α}, and how many rows are left out."""
    xp = namespace(own.value)
    usable = xp.isfinite(own.value) & valid
    left_out = xp.sum(xp.where(usable | (weight == 0), 0.0, 1.0))
    total = xp.sum(weight * xp.where(usable, own.value, 0.0))
    return Terms(expand(q, features, xp.where(usable, weight, 0.0), site), total, left_out)


def errors(likelihood: Any, view: Seen, here: Seen, data: Any, weight: Any, draws: Any, power: float) -> Any:
    """⟨r, T(θ)⟩ of every row at every draw: λ̂ is asked for without the shared site, λ̂ + r without λ̂."""
    features, y = data
    mean, variance = view.marginals(features)
    asked = asked_of(likelihood, y, mean, variance, variance >= 0, power)
    m, v, remains = without(asked.site, *here.marginals(features), power * memory.present(weight))
    again = asked_of(likelihood, y, m, v, remains & asked.valid, power)
    shift, precision = changes(again, asked.site)
    activation = rows_of.times(features, draws.T)
    return shift[:, None] * activation - 0.5 * precision[:, None] * activation**2
