"""Sweeps of a network by compiled loops (`cavity.factors.networks.compiled`, with Numba).

An override of the engine's batch by batch: another way to the numbers of `cavity.inference.update`, to which tests
hold it.
"""

from itertools import pairwise
from typing import Any, TypeAlias

import jax
import numpy as np

from cavity.factors.networks.weight_prior import Refined
from cavity.families import DiagonalGaussian, Gamma, Product
from cavity.inference.contract import Rows
from cavity.inference.named import ALL, Algorithm
from cavity.inference.order import Plan
from cavity.inference.update import Info, State

try:
    from cavity.factors.networks.compiled import batches
    from cavity.factors.networks.compiled import noise as noises
    from cavity.factors.networks.compiled import rows as loops
    from cavity.factors.networks.compiled import weight_prior as prior_loop
except ImportError:  # Numba is an extra
    loops = batches = noises = prior_loop = None  # type: ignore[assignment]

Network: TypeAlias = Any  # the factor, whose module imports this one
NO_NOISE = np.array([2.0, 1.0])  # in the place of a Gamma where targets are labels: loops leave it alone


def has_loops(factor: Network, algorithm: Algorithm) -> bool:
    """Whether there are compiled loops for rows that weigh one and, with sites of their own, steps of size one."""
    known = loops is not None and factor.activation == "relu" and factor.units_are_independent
    single = algorithm.batch_size == 1 and algorithm.rate in (None, 1)
    return known and algorithm.power == 1 and (algorithm.n_sites != ALL or single)


def visits(
    factor: Network, settles: bool, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray
) -> tuple[State, Info] | None:
    """The batches of a plan in their order; None where loops do not know them."""
    own, whole = rows.sites is not None, bool(np.all(rates == 1) and np.all(rows.weight == 1))
    single = plan.rows.shape[1] == 1 and whole
    if own:
        return one_by_one(loops.OWN, factor, state, rows, plan) if single else None
    kept = int(np.max(plan.slot)) < len(counts)
    if single and not kept:
        return one_by_one(loops.NOWHERE, factor, state, rows, plan)
    if single and len(counts) == 1 and not settles and len(plan.rows) == counts[0]:
        return one_by_one(loops.IMPLIED, factor, state, rows, plan)
    return in_batches(factor, state, rows, plan, rates, counts)


def one_by_one(kind: int, factor: Network, state: State, rows: Rows, plan: Plan) -> tuple[State, Info]:
    """Steps of size one, a datum each. Sites of the data's own change in place: there may be no room for others."""
    (X, y), q, prior = rows.data, state.q, state.prior
    stack = rows.sites if kind == loops.OWN else state.sites
    noise, site_noise = gammas(q, stack)
    weights, sites = q["weights"], stack["weights"]
    variance = 1 / weights.precision
    mean = weights.shift * variance
    base = unless_zero(prior["weights"].shift), prior["weights"].precision, noise_of(prior)
    nothing = np.zeros((1, 1))
    own = (sites.shift, sites.precision, site_noise) if kind == loops.OWN else (nothing, nothing, nothing)
    given = output_of(factor), plan.rows[:, 0], X, y, *shape_of(factor)
    score = loops.one_by_one(kind, *given, mean, variance, noise, *base, *own, *work_of(factor))
    q = with_parts(q, DiagonalGaussian(mean / variance, 1 / variance), noise)
    if kind == loops.IMPLIED:
        new = jax.tree.map(lambda end, start: (end - start)[None] / len(y), q, prior)
        state = state._replace(sites=new)
    elif kind == loops.OWN and "noise" in q.parts:
        for leaf, column in zip(jax.tree.leaves(stack["noise"]), site_noise.T, strict=True):
            leaf[...] = column
    return state._replace(q=q), Info(0, 0, np.nan, score)


def in_batches(
    factor: Network, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray
) -> tuple[State, Info]:
    """Batches of rows that share a site."""
    (X, y), (noise, site_noise) = rows.data, gammas(state.q, state.sites)
    weights: Any
    sites: Any
    filed: Any
    weights, sites, filed = (
        tuple(map(np.array, jax.tree.leaves(s["weights"]))) for s in (state.q, state.sites, state.filed)
    )
    filed_noise, filed_weight = gammas(state.q, state.filed)[1], np.array(state.filed_weight)
    visit: Any = batches.in_batches
    score, cuts = visit(
        output_of(factor), plan.rows, plan.slot, rates, rows.weight, counts, X, y, *shape_of(factor), *weights,
        noise, *sites, site_noise, *filed, filed_noise, filed_weight, columns_of(factor, plan.rows.shape[1]),
    )  # fmt: skip
    done = state._replace(
        q=with_parts(state.q, DiagonalGaussian(*weights), noise),
        sites=with_parts(state.sites, DiagonalGaussian(*sites), site_noise.T),
        filed=with_parts(state.filed, DiagonalGaussian(*filed), filed_noise.T),
        filed_weight=filed_weight,
    )
    return done, Info(0, cuts, np.nan, score)


def refined_by_loop(now: Refined) -> Refined:
    """One round of EP over the prior's factors, by a compiled loop."""
    weights, sites, shares = (tuple(np.array(leaf) for leaf in jax.tree.leaves(part)) for part in now[::2] + now[3:])
    total = np.array([now.precision.shape, now.precision.rate])
    visit: Any = prior_loop.refine
    visit(*weights, *sites, *shares, total)
    return Refined(DiagonalGaussian(*weights), Gamma(*total), DiagonalGaussian(*sites), Gamma(*shares))  # type: ignore[arg-type]


def with_parts(q: Product, weights: DiagonalGaussian, noise: np.ndarray) -> Product:
    """The same with other weights and, where there is one, another noise precision."""
    return Product({**q.parts, "weights": weights, **({"noise": Gamma(*noise)} if "noise" in q.parts else {})})


def gammas(q: Product, sites: Product) -> tuple[np.ndarray, np.ndarray]:
    """Shape and rate of the noise's precision, in q and, as columns, in sites."""
    if "noise" not in q.parts:
        return NO_NOISE.copy(), np.zeros((len(sites["weights"].shift), 2))
    return noise_of(q), np.stack(jax.tree.leaves(sites["noise"]), axis=1).astype(float)


def noise_of(q: Product) -> np.ndarray:
    """Shape and rate."""
    return np.array([q["noise"].shape, q["noise"].rate]) if "noise" in q.parts else NO_NOISE.copy()


def output_of(factor: Network) -> int:
    """What compiled loops do with the outputs."""
    return noises.LABELS if factor.labels else noises.CHANGING if factor.sizes[-1] == 2 else noises.CONSTANT


def unless_zero(shift: np.ndarray) -> np.ndarray | None:
    """A prior's shift, or None where it is zero everywhere: loops then have less to read."""
    return shift if np.any(shift) else None


def shape_of(factor: Network) -> tuple[np.ndarray, np.ndarray]:
    """Widths, and where each layer's weights begin."""
    counts = [(a + 1) * b for a, b in pairwise(factor.sizes)]
    return np.array(factor.sizes), np.cumsum([0, *counts])


def work_of(factor: Network) -> tuple[np.ndarray, ...]:
    """Room for signals, and for which weights have a cavity."""
    units = np.zeros((8, len(factor.sizes) - 1, max(factor.sizes) + 1))
    return units, np.ones(factor.n_weights)


def columns_of(factor: Network, batch_size: int) -> np.ndarray:
    """Room for the signals of the rows of a batch, by fours; of a large one, of a part."""
    width = min(4 * -(-batch_size // 4), batches.WIDEST)
    return np.zeros((8, len(factor.sizes) - 1, max(factor.sizes) + 1, width))
