"""`fit`: from data, model and algorithm to a posterior."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from cavity.families.base import is_family
from cavity.families.product import as_family
from cavity.inference import grouping, memory
from cavity.inference.driver import COMPILED
from cavity.inference.loop import Loop
from cavity.inference.named import Algorithm, aep
from cavity.inference.problem import Problem, check_limits
from cavity.inference.result import Result, Sweep

SWEEPS_WITH_ONE_SITE, TOL_WITH_ONE_SITE = 50, 1e-3  # before groups are found; at most, and how still q must be


def fit(
    factor: Any,
    prior: Any,
    data: Any,
    algorithm: Algorithm,
    *,
    weights: Any = None,
    max_sweeps: int | None = None,
    tol: float = 1e-5,
    seed: int = 0,
    progress: bool = False,
    callback: Callable[[Sweep], Any] | None = None,
    evidence: bool | str = True,
    start: Any = None,
) -> Result:
    """Approximate the posterior of θ given data, by any algorithm of the table in `cavity.inference.named`.

    Args:
        factor: the likelihood, from `cavity.factors`.
        prior: an exponential family, or a dict, tuple or list of families for a product.
        data: arrays with one row per datum; `(X, y)` for generalised linear models.
        algorithm: `cavity.ep()`, `cavity.sep(batch_size=100)`, …
        weights: counts, one per row: weight 2 is the same as the row twice, weight 0 as no row.
        max_sweeps: passes over the data at most; by default 1 for ADF and 500 otherwise. `groups="auto"` first makes
            as many, and at most 50, with one shared site; these are not in the history.
        tol: stop when a full sweep would move q by less than this many posterior standard deviations, or by so little
            that only rounding is left.
        callback: called after every sweep with a `Sweep`; a true return value ends the fit.
        evidence: True for log Z at the end, "history" for every sweep, False for none.
        start: a result for the same data and algorithm whose sites to begin from: to go on, or with other
            hyper-parameters. Rates that depend on the step go on too. Or a member of the prior's family to begin at,
            for models in which the prior is a fixed point of its own, such as mixtures with alike components.

    >>> import cavity, numpy as np
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
    >>> result = cavity.fit(cavity.factors.probit(), cavity.Gaussian.isotropic(1), (X, y), cavity.ep())
    >>> result.converged
    True
    """
    problem = Problem.of(factor, prior, data, algorithm, weights, seed)
    limit = check_limits(max_sweeps, tol, seed, evidence, algorithm)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of a Sweep; got {callback!r}.")
    with jax.enable_x64(True):
        sites, sharing_error = None, float("nan")
        if algorithm.finds_groups and isinstance(start, Result):
            problem, sharing_error = with_groups(problem, start), start.sharing_error
        elif algorithm.finds_groups:
            problem, sites, sharing_error = find_groups(problem, algorithm, limit, seed, start)
        loop = Loop(problem, algorithm, limit, tol, seed, evidence)
        loop.sharing_error = sharing_error
        if sites is not None:
            loop.take_over(sites)
        elif start is not None:
            begin(loop, start)
        return loop.run(progress, callback)


def begin(loop: Loop, start: Any) -> None:
    """Where the user wants the fit to begin."""
    if isinstance(start, dict | tuple | list) or is_family(start):
        loop.begin_with(as_family(start))
    else:
        loop.begin_at(start)


def find_groups(
    problem: Problem, algorithm: Algorithm, limit: int, seed: int, start: Any
) -> tuple[Problem, Any, float]:
    """The problem with groups found after some sweeps with one shared site, that site for each, and the error left."""
    if problem.driver is not COMPILED:
        raise ValueError("groups must be an array of labels, or 'random', for data in blocks; got groups='auto'.")
    if min(int(algorithm.n_sites), len(problem.weight) - 1) <= 1:
        return problem, None, float("nan")
    limit = min(limit, SWEEPS_WITH_ONE_SITE)
    loop = Loop(problem, aep(algorithm.power), limit, TOL_WITH_ONE_SITE, seed, evidence=False)
    if start is not None:
        begin(loop, start)
    loop.settle()
    site = jax.tree.map(lambda leaf: leaf[0], loop.state.sites)
    labels, error = grouping.find(problem, loop.state.q, site, int(algorithm.n_sites), algorithm.power, seed)
    slots = memory.assign(labels, int(labels.max()) + 1, problem.weight)
    sites = jax.tree.map(lambda leaf: jnp.repeat(leaf, slots.n_sites, axis=0), loop.state.sites)
    return problem.with_slots(slots), sites, error


def with_groups(problem: Problem, start: Result) -> Problem:
    """The problem with the groups of another fit to the same data."""
    groups = getattr(start, "groups", None)
    if groups is None or len(groups) != len(problem.kept):
        raise ValueError("start must be a result for the same data and algorithm; its groups are of other rows.")
    return problem.with_slots(memory.assign(groups[problem.kept], start.n_sites, problem.weight))
