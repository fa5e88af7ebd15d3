"""The gradient of log Z in the hyper-parameters of prior and likelihood, equation (31), as folds over chunks.

With q = λ₀ + Σ sites and q̂ = λ₀ + Σ own sites, log Z = A(q̂) − A(λ₀) + Σ terms. A chunk gives what its own sites and
terms answer to a push of q, of its site and of the factor; these answers are sums, and the rest is a few products.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.sparse.linalg import LinearOperator, gmres

from cavity._kept import double_precision
from cavity.families.base import dot
from cavity.inference import memory
from cavity.inference.boundary import call, filled_up
from cavity.inference.contract import Factor, Family, Programs, Rows, Setting, Sites
from cavity.inference.source import pieces
from cavity.inference.update import State
from cavity.inference.walk import Walk, chosen

ROWS = 512  # in a chunk: derivatives cost as much for rows that fill it up as for others


class Cotangents(NamedTuple):
    """Slopes by q, by the factor, and by sites (a stack over slots, or one for each part)."""

    q: Family
    factor: Factor
    sites: Sites


def gradient(walk: Walk, state: State, power: float) -> tuple[tuple[Any, Any], float]:
    """d log Z at the fixed point with respect to (factor, prior), and the relative error left in solving for u.

    Where log Z is stationary in the sites they are held fixed. Otherwise the sites λ = F(λ, h) move with the
    hyper-parameters h, and by the implicit function theorem

        d log Z/dh = ∂_h log Z + uᵀ ∂_h F,   u = ∂_λ log Z + (∂_λ F)ᵀ u.
    """
    fold = Fold(walk, state, power)
    by_sites, by_factor, by_prior = fold.of_evidence()
    # with a site of its own for each datum log Z is stationary in them, unless a cavity keeps a part of the site
    whole = walk.problem.weight is None or all(np.all(part >= 1) for part in walk.problem.weight)
    if power == 0 or (walk.slots.own and whole):
        return (by_factor, by_prior), 0.0
    flat, unravel = raveled(by_sites)

    def equation(u: np.ndarray) -> np.ndarray:
        return u - raveled(fold.of_averages(unravel(u))[0])[0]

    operator = LinearOperator((len(flat), len(flat)), matvec=equation, dtype=float)
    adjoint, _ = gmres(operator, flat, rtol=1e-10, maxiter=20, restart=min(len(flat), 100))
    error = np.linalg.norm(equation(adjoint) - flat) / max(float(np.linalg.norm(flat)), 1e-300)
    _, more_factor, more_prior = fold.of_averages(unravel(adjoint))
    add = lambda a, b: jax.tree.map(np.add, a, b)
    return (add(by_factor, more_factor), add(by_prior, more_prior)), float(error)


def raveled(tree: Any) -> tuple[np.ndarray, Any]:
    """All numbers in one row, and the way back."""
    with double_precision():
        flat, unravel = ravel_pytree(tree)
        back = lambda row: jax.tree.map(np.asarray, unravel(jnp.asarray(row)))
    return np.asarray(flat), lambda row: call_in_float64(back, row)


def call_in_float64(function: Any, *arguments: Any) -> Any:
    with double_precision():
        return function(*arguments)


class Fold:
    """Passes over the data in which chunks answer to cotangents."""

    def __init__(self, walk: Walk, state: State, power: float) -> None:
        self.walk, self.power = walk, power
        self.state = walk.at(state, state.sites)
        programs = walk.sums.programs()
        self.programs, self.factor = programs, programs.factor

    def of_evidence(self) -> tuple[Any, Any, Any]:
        """∂ log Z by sites, factor and prior, all held apart."""
        q, prior = self.state.q, self.state.prior
        terms = self.walk.terms(self.state, Setting(self.power))
        by_rebuilt, by_q, by_prior = call(outer_slopes, prior, q, prior + terms.own_sites, power=self.power)
        slopes = self.sum_of_slopes(slopes_of_terms, lambda *_: by_rebuilt)
        total = slopes.q + by_q
        return self.by_sites(slopes.sites, total), slopes.factor, total + by_rebuilt + by_prior

    def of_averages(self, u: Any) -> tuple[Any, Any, Any]:
        """uᵀ ∂F by sites, factor and prior, with F the mean own-site estimate in each slot: averaged EP's map."""
        scaled = u if self.walk.slots.own else memory.times(1 / self.filed_weight(), u)
        slopes = self.sum_of_slopes(slopes_of_estimates, partial(self.part_of, scaled))
        return self.by_sites(slopes.sites, slopes.q), slopes.factor, slopes.q

    def filed_weight(self) -> np.ndarray:
        """The weight of the rows of each slot that can be formed."""
        found = np.ones(len(self.walk.slots.counts))
        for slot in self.walk.slots.visited():
            view, total = self.walk.view(self.state, slot, self.power), 0.0
            for part in range(len(self.walk.problem.source.parts)):
                rows, which = self.walk.rows(part), self.walk.slots.rows_of(slot, part)
                total += float(self.walk.estimates(view, rows, which, Setting(self.power)).weight)
            found[slot] = total if total > 0 else 1.0
        return found

    def sum_of_slopes(self, of_chunk: Any, cotangent_of: Any) -> Cotangents:
        """The slopes of all chunks in directions, of which `cotangent_of(slot, part, rows, size)` gives a chunk's."""
        walk, slots = self.walk, self.walk.slots
        total, of_sites = None, jax.tree.map(np.zeros_like, self.state.sites)
        for slot in slots.visited():
            site = None if slots.own else jax.tree.map(lambda leaf, k=slot: leaf[k], self.state.sites)
            present = 1.0 if slots.own else float(memory.present(slots.counts[slot]))
            for number in range(len(walk.problem.source.parts)):
                rows = walk.rows(number, self.state)
                for piece in pieces(slots.rows_of(slot, number), len(rows.weight), ROWS):
                    chunk = filled_up(chosen(rows, piece), ROWS)
                    view = self.programs, self.factor, self.state.q, site, present, chunk
                    here = cotangent_of(slot, number, piece, len(chunk.weight))
                    *by_q_and_factor, sites = call(of_chunk, *view, here, power=self.power)
                    total = by_q_and_factor if total is None else jax.tree.map(np.add, total, by_q_and_factor)
                    self.add_sites(of_sites, slot, number, piece, sites)
        assert total is not None  # there is at least one row
        by_q, by_factor = total
        return Cotangents(by_q, by_factor, of_sites)

    def part_of(self, cotangent: Any, slot: int, number: int, piece: Any, size: int) -> Any:
        """The cotangent of a chunk's sum, or of its own sites."""
        if not self.walk.slots.own:
            return jax.tree.map(lambda leaf: leaf[slot], cotangent)
        short = lambda leaf: np.pad(leaf[piece], [(0, size - len(leaf[piece]))] + [(0, 0)] * (leaf.ndim - 1))
        return jax.tree.map(short, cotangent[number])

    def add_sites(self, of_sites: Any, slot: int, number: int, piece: Any, sites: Sites) -> None:
        if self.walk.slots.own:
            add = lambda stack, leaf: stack.__setitem__(piece, stack[piece] + leaf[: len(stack[piece])])
            jax.tree.map(add, of_sites[number], sites)
        else:
            jax.tree.map(lambda stack, leaf: stack.__setitem__(slot, stack[slot] + leaf), of_sites, sites)

    def by_sites(self, direct: Any, by_q: Any) -> Any:
        """The slope by sites, directly and through q = λ₀ + Σ W λ."""
        if not self.walk.slots.own:
            weights = self.walk.slots.counts
            return jax.tree.map(lambda a, leaf: a + np.multiply.outer(weights, leaf), direct, by_q)
        found = []
        for number, stack in enumerate(direct):
            rows = self.walk.rows(number, self.state)
            chunks = (filled_up(chosen(rows, piece), ROWS) for piece in pieces(slice(None), len(rows.weight), ROWS))
            through = [call(slope_of_total, self.programs, self.state.prior, chunk, by_q) for chunk in chunks]
            joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *through)
            found.append(jax.tree.map(lambda leaf, more: leaf + more[: len(leaf)], stack, joined))
        return found


@partial(jax.jit, static_argnames="power")
def outer_slopes(prior: Family, q: Family, rebuilt: Any, power: float) -> tuple[Any, Any, Any]:
    """Slopes of R(q̂, q) − A(λ₀) by q̂, q and λ₀, where R is A(q̂), or its first order around q at power 0."""

    def value(rebuilt: Any, q: Family, prior: Family) -> Array:
        high = q.log_partition() + dot(rebuilt - q, q.moments()) if power == 0 else rebuilt.log_partition()
        return high - prior.log_partition()

    return jax.grad(value, (0, 1, 2))(rebuilt, q, prior)


@partial(jax.jit, static_argnames="power")
def slopes_of_terms(
    programs: Programs,
    factor: Factor,
    q: Family,
    site: Sites,
    present: Array,
    rows: Rows,
    by_rebuilt: Any,
    power: float,
) -> tuple[Any, Any, Any]:
    """Slopes of a chunk's terms and, in the direction of q̂, of its own sites: by q, factor and site."""

    def value(q: Family, factor: Factor, site: Sites) -> Array:
        sums = programs.with_factor(factor.smooth())
        if rows.sites is None:
            terms = sums.terms(q, site, present, rows.data, rows.weight, power)
        else:
            terms = sums.own_terms(q, site, rows.data, rows.weight, power)
        return terms.value + dot(terms.own_sites, by_rebuilt) if rows.sites is None else terms.value

    if rows.sites is None:
        return jax.grad(value, (0, 1, 2))(q, factor, site)
    by_q, by_factor, by_sites = jax.grad(value, (0, 1, 2))(q, factor, rows.sites)
    through = jax.grad(lambda sites: dot(programs.own_total(q, sites, rows.data, rows.weight), by_rebuilt))(rows.sites)
    return by_q, by_factor, jax.tree.map(jnp.add, by_sites, through)


@partial(jax.jit, static_argnames="power")
def slopes_of_estimates(
    programs: Programs, factor: Factor, q: Family, site: Sites, present: Array, rows: Rows, cotangent: Any, power: float
) -> tuple[Any, Any, Any]:
    """Slopes of a chunk's estimates in the direction of a cotangent: by q, factor and site."""

    def value(q: Family, factor: Factor, site: Sites) -> Array:
        sums = programs.with_factor(factor.smooth())
        if rows.sites is None:
            return dot(sums.estimates(q, site, present, rows.data, rows.weight, power).total, cotangent)
        change = sums.own_estimates(q, site, rows.data, rows.weight, power).change
        return dot(jax.tree.map(jnp.add, site, change), cotangent)

    return jax.grad(value, (0, 1, 2))(q, factor, site if rows.sites is None else rows.sites)


@jax.jit
def slope_of_total(programs: Programs, prior: Family, rows: Rows, by_q: Any) -> Any:
    """The slope of a chunk's Σ w λ in the direction of a cotangent of q, by its own sites."""
    total = lambda sites: dot(programs.own_total(prior, sites, rows.data, rows.weight), by_q)
    return jax.grad(total)(rows.sites)
