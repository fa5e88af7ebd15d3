"""Sweeps of a network by compiled loops (`cavity.factors.networks.compiled`, with Numba).

An override of the engine's batch by batch: another way to the numbers of `cavity.inference.update`, to which tests
hold it.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity.factors.networks.architecture import Architecture
from cavity.factors.networks.weight_prior import Refined
from cavity.families import DiagonalGaussian, Gamma, Product
from cavity.inference.contract import Rows
from cavity.inference.named import ALL, Algorithm
from cavity.inference.order import Plan
from cavity.inference.update import Info, State

try:
    from cavity.factors.networks.compiled import in_batches as batches
    from cavity.factors.networks.compiled import noise as noises
    from cavity.factors.networks.compiled import one_by_one as steps
    from cavity.factors.networks.compiled import weight_prior as prior_loop
    from cavity.factors.networks.compiled.arrays import Batches, Cavity, Data, Filed, Layers, Prior, Signals, Sites
except ImportError:  # Numba is an extra
    steps = batches = noises = prior_loop = None  # type: ignore[assignment]

NO_NOISE = np.array([2.0, 1.0])  # in the place of a Gamma where targets are labels: loops leave it alone


def has_loops(factor: Architecture, algorithm: Algorithm) -> bool:
    """Whether there are compiled loops for the algorithm: with sites of their own rows have steps of size one.

    Loops see one batch after the other: there are none for rows of several sites that are judged from one q.
    """
    known = steps is not None and factor.activation == "relu" and factor.units_are_independent
    if not known or algorithm.power != 1:
        return False
    if algorithm.n_sites == ALL:
        return algorithm.batch_size == 1 and algorithm.rate in (None, 1)
    return algorithm.batch_size is not None or algorithm.n_sites in (0, 1)


def visits(
    factor: Architecture, settles: bool, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray
) -> tuple[State, Info] | None:
    """The batches of a plan in their order; None where loops do not know them."""
    plain, whole = plan.rows.shape[1] == 1 and bool(np.all(rates == 1)), bool(np.all(rows.weight == 1))
    if rows.sites is not None:
        if not plain:
            return None
        return with_own_sites(factor, state, rows, plan) if whole else with_weighted_sites(factor, state, rows, plan)
    single, kept = plain and whole, int(np.max(plan.slot)) < len(counts)
    if single and not kept:
        return without_sites(factor, state, rows, plan)
    if single and len(counts) == 1 and not settles and len(plan.rows) == counts[0]:
        return with_implied_sites(factor, state, rows, plan)
    return in_batches(factor, state, rows, plan, rates, counts)


def without_sites(factor: Architecture, state: State, rows: Rows, plan: Plan) -> tuple[State, Info]:
    """Steps of size one, a row each, of which no site is kept."""
    nothing = np.zeros((0, factor.n_weights))
    return one_by_one(factor, state, rows, plan, Sites(nothing, nothing, np.zeros((0, 2))))


def with_implied_sites(factor: Architecture, state: State, rows: Rows, plan: Plan) -> tuple[State, Info]:
    """Steps of size one, a row each; the site that all rows share is formed at the end."""
    q, prior, weights = moments_of(state.q), state.prior, state.prior["weights"]
    base = Prior(weights.shift if np.any(weights.shift) else None, weights.precision, noise_of(prior))
    order, data = plan.rows[:, 0], data_of(rows)
    score = steps.with_implied_sites(layers_of(factor), order, data, q, base, room_of(factor))
    after = with_moments(state.q, q)
    site = tree.map(lambda end, start: (end - start)[None] / len(data.y), after, prior)
    return state._replace(q=after, sites=site), Info(0, 0, np.nan, score)


def with_own_sites(factor: Architecture, state: State, rows: Rows, plan: Plan) -> tuple[State, Info]:
    """Steps of size one, a row each, whose sites change in place: there may be no room for others."""
    stack, site_noise = rows.sites, site_noise_of(state.q, rows.sites)
    done = one_by_one(factor, state, rows, plan, Sites(stack["weights"].shift, stack["weights"].precision, site_noise))
    keep_noise(state.q, stack, site_noise)
    return done


def one_by_one(factor: Architecture, state: State, rows: Rows, plan: Plan, sites: "Sites") -> tuple[State, Info]:
    """Steps of size one, a row each, with the sites of rows or with none."""
    q, order, size = moments_of(state.q), plan.rows[:, 0], factor.n_weights
    free, none = np.ones(size), np.zeros(size, sites.shift.dtype)
    score = steps.in_turn(layers_of(factor), order, data_of(rows), q, sites, room_of(factor), free, none)
    return state._replace(q=with_moments(state.q, q)), Info(0, 0, np.nan, score)


def with_weighted_sites(factor: Architecture, state: State, rows: Rows, plan: Plan) -> tuple[State, Info]:
    """Steps of `with_own_sites` where q holds the site of a row as often as the row weighs."""
    stack, order, size = rows.sites, plan.rows[:, 0], factor.n_weights
    q = Sites(*copies(state.q["weights"]), noise_of(state.q))
    sites = Sites(stack["weights"].shift, stack["weights"].precision, site_noise_of(state.q, stack))
    filed = Filed(np.zeros((0, size)), np.zeros((0, size)), np.zeros((0, 2)), np.zeros(0))
    given = Batches(plan.rows, order, np.ones(len(order)), np.ascontiguousarray(rows.weight))
    score, cuts = batches.in_batches(layers_of(factor), given, data_of(rows), q, sites, filed, columns_of(factor, 1))
    keep_noise(state.q, stack, sites.noise)
    return state._replace(q=with_parts(state.q, DiagonalGaussian(*q[:2]), q.noise)), Info(0, cuts, np.nan, score)


def keep_noise(q: Product, stack: Product, columns: np.ndarray) -> None:
    """What sites of rows say of the noise, back from columns to where it is kept."""
    if "noise" in q.parts:
        for leaf, column in zip(tree.leaves(stack["noise"]), columns.T, strict=True):
            leaf[...] = column


def in_batches(
    factor: Architecture, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray
) -> tuple[State, Info]:
    """Batches of rows that share a site."""
    q = Sites(*copies(state.q["weights"]), noise_of(state.q))
    sites = Sites(*copies(state.sites["weights"]), site_noise_of(state.q, state.sites))
    filed_noise, filed_weight = site_noise_of(state.q, state.filed), np.array(state.filed_weight)
    filed = Filed(*copies(state.filed["weights"]), filed_noise, filed_weight)
    given = Batches(plan.rows, plan.slot, rates, counts)
    columns = columns_of(factor, plan.rows.shape[1])
    score, cuts = batches.in_batches(layers_of(factor), given, data_of(rows), q, sites, filed, columns)
    done = state._replace(
        q=with_parts(state.q, DiagonalGaussian(*q[:2]), q.noise),
        sites=with_parts(state.sites, DiagonalGaussian(*sites[:2]), sites.noise.T),
        filed=with_parts(state.filed, DiagonalGaussian(*filed[:2]), filed.noise.T),
        filed_weight=filed_weight,
    )
    return done, Info(0, cuts, np.nan, score)


def refined_by_loop(now: Refined) -> Refined:
    """One round of EP over the prior's factors, by a compiled loop."""
    weights, sites, shares = (tuple(np.array(leaf) for leaf in tree.leaves(part)) for part in now[::2] + now[3:])
    total = np.array([now.precision.shape, now.precision.rate])
    visit: Any = prior_loop.refine
    visit(*weights, *sites, *shares, total)
    return Refined(DiagonalGaussian(*weights), Gamma(*total), DiagonalGaussian(*sites), Gamma(*shares))


def with_parts(q: Product, weights: DiagonalGaussian, noise: np.ndarray) -> Product:
    """A product with other weights and, where there is one, another noise precision."""
    return Product({**q.parts, "weights": weights, **({"noise": Gamma(*noise)} if "noise" in q.parts else {})})


def with_moments(q: Product, moments: "Cavity") -> Product:
    """A product whose weights and noise are what a loop made of them."""
    mean, variance, noise = moments
    return with_parts(q, DiagonalGaussian(mean / variance, 1 / variance), noise)


def moments_of(q: Product) -> "Cavity":
    """What loops change in place: means and variances of weights, and the noise."""
    variance = 1 / q["weights"].precision
    return Cavity(q["weights"].shift * variance, variance, noise_of(q))


def copies(weights: DiagonalGaussian) -> tuple[np.ndarray, np.ndarray]:
    """Natural parameters that a loop may change."""
    return np.array(weights.shift), np.array(weights.precision)


def noise_of(q: Product) -> np.ndarray:
    """Shape and rate of the noise's precision."""
    return np.array([q["noise"].shape, q["noise"].rate]) if "noise" in q.parts else NO_NOISE.copy()


def site_noise_of(q: Product, sites: Product) -> np.ndarray:
    """Shape and rate of the noise's precision in sites, as columns."""
    if "noise" not in q.parts:
        return np.zeros((len(sites["weights"].shift), 2))
    return np.stack(tree.leaves(sites["noise"]), axis=1).astype(float)


def data_of(rows: Rows) -> "Data":
    """The data, and what each row weighs."""
    X, y = rows.data
    return Data(X, y, np.ascontiguousarray(rows.weight))  # loops are compiled for the layout of arrays


def layers_of(factor: Architecture) -> "Layers":
    """Widths, where each layer's weights begin, and what loops do with the outputs."""
    counts = [(a + 1) * b for a, b in pairwise(factor.sizes)]
    output = noises.LABELS if factor.labels else noises.CHANGING if factor.sizes[-1] == 2 else noises.CONSTANT
    return Layers(np.array(factor.sizes), np.cumsum([0, *counts]), output)


def room_of(factor: Architecture, *width: int) -> np.ndarray:
    """Room for the signals of a row, or of as many as `width` says."""
    return np.zeros((len(Signals._fields), len(factor.sizes) - 1, max(factor.sizes) + 1, *width))


def columns_of(factor: Architecture, batch_size: int) -> np.ndarray:
    """Room for the signals of the rows of a batch, by fours; of a large one, of a part."""
    return room_of(factor, min(4 * -(-batch_size // 4), batches.WIDEST))
