"""`fit`: from data, model and algorithm to a posterior."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from cavity._checks import is_integer
from cavity._warnings import warn
from cavity.families.base import is_family
from cavity.families.product import as_family
from cavity.inference import grouping
from cavity.inference.ahead import looks_ahead
from cavity.inference.loop import Limits, Loop
from cavity.inference.named import Algorithm
from cavity.inference.problem import Problem, check_limits
from cavity.inference.result import Progress, Result, Sweep
from cavity.inference.resume import begun_at, with_prior
from cavity.inference.sweep import first_state
from cavity.inference.threads import Threads, available, one_blas_thread
from cavity.inference.walk import Walk


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
    keep_data: bool = False,
    n_threads: int | None = None,
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
        start: a result for the same data and algorithm to go on from, as if it had never stopped; with other
            hyper-parameters, one whose sites to begin from. Rates that depend on the step go on too. Or a member of
            the prior's family to begin at: where the prior is a fixed point of its own, as in mixtures with alike
            components, or where it is far from the end, for `parallel_ep` of many rows.
        keep_data: whether the result holds on to the data, so that its evidence can be differentiated and its linear
            response asked for.
        n_threads: threads that sum the rows of generalised linear models; by default as many as OMP_NUM_THREADS says,
            or as there are processors. The number does not change a bit of the result.

    >>> import cavity, numpy as np
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
    >>> result = cavity.fit(cavity.factors.probit(), cavity.Gaussian.isotropic(1), (X, y), cavity.ep())
    >>> result.converged
    True
    """
    options = Options(weights, max_sweeps, tol, seed, progress, callback, evidence, start, keep_data, n_threads)
    result = quiet_fit(factor, prior, data, algorithm, options)
    for category, message in result.complaints:
        warn(message, category)
    return result


@dataclass(frozen=True)
class Options:
    """How a fit is made, apart from the model and the algorithm: what `fit` takes by name."""

    weights: Any = None
    max_sweeps: int | None = None
    tol: float = 1e-5
    seed: int = 0
    progress: bool = False
    callback: Callable[[Sweep], Any] | None = None
    evidence: bool | str = True
    start: Any = None
    keep_data: bool = False
    n_threads: int | None = None


def quiet_fit(factor: Any, prior: Any, data: Any, algorithm: Algorithm, options: Options) -> Result:
    """`fit` without warnings: what there is to say is in `Result.complaints`."""
    return made(Problem.of(factor, prior, data, algorithm, options.weights, options.seed), algorithm, options)


def made(problem: Problem, algorithm: Algorithm, options: Options) -> Result:
    """The fit of a problem, whose data and weights are checked and laid out."""
    tol, seed, evidence, start = options.tol, options.seed, options.evidence, options.start
    limits = Limits(check_limits(options.max_sweeps, tol, seed, evidence, algorithm), tol, seed, evidence)
    if options.callback is not None and not callable(options.callback):
        raise ValueError(f"callback must be a function of a Sweep; got {options.callback!r}.")
    calm = one_blas_thread() if problem.sums.small_matrices else nullcontext()
    with Threads(check_threads(options.n_threads)) as threads, calm:
        walk, begun = Walk(problem, threads), None
        if algorithm.finds_groups:
            walk, begun = grouping.grouped(walk, algorithm, limits, start)
        if begun is None:
            begun = beginning(walk, algorithm, limits.seed, start)
        loop = Loop(walk, algorithm, limits, begun)
        ending = loop.run(options.progress, options.callback)
        return loop.result(ending, options.keep_data)


def beginning(walk: Walk, algorithm: Algorithm, seed: int, start: Any) -> Progress:
    """Where the fit begins."""
    state = first_state(walk, seed)
    if start is None:
        return Progress.at(state, near=walk.sums.first_look if looks_ahead(walk, algorithm) else None)
    if isinstance(start, Progress):
        return with_prior(walk, start)
    if isinstance(start, dict | tuple | list) or is_family(start):
        start = as_family(start)
    elif not isinstance(start, Result):
        raise ValueError(f"start must be a Result, or a member of the prior's family; got {type(start).__name__}.")
    return begun_at(walk, algorithm, state, start, seed)


def check_threads(n_threads: Any) -> int:
    """A number of threads, or as many as this process may use."""
    if n_threads is None:
        return available()
    if not (is_integer(n_threads) and n_threads >= 1):
        raise ValueError(f"n_threads must be a positive integer or None; got {n_threads=}.")
    return int(n_threads)
