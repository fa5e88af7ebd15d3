"""EP on sparse rows, in the memory of the host.

With thousands of features all memory goes into matrices of their number squared, and compiled programs hold a dozen of
them at a time. Here they are four: the prior's precision, q's, the next q's, and one that is in turn a Cholesky factor
and a covariance, by LAPACK in place. Everything else is kept along the rows: sites, and the mean m and variance v of
each activation, from which sweeps are measured too, since the natural parameters of q differ by sites only:

    ⟨Δη, μ⟩ = Σ_n w_n [Δν_n m_n − ½ Δτ_n (v_n + m_n²)].

What rows ask for is computed as everywhere (`cavity.factors.glm.linear`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from cavity.factors.glm.line import Line
from cavity.factors.glm.linear import answer, log_factors
from cavity.factors.glm.rows import SparseRows, chunk_size, is_wide
from cavity.inference.chunks import CHUNK
from cavity.inference.driver import Driver, Setting
from cavity.inference.evidence import Evidence
from cavity.inference.kernel import Model
from cavity.inference.measure import Moved
from cavity.inference.memory import Plan
from cavity.inference.step import MAX_HALVINGS, Info

MANY_COLUMNS = 200  # with fewer, matrices are small and the compiled sweep is faster


class Reading(NamedTuple):
    """What a sweep leaves to be compared with."""

    sites: Line
    mean: np.ndarray  # (features,) of the coefficients
    m: np.ndarray  # (rows,) mean of each activation
    v: np.ndarray  # (rows,) and its variance
    entropy: float


class HostState(NamedTuple):
    """q, its sites, and what can be read off it."""

    q: Any
    sites: Line
    reading: Reading


def start(_: Any, model: Model, own: bool) -> HostState:
    """q equal to the prior."""
    zeros = np.zeros(len(model.weight))
    return read(model, model.prior, Line(zeros, zeros), factorise(model.prior.precision))


def resume(_: Any, model: Model, state: HostState, sites: Line) -> HostState | None:
    """q rebuilt from sites."""
    sites = Line(*map(np.asarray, sites))
    q = rebuild(model, sites)
    chol = factorise(q.precision)
    return None if chol is None else read(model, q, sites, chol)


def rebuild(model: Model, sites: Line) -> Any:
    """Equation (1): the prior and all sites."""
    everything = np.arange(len(model.weight))
    precision = np.array(model.prior.precision, order="C")
    shift = model.prior.shift + add_sites(precision, model.data[0], everything, sites, model.weight)
    return type(model.prior)(shift, precision)


def read(model: Model, q: Any, sites: Line, chol: np.ndarray) -> HostState:
    """Mean, marginals and entropy of q, from a factor of its precision that is used up."""
    entropy = 0.5 * len(chol) * np.log(2 * np.pi * np.e) - np.sum(np.log(np.diagonal(chol)))
    covariance = invert(chol)
    mean = covariance @ q.shift
    m, v = marginals(model.data[0], np.arange(len(model.weight)), mean, covariance)
    return HostState(q, sites, Reading(sites, mean, m, v, float(entropy)))


def sweep(
    _: Any, model: Model, state: HostState, plan: Plan, rates: np.ndarray, setting: Setting
) -> tuple[HostState, Info, int]:
    """The steps of `cavity.factors.glm.linear.step`, batch by batch."""
    (features, y), q, chol = model.data, state.q, factorise(state.q.precision)
    sites = Line(state.sites.shift.copy(), state.sites.precision.copy())
    total = Info(0.0, 0, 0, 0.0)
    for rows, rate in zip(plan.rows, rates, strict=True):
        weight = np.append(model.weight, 0.0)[rows]  # padding weighs nothing
        rows = np.minimum(rows, len(model.weight) - 1)
        covariance = invert(chol)
        m, v = marginals(features, rows, covariance @ q.shift, covariance)
        old = Line(sites.shift[rows], sites.precision[rows])
        here = jax.tree.map(lambda leaf, rows=rows: leaf[rows], y)
        change, used, info = ask_rows(model.factor.likelihood, here, m, v, old, weight, setting.power)
        change, used = Line(*map(np.asarray, change)), np.asarray(used)
        q, chol, rate, cuts = move(q, features, rows, change, used, rate, covariance)
        np.add.at(sites.shift, rows, rate * change.shift * (weight > 0))
        np.add.at(sites.precision, rows, rate * change.precision * (weight > 0))
        info = info._replace(backoffs=int(cuts > 0))
        total = Info(*(float(a) + float(b) for a, b in zip(total, info, strict=True)))
    return read(model, q, sites, chol), total, 0


def move(
    q: Any, features: SparseRows, rows: np.ndarray, change: Line, used: np.ndarray, rate: float, room: np.ndarray
) -> tuple[Any, np.ndarray, float, int]:
    """q + rate · Σ w change and a factor of its precision in `room`, with the rate halved until q is proper."""
    step = np.zeros(q.precision.shape)
    shift = add_sites(step, features, rows, change, used)
    for cuts in range(MAX_HALVINGS + 1):
        scale = rate * 0.5**cuts
        np.multiply(step, scale, out=room)
        room += q.precision
        chol = factorise(room, room)
        if chol is not None and np.all(np.isfinite(shift)):
            step *= scale
            step += q.precision
            return type(q)(q.shift + scale * shift, step), chol, scale, cuts
    chol = factorise(q.precision, room)
    assert chol is not None  # q was proper
    return q, chol, 0.0, MAX_HALVINGS


def measure(model: Model, reference: Reading, before: Reading, old: Reading, state: HostState) -> Moved:
    """`cavity.inference.measure.measure` along the rows."""
    new, weight = state.reading, model.weight
    precision = weight * (new.sites.precision - reference.sites.precision)
    step = new.mean - reference.mean
    both = 2 * step @ (state.q.precision @ step) - precision @ (new.m - reference.m) ** 2
    distance = np.sqrt(max(0.5 * precision @ (reference.v - new.v) + 0.5 * both, 0.0))
    shift = weight * (new.sites.shift - old.sites.shift)
    precision = weight * (new.sites.precision - old.sites.precision)
    square = (old.v - before.v) + (old.m - before.m) * (old.m + before.m)
    turned = shift @ (old.m - before.m) < 0.5 * precision @ square
    return Moved(float(distance), new.entropy, bool(turned), proper=True)


def log_evidence(_: Any, model: Model, sites: Line, plan: Plan, power: float) -> Evidence:
    """`cavity.inference.evidence.log_evidence` with a site for each row: q̂ is q."""
    sites = Line(*map(np.asarray, sites))
    q = rebuild(model, sites)
    chol = factorise(q.precision)
    value = log_partition(q.shift, chol)
    reading = read(model, q, sites, chol).reading
    terms, left_out = evidence_of_rows(
        model.factor.likelihood, model.data[1], reading.m, reading.v, sites, model.weight, power
    )
    prior = model.prior
    value += float(terms) - log_partition(prior.shift, factorise(prior.precision))
    return Evidence(value, left_out, True)


def log_partition(shift: np.ndarray, chol: np.ndarray) -> float:
    """A(η) from a Cholesky factor of the precision."""
    half = solve_triangular(chol, shift, lower=True, check_finite=False)
    return float(0.5 * half @ half - np.sum(np.log(np.diagonal(chol))) + 0.5 * len(shift) * np.log(2 * np.pi))


@partial(jax.jit, static_argnames="power")
def ask_rows(likelihood: Any, y: Any, m: Any, v: Any, old: Line, weight: Any, power: float) -> tuple[Any, Any, Info]:
    """What rows ask for."""
    return answer(likelihood, y, m, v, old, weight, True, power)


@partial(jax.jit, static_argnames="power")
def evidence_of_rows(likelihood: Any, y: Any, m: Any, v: Any, sites: Line, weight: Any, power: float) -> Any:
    """Their terms in log Z."""
    return log_factors(likelihood, y, m, v, sites, weight, True, power)


# -- products with the rows, and matrices in place -----------------------------------------------------------------


def marginals(
    features: SparseRows, rows: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the activation of some rows."""
    m, v = np.empty(len(rows)), np.empty(len(rows))
    for here, indices, values in in_chunks(features, rows):
        m[here] = np.sum(values * mean[indices], axis=1)
        if is_wide(features):
            spread = spread_out(indices, values, len(mean)).toarray()
            v[here] = np.sum((spread @ covariance) * spread, axis=1)
        else:
            block = covariance[indices[:, :, None], indices[:, None, :]]
            v[here] = np.einsum("ni,nij,nj->n", values, block, values, optimize=True)
    return m, v


def add_sites(
    precision: np.ndarray, features: SparseRows, rows: np.ndarray, site: Line, weight: np.ndarray
) -> np.ndarray:
    """Add Σ w τ x xᵀ to a matrix; returned is Σ w ν x."""
    shift = np.zeros(len(precision))
    for here, indices, values in in_chunks(features, rows):
        spread = spread_out(indices, values, len(precision))
        shift += spread.T @ (weight[here] * site.shift[here])
        scaled = sparse.csr_array(spread.multiply((weight[here] * site.precision[here])[:, None]))
        if is_wide(features):
            precision += spread.T.toarray() @ scaled.toarray()
        else:
            product = (spread.T @ scaled).tocoo()
            precision[product.row, product.col] += product.data
    return shift


def in_chunks(features: SparseRows, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Some rows, a few at a time: where they are among them, their indices and their values."""
    size = chunk_size(features)
    for start in range(0, len(rows), size):
        here = slice(start, start + size)
        yield here, features.indices[rows[here]], features.values[rows[here]]


def spread_out(indices: np.ndarray, values: np.ndarray, n_columns: int) -> Any:
    """Rows as a SciPy array."""
    starts = np.arange(len(values) + 1) * values.shape[1]
    return sparse.csr_array((values.ravel(), indices.ravel(), starts), shape=(len(values), n_columns))


def factorise(matrix: np.ndarray, room: np.ndarray | None = None) -> Any:
    """The lower Cholesky factor in `room` (new, if none is given), garbage above it; None if there is none."""
    room = np.empty(matrix.shape) if room is None else room  # rows first: LAPACK would work on a copy of any other
    room[...] = matrix
    # LAPACK counts columns first: the upper factor of the transpose is the lower one of the matrix
    _, failed = lapack.dpotrf(room.T, lower=0, overwrite_a=1, clean=0)
    return None if failed or not np.all(np.isfinite(np.diagonal(room))) else room


def invert(chol: np.ndarray) -> np.ndarray:
    """M⁻¹ in the place of the lower factor of M."""
    lapack.dpotri(chol.T, lower=0, overwrite_c=1)
    for start in range(0, len(chol), CHUNK):  # only one triangle is filled in
        here = slice(start, start + CHUNK)
        chol[here, start + CHUNK :] = chol[start + CHUNK :, here].T
        corner = chol[here, here]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
    return chol


ON_HOST = Driver(
    start,
    resume,
    sweep,
    remember=lambda state: state.reading,
    measure=measure,
    log_evidence=log_evidence,
    on_device=False,
)
