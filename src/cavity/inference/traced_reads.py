"""Reads of q by compiled programs, one for each: together they would hold a dozen matrices of the size of q."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from cavity.inference.boundary import call
from cavity.inference.contract import Family


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A read that is compiled once for a family and shape, with NumPy going in and coming out."""
    program = jax.jit(function)

    @wraps(function)
    def read(*arguments: Any) -> Any:
        return call(program, *arguments)

    return read


@compiled
def is_proper(q: Family) -> Array:
    return jnp.asarray(q.is_proper())


@compiled
def distance(new: Family, reference: Family) -> Array:
    """How far q is from a reference, in posterior standard deviations."""
    return new.distance(reference)


@compiled
def means_apart(q: Family, other: Family) -> Array:
    """How many standard deviations of q the means of one number in θ are apart at most."""
    return jnp.asarray(q.means_apart(other))


@compiled
def entropy(q: Family) -> Array:
    return q.entropy()


@compiled
def along(new: Family, old: Family, q: Family) -> Array:
    """⟨η − η', E_q[T]⟩. From one q to another its sign says whether two moves point against each other."""
    return q.expected(new - old)


@compiled
def log_partition(q: Family) -> Array:
    return q.log_partition()


@compiled
def rise(q: Family, to: Family) -> Array:
    """⟨η' − η, E_q[T]⟩: by how much A rises from q, to first order."""
    return q.expected(to - q)


@compiled
def products(q: Family, moves: Any) -> Array:
    """⟨r_i, r_j⟩ of moves of q that are stacked on the first axis."""
    slope = lambda move: jax.jvp(lambda at: at.moments(), (q,), (move,))[1]
    pairs = zip(jax.tree.leaves(moves), jax.tree.leaves(jax.vmap(slope)(moves)), strict=True)
    flat = lambda leaf: leaf.reshape(len(leaf), -1)
    return jnp.sum(jnp.stack([flat(a) @ flat(b).T for a, b in pairs]), axis=0)
