"""Generalised linear models with a full Gaussian as JAX functions: for small batches, gradients, linear response."""

from dataclasses import replace
from typing import Any

import numpy as np
from jax import Array

from cavity._pytree import pytree
from cavity.factors.glm import lines
from cavity.factors.glm.line import Line
from cavity.inference.contract import Found, Programs, Terms


@pytree
class InLines(Programs):
    """Rows of X whose sites are two numbers each."""

    factor: Any

    def estimates(self, q: Any, site: Any, present: Any, data: Any, weight: Array, power: float) -> Found:
        view = lines.seen(lines.cavity_of(q, site, present, power), q, lines.needs_covariance(data[0], len(weight)))
        of_rows = lines.estimates_with_scales if site is None else lines.estimates
        return of_rows(self.factor.likelihood, q, view, data, weight, power)

    def terms(self, q: Any, site: Any, present: Any, data: Any, weight: Array, power: float) -> Terms:
        view = lines.seen(lines.cavity_of(q, site, present, power), q, True)
        return lines.terms(self.factor.likelihood, q, view, lines.seen(q, q, True), data, weight, power)

    def errors(self, q: Any, site: Any, present: Any, data: Any, weight: Array, draws: Any, power: float) -> Array:
        view, here = lines.seen(lines.cavity_of(q, site, present, power), q, True), lines.seen(q, q, True)
        return lines.errors(self.factor.likelihood, view, here, data, weight, draws, power)

    def own_site(self, prior: Any) -> Line:
        return Line(np.zeros(()), np.zeros(()))

    def own_total(self, prior: Any, sites: Line, data: Any, weight: Array) -> Any:
        return lines.expand(prior, data[0], weight, sites)

    def own_estimates(self, q: Any, sites: Line, data: Any, weight: Array, power: float) -> Found:
        view = lines.seen(q, q, lines.needs_covariance(data[0], len(weight)))
        return lines.own_estimates(self.factor.likelihood, q, view, sites, data, weight, power)

    def own_terms(self, q: Any, sites: Line, data: Any, weight: Array, power: float) -> Terms:
        return lines.own_terms(self.factor.likelihood, q, lines.seen(q, q, True), sites, data, weight, power)

    def with_factor(self, factor: Any) -> "InLines":
        return replace(self, factor=factor)
