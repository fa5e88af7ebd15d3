"""Mixture of Gaussians, weights, means and precisions unknown: `cavity.factors.mixtures.conjugate` in closed form."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from cavity._pytree import pytree
from cavity.factors.base import Factor, as_rows
from cavity.factors.conjugate_likelihoods import gaussian_mean_precision
from cavity.factors.mixtures import evidence
from cavity.factors.mixtures.conjugate import ConjugateMixture, all_but, check_parts, log_mean_weights
from cavity.factors.mixtures.matching import Matched, change_of_weights, parts_of
from cavity.families import Dirichlet, NormalGamma, NormalWishart, Product
from cavity.families.base import describe, dot
from cavity.engine.contract import Sums
from cavity.engine.traced import Traced
from cavity.factors.mixtures.sums import InSums
from cavity.inference import kernel as general
from cavity.inference import memory
from cavity.inference.chunks import gather, sum_over_chunks
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Plan
from cavity.inference.pull import all_finite, select
from cavity.inference.step import Info, State


@pytree
class GaussianMixture(ConjugateMixture):
    """A mixture of Gaussians; its components are `NormalWishart` or `NormalGamma`."""

    row_by_row: bool = field(default=False, metadata={"static": True})  # its evidence

    def smooth(self) -> "GaussianMixture":
        """Eigenvectors, which the evidence of many rows at once needs, have no derivative where eigenvalues agree."""
        return replace(self, row_by_row=True)

    def log_joint(self, q: Product, datum: Array, power: float) -> Array:
        parts = parts_of(q["components"])
        return self._log_joints(q, parts, parts.squares(jnp.asarray(datum)[None]), power)[0]

    def site(self, cavity: Product, datum: Array, power: float) -> Product:
        return self.estimate(cavity, datum, power)[0]

    def estimate(self, cavity: Product, datum: Array, power: float) -> tuple[Product, Array]:
        site, log_means = self.summed(cavity, jnp.asarray(datum)[None], jnp.ones(1), power)
        return site, log_means[0]

    def sum_of_sites(self, cavity: Product, data: Array, weight: Array, power: float) -> Product:
        return self.summed(cavity, data, weight, power)[0]

    def summed(self, cavity: Product, x: Array, weight: Array, power: float) -> tuple[Product, Array]:
        """Σ_n w_n λ̂_n over the rows of x from one cavity, and ℓ_α of each; rows where it is not finite are left out."""
        parts, x, matched, weights, log_means = self.match(cavity, x, power)
        weight = jnp.where(jnp.isfinite(log_means), weight, 0.0)
        return self.total(parts, x, matched, weights, weight, power), log_means

    def total(self, parts: Any, x: Array, matched: Matched, weights: Array, weight: Array, power: float) -> Product:
        """Σ_n w_n λ̂_n of rows that were matched."""
        total = Product({"weights": Dirichlet(weight @ weights), "components": parts.total(x, weight, matched)})
        return (1 / power) * total if power else total

    def match(
        self, cavity: Product, x: Array, power: float, parts: Any = None
    ) -> tuple[Any, Array, Matched, Array, Array]:
        """How each row changes components and weights; rows where ℓ_α is not finite are replaced by zeros."""
        parts = parts_of(cavity["components"]) if parts is None else parts
        concentration = jnp.asarray(cavity["weights"].concentration)
        s = parts.squares(x)
        logs = self._log_joints(cavity, parts, s, power)
        log_means = jax.nn.logsumexp(logs, axis=-1)
        finite = jnp.isfinite(log_means)
        x, s, logs = (jnp.where(finite.reshape(-1, *[1] * (v.ndim - 1)), v, 0.0) for v in (x, s, logs))
        taken = jax.nn.softmax(logs)
        matched = parts.match(s, taken, all_but(taken), power)
        return parts, x, matched, change_of_weights(concentration, taken, power), log_means

    def _log_joints(self, q: Product, parts: Any, s: Array, power: float) -> Array:
        """ℓ_α(j) of every row, (n, J)."""
        return log_mean_weights(q["weights"].concentration, power) + parts.log_mean(s, power)

    def kernel(self, prior: Any) -> Kernel:
        return KERNEL

    def sums(self, prior: Any, data: Any, algorithm: Any) -> Sums:
        return Traced(InSums(self), prior)

    def check(self, prior: Any, data: Any) -> np.ndarray:
        check_parts(prior)
        components, data = prior["components"], as_rows(data)
        shape = np.shape(getattr(components, "shift", 0.0))
        diagonal = isinstance(components, NormalGamma) and len(shape) == 3 and shape[2] == 1
        if not isinstance(components, NormalWishart | NormalGamma) or not (len(shape) == 2 or diagonal):
            raise ValueError(
                "prior['components'] must be a NormalWishart or NormalGamma with means of shape (components, features),"
                " or for a precision of each feature a NormalGamma with means of shape (components, features, 1); got "
                f"{describe(components)}."
            )
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != shape[1]:
            got = f"shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise ValueError(f"data must be a matrix with one row per datum and {shape[1]} columns; got {got}.")
        return data


@pytree
class InOldSums(Factor):
    """The same factor for rows that share a site: sums, without the pull of each and without the scales of sites."""

    factor: GaussianMixture

    def log_mean(self, q: Product, datum: Array, power: float) -> Array:
        return self.factor.log_mean(q, datum, power)

    def sum_of_pulls(
        self, q: Product, site: Product, present: Array, x: Array, weight: Array, power: float
    ) -> tuple[Product, Info]:
        """Σ w_n δ_n over the rows of x."""
        cavity = q - (power * present) * site
        proper = cavity.is_proper()
        total, log_means = self.factor.summed(select(proper, cavity, q), x, weight, power)
        usable = proper & all_finite(total)
        valid = usable & jnp.isfinite(log_means)
        used = jnp.sum(jnp.where(valid, weight, 0.0))
        move = jax.tree.map(lambda new, old: jnp.where(usable, new - used * old, 0.0), total, site)
        return move, Info(used, jnp.sum(~valid & (weight > 0)), jnp.zeros((), int), jnp.zeros(()))


def sweep(
    state: State, model: Model, plan: Plan, rates: Array, *, power: float, mode: bool | None
) -> tuple[State, Info]:
    """Batches that share a site by sums; others row by row."""
    model = model._replace(factor=InOldSums(model.factor)) if mode else model
    return general.sweep(state, model, plan, rates, power=power)


def remembered(model: Model, weight: Any, plan: Plan, rates: Any) -> bool:
    """Whether rows share sites that are kept. Only what is kept nowhere, ADF, needs the scales of its sites."""
    return plan.slot.ndim == 1 and bool(np.all(np.asarray(plan.slot) < len(model.counts)))


def evidence_terms(q: Any, sites: Any, model: Model, plan: Plan, *, power: float) -> tuple[Any, Array, Array]:
    """The terms of rows that share one site from one cavity; others row by row."""
    factor = model.factor
    if plan.slot.ndim == 2 or len(model.counts) > 1 or factor.row_by_row:
        return general.evidence_terms(q, sites, model, plan, power=power)
    cavity = q - (power * memory.present(model.counts[0])) * memory.read(sites, jnp.asarray(0))
    proper = cavity.is_proper()
    cavity = select(proper, cavity, q)
    moments = q.moments()
    own_parts = None if power == 0 else evidence.beside(parts_of(cavity["components"]), q["components"])

    def chunk(rows: Array) -> tuple[Any, None]:
        weight, x = memory.weight_of(model.weight, rows), gather(model.data, rows)
        parts, x, matched, weights, log_means = factor.match(cavity, x, power)
        # at power 0 the cavity is q itself, and Σ ⟨λ̂_n, E[T]⟩ is taken of the sum
        values = log_means if power == 0 else evidence.terms(q, own_parts, x, (matched, weights), weight, power)
        usable = proper & jnp.isfinite(log_means) & jnp.isfinite(values)
        used = jnp.where(usable, weight, 0.0)
        own = factor.total(parts, x, matched, weights, used, power)
        value = jnp.sum(jnp.where(usable, weight * values, 0.0))
        if power == 0:
            value -= dot(own, moments)
        return (own, value, jnp.sum(~usable & (weight > 0), dtype=float)), None

    return sum_over_chunks(chunk, jnp.arange(len(model.weight)))[0]


KERNEL = general.GENERAL._replace(sweep=sweep, mode=remembered, evidence_terms=evidence_terms)


def gaussian_mixture() -> GaussianMixture:
    """A mixture of Gaussians whose weights, means and precisions are unknown together.

    The prior is a dict of "weights", a Dirichlet, and "components" with a leading axis for them: a `NormalWishart` for
    full precision matrices, a `NormalGamma` with means (J, D) for one precision each, or with means (J, D, 1) for one
    in each direction. Components that are alike in the prior stay alike: begin elsewhere, `fit(start=…)`.

    >>> import cavity, numpy as np
    >>> from cavity.factors.mixtures.gaussian import gaussian_mixture
    >>> x = np.concatenate([np.linspace(-3, -2, 20), np.linspace(2, 3, 20)])[:, None]
    >>> apart = cavity.NormalGamma.from_parameters([[-1.0], [1.0]], np.full(2, 0.1), np.ones(2), np.ones(2))
    >>> prior = {"weights": cavity.Dirichlet([1.0, 1.0]), "components": apart}
    >>> cavity.fit(gaussian_mixture(), prior, x, cavity.aep()).posterior["components"].mean.round(2)
    array([[-2.49],
           [ 2.49]])
    """
    return GaussianMixture(gaussian_mean_precision())
