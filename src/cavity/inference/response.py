"""Linear response: the covariances that q leaves out, from how its fixed point answers to a push.

Add t f(θ) to the log-prior and the posterior mean of any g moves at the rate Cov[f, g]: that holds for the exact
posterior, and what the fixed point of an approximation does is often a far better estimate of Cov than q's own, above
all where q takes parts of θ for independent that the data couple. Opper and Winther (2003); Giordano, Broderick and
Jordan (2015).

At a fixed point η = λ₀ + Σ λ̂(c), with c = η − α (η − λ₀)/W the cavity of a shared site. With B = Σ ∂λ̂/∂c a push dλ₀
moves η by dη = (I − βB)⁻¹ (I + (1 − β)B) dλ₀, β = 1 − α/W, so that beyond q's own covariance (50)

    Cov[f, g] − Cov_q[f, g] = ∂_η E_q[g] (I − βB)⁻¹ B ∂_m E_q[f] .
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from cavity.inference.boundary import call, filled_up
from cavity.inference.contract import Family, Programs, Rows
from cavity.inference.update import State
from cavity.inference.walk import Walk, summed

MOST = 1500  # numbers in q: the response is a matrix of so many rows and columns, each of them a pass over the data
AT_ONCE = 8  # columns
ROWS = 512  # in a chunk: derivatives cost as much for rows that fill it up as for others


class Response(NamedTuple):
    """Means and covariances of the functions that were asked for."""

    mean: np.ndarray  # under q
    own: np.ndarray  # under q, as far as its sufficient statistics tell
    added: np.ndarray  # what q leaves out
    radius: float  # of B: below one where the fixed point is stable


def respond(walk: Walk, state: State, power: float, expectations: Callable[[Any], Array]) -> Response:
    """Covariances of functions of θ, given by what `expectations` says of their means under a member of q's family."""
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(state.q))
    if size > MOST:
        raise ValueError(f"q must have at most {MOST} numbers for its linear response to be computed; it has {size}.")
    share = power / walk.problem.total_weight
    cavity, programs = state.q - share * (state.q - state.prior), walk.sums.programs()
    of_chunk = lambda chunk: call(couplings, programs, cavity, filled_up(chunk, ROWS), power=power)
    coupling = summed(of_chunk(chunk) for chunk in walk.chunks(ROWS))
    mean, by_natural, by_moments = call(derivatives, state.q, expectations=expectations)
    answer = np.linalg.solve(np.eye(size) - (1 - share) * coupling, coupling @ by_moments.T)
    added, own = by_natural @ answer, by_natural @ by_moments.T
    symmetric = lambda matrix: 0.5 * (matrix + matrix.T)
    return Response(mean, symmetric(own), symmetric(added), float(np.max(np.abs(np.linalg.eigvals(coupling)))))


@partial(jax.jit, static_argnames="power")
def couplings(programs: Programs, cavity: Family, rows: Rows, power: float) -> Array:
    """What the rows of a chunk add to B."""
    flat, unravel = ravel_pytree(cavity)
    nothing = 0.0 * cavity  # is removed: the cavity is what rows see

    def sites(vector: Array) -> Array:
        return ravel_pytree(programs.estimates(unravel(vector), nothing, 1.0, rows.data, rows.weight, power).total)[0]

    column = lambda direction: jax.jvp(sites, (flat,), (direction,))[1]
    return jax.lax.map(column, jnp.eye(len(flat)), batch_size=AT_ONCE).T


@partial(jax.jit, static_argnames="expectations")
def derivatives(q: Family, expectations: Callable[[Any], Array]) -> tuple[Array, Array, Array]:
    """E_q[f], and its ∂/∂η and ∂/∂m, a row for each function."""
    flat, unravel = ravel_pytree(q)
    flat_moments, unravel_moments = ravel_pytree(q.moments())
    by_natural = jax.jacfwd(lambda eta: jnp.ravel(expectations(unravel(eta))))(flat)
    by_moments = jax.jacfwd(lambda m: jnp.ravel(expectations(unravel_moments(m).from_moments())))(flat_moments)
    return jnp.ravel(expectations(q)), by_natural, by_moments
