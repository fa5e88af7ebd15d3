"""The loop: sweeps until q stops moving."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from tqdm import tqdm

from cavity._precision import to_numpy
from cavity.families.base import is_shape
from cavity.families.product import as_family
from cavity.inference import evidence as evidence_of
from cavity.inference import kernel as general
from cavity.inference import memory, rates
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Plan, Slots
from cavity.inference.named import ALL, Algorithm
from cavity.inference.result import CollapseWarning, ConvergenceWarning, History, Result, Sweep
from cavity.inference.step import Info, State

SMALLEST_SHARE = 2.0**-10


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
) -> Result:
    """Approximate the posterior of θ given data, by any algorithm of the table in `cavity.inference.named`.

    Args:
        factor: the likelihood, from `cavity.factors`.
        prior: an exponential family, or a dict, tuple or list of families for a product.
        data: arrays with one row per datum; `(X, y)` for generalised linear models.
        algorithm: `cavity.ep()`, `cavity.sep(batch_size=100)`, …
        weights: counts, one per row: weight 2 is the same as the row twice, weight 0 as no row.
        max_sweeps: passes over the data at most; by default 1 for ADF and 200 otherwise.
        tol: stop when a full sweep would move q by less than this many posterior standard deviations.
        callback: called after every sweep with a `Sweep`; a true return value ends the fit.
        evidence: True for log Z at the end, "history" for every sweep, False for none.

    >>> import cavity, numpy as np
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 1.0, -1.0])
    >>> result = cavity.fit(cavity.factors.probit(), cavity.Gaussian.isotropic(1), (X, y), cavity.ep())
    >>> result.converged
    True
    """
    problem = Problem.of(factor, prior, data, algorithm, weights, seed)
    limit = check_limits(max_sweeps, tol, seed, evidence, algorithm)
    with jax.enable_x64(True):
        return Loop(problem, algorithm, limit, tol, seed, evidence).run(progress, callback)


# Three programs rather than one: only the sweep depends on the factor, so the others are compiled once per family.


@partial(jax.jit, static_argnames=("kernel", "power", "mode"))
def one_sweep(
    kernel: Kernel, state: State, model: Model, plan: Plan, rates: Array, power: float, mode: Any
) -> tuple[State, Info]:
    """The visits of a plan."""
    return kernel.sweep(state, model, plan, rates, power=power, mode=mode)


close_sweep = jax.jit(general.settle, static_argnames="average")


@jax.jit
def measure(old: Any, new: Any) -> tuple[Array, Array]:
    """How far q moved, and the entropy of the new q."""
    return new.distance(old), new.entropy()


class Problem(NamedTuple):
    """A fit ready to start: everything checked, on the device, and in the coordinates that suit it."""

    model: Model
    kernel: Kernel
    slots: Slots
    weight: np.ndarray
    lift: Callable[[Any], Any] | None  # a site from the coordinates of the fit to the user's, where they differ
    given: tuple[Any, Any]  # prior and data in the user's coordinates

    @classmethod
    def of(cls, factor: Any, prior: Any, data: Any, algorithm: Any, weights: Any, seed: int) -> "Problem":
        """Check what the user gave."""
        if not isinstance(algorithm, Algorithm):
            raise ValueError(f"algorithm must be one of cavity.ep(), cavity.sep(), …; got {algorithm!r}.")
        try:
            prior = as_family(prior)
        except TypeError as error:
            raise ValueError(f"prior must be an exponential family, such as cavity.Gaussian: {error}") from None
        if not bool(prior.is_proper()):
            raise ValueError("prior must be a proper distribution; got parameters that are not finite or out of range.")
        data = factor.check(prior, data)
        weight, data, kept = check_weights(weights, data)
        slots = assign(algorithm, weight, kept, seed)
        given = prior, data
        prior, data, lift = factor.simplify(prior, data)
        kernel = factor.kernel(prior) or general.GENERAL
        with jax.enable_x64(True):
            count = np.where(slots.counts > 0, slots.counts, 1.0)  # an empty group has a site that is never visited
            arrays = (factor, prior, data, weight, slots.of_row.astype(np.int32), count)
            return cls(Model(*jax.tree.map(jnp.asarray, arrays)), kernel, slots, weight, lift, given)


class Loop:
    """The sweeps of one fit, and what is decided between them."""

    def __init__(
        self, problem: Problem, algorithm: Algorithm, limit: int, tol: float, seed: int, evidence: bool | str
    ) -> None:
        self.problem, self.algorithm, self.limit, self.tol, self.evidence = problem, algorithm, limit, tol, evidence
        self.rng = np.random.default_rng(seed)
        self.state = problem.kernel.init(problem.model, problem.slots.own)
        self.share = 1.0  # of the asked move that is made: halved when the change stops falling
        self.sweeps: list[Sweep] = []
        self.left_out = 0  # data whose own site had no proper cavity when log Z was last formed
        self.log_means: list[float] = []  # Σ ℓ over each sweep: the first is ADF's evidence

    def run(self, progress: bool, callback: Callable[[Sweep], Any] | None) -> Result:
        """Sweep until converged, told to stop, or out of sweeps."""
        start, interrupted, converged = time.perf_counter(), False, False
        bar = tqdm(total=self.limit, desc="sweeps", disable=not progress)
        try:
            for number in range(1, self.limit + 1):
                sweep = self.sweep(number, start)
                self.sweeps.append(sweep._replace(current=None))  # a record, not another copy of q
                bar.update()
                bar.set_postfix(change=f"{sweep.change:.2g}", skipped=sweep.skipped)
                converged = sweep.change < self.tol or (self.problem.slots.n_sites == 0 and self.limit == 1)
                stop = callback is not None and callback(sweep)
                if stop or converged:
                    break
                self.back_off()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            bar.close()
        if not self.sweeps:
            raise KeyboardInterrupt
        return self.result(converged, interrupted)

    def sweep(self, number: int, start: float) -> Sweep:
        """One pass over the data under jit, and its record."""
        model, kernel, slots = self.problem[:3]
        plan = memory.plan(self.rng, slots, self.algorithm.batch_size, self.algorithm.replace)
        step_rates = self.rates(number, plan)
        mode = kernel.mode(model, self.problem.weight, plan, step_rates)
        end, info = one_sweep(
            kernel, self.state, model, on_device(plan), jnp.asarray(step_rates), self.algorithm.power, mode
        )
        end = close_sweep(model.prior, model.counts, self.state, end, self.share, average=self.algorithm.settles)
        change, entropy = measure(self.state.q, end.q)
        self.state = end
        self.log_means.append(float(info.log_mean))
        return Sweep(
            number,
            float(change) / self.share,
            int(info.skipped),
            int(info.backoffs),
            self.share,
            float(entropy),
            self.log_evidence() if self.evidence == "history" else float("nan"),
            time.perf_counter() - start,
            partial(self.in_user_coordinates, self.state.q),
        )

    def rates(self, number: int, plan: Plan) -> np.ndarray:
        """ε of every batch in this sweep.

        Sites that are averaged at the end of a sweep let q wander within it at a rate that halves each sweep: the
        first is as quick as the literal algorithm, later ones turn into averaged EP, whose fixed point they reach.
        """
        n_batches = len(plan.rows)
        if self.algorithm.rate is not None:
            steps = np.arange((number - 1) * n_batches, number * n_batches)
            return rates.evaluate(self.algorithm.rate, steps, n_batches)
        shared = self.algorithm.settles and not self.problem.slots.own
        stochastic = shared and n_batches > self.problem.slots.n_sites
        return np.full(n_batches, self.share * (0.5 ** (number - 1) if stochastic else 1.0))

    def back_off(self) -> None:
        """Halve the share of each move that is made when the change has stopped falling."""
        if self.algorithm.settles and len(self.sweeps) > 1 and self.sweeps[-1].change >= self.sweeps[-2].change:
            self.share = max(0.5 * self.share, SMALLEST_SHARE)

    def in_user_coordinates(self, q: Any) -> Any:
        """q as the user knows it, in NumPy."""
        model, lift = self.problem.model, self.problem.lift
        with jax.enable_x64(True):
            return to_numpy(q if lift is None else self.problem.given[0] + lift(q - model.prior))

    def closing_plan(self) -> Plan:
        """All rows of a slot at once, in order."""
        return on_device(memory.plan(self.rng, self.problem.slots, None, replace=False))

    def log_evidence(self) -> float:
        """log Z; for K = 0 the sum of log predictive densities over the first pass."""
        if self.problem.slots.n_sites == 0:
            return self.log_means[0]
        model, kernel = self.problem[:2]
        plan = self.closing_plan()
        value, left_out = evidence_of.log_evidence(kernel, model, self.state.sites, plan, self.algorithm.power)
        self.left_out = int(left_out)
        return float(value)

    def gradient(self) -> tuple[Any, Any]:
        """d log Z with respect to factor and prior, in the user's coordinates."""
        model, kernel, slots, _, lift, (prior, data) = self.problem
        if slots.n_sites == 0:
            raise ValueError("ADF remembers no sites, so its evidence has no gradient. Fit with cavity.ep() or aep().")
        sites = self.state.sites
        if lift is not None:
            model = model._replace(prior=jax.tree.map(jnp.asarray, prior), data=jax.tree.map(jnp.asarray, data))
            sites = sites if slots.own else jax.vmap(lift)(sites)
        return evidence_of.gradient(kernel, model, sites, self.closing_plan(), self.algorithm.power)

    def result(self, converged: bool, interrupted: bool) -> Result:
        """What the user gets, with warnings for what went wrong on the way."""
        history = History.of(self.sweeps)
        posterior = self.in_user_coordinates(self.state.q)
        if not bool(posterior.is_proper()):  # q itself always is: only the way back can lose it
            raise ValueError(
                "data must be rescaled: the precisions of the posterior span more than the sixteen digits of float64. "
                "Standardise the columns of X, or use a prior variance nearer to the scale of the data."
            )
        log_evidence = self.log_evidence() if self.evidence else float("nan")
        for category, message in complaints(history, self.problem, converged, interrupted, self.tol, self.left_out):
            warnings.warn(message, category, stacklevel=4)
        n_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(self.state.sites)) if self.problem.slots.n_sites else 0
        return Result(
            posterior=posterior,
            converged=converged,
            n_sweeps=len(self.sweeps),
            n_skipped=int(history.skipped.sum()),
            history=history,
            log_evidence=log_evidence,
            site_bytes=n_bytes,
            _gradient=self.gradient,
        )


def complaints(
    history: History, problem: Problem, converged: bool, interrupted: bool, tol: float, left_out: int
) -> list[tuple[type[Warning], str]]:
    """What a careful person would say about a fit."""
    found: list[tuple[type[Warning], str]] = []
    n_sweeps = len(history.change)
    if interrupted:
        found.append((ConvergenceWarning, f"Interrupted after {n_sweeps} sweeps; the result so far is returned."))
    elif not converged and problem.slots.n_sites > 0:
        message = (
            f"Not converged after {n_sweeps} sweeps: the last changed the posterior by {history.change[-1]:.2g} "
            f"standard deviations, more than tol={tol:g}. Raise max_sweeps or tol, or leave rate=None."
        )
        found.append((ConvergenceWarning, message))
    if history.skipped[-1] > 0:
        message = (
            f"{history.skipped[-1]} of {len(problem.slots.of_row)} data were skipped in the last sweep because their "
            "cavity or tilted distribution was improper; the posterior does not reflect them. A power below 1, a "
            "tighter prior or rescaled features may help."
        )
        found.append((ConvergenceWarning, message))
    if left_out:
        message = f"log_evidence leaves out {left_out} data whose cavity was improper when it was formed."
        found.append((ConvergenceWarning, message))
    if is_collapsing(history.entropy / n_parameters(problem.model.prior)):
        message = (
            "The posterior's variance has shrunk in every recent sweep and shows no sign of stopping: data are counted "
            "more than once. Stop ADF after one pass (max_sweeps=1), or use cavity.sep(), which remembers."
        )
        found.append((CollapseWarning, message))
    return found


def n_parameters(prior: Any) -> int:
    """How many numbers θ has."""
    shapes = jax.tree.leaves(prior.event_shape(), is_leaf=is_shape)
    return int(sum(np.prod(shape, dtype=int) for shape in shapes))


def is_collapsing(entropy: np.ndarray, recent: int = 4) -> bool:
    """Whether the last falls of the entropy per parameter are all sizeable and do not die out.

    After s passes ADF holds about s times the precision of one, so its entropy falls by ½ log(1 + 1/s) per parameter,
    each fall nearly as large as the one before; an algorithm that settles has falls that at least halve.
    """
    falls = -np.diff(entropy)[-recent:]
    return len(falls) == recent and bool(np.all(falls > 0.01) and np.all(falls[1:] > 0.6 * falls[:-1]))


def on_device(plan: Plan) -> Plan:
    """A plan as JAX arrays; 32-bit row numbers are enough."""
    return Plan(*(jnp.asarray(np.asarray(leaf, dtype=np.int32)) for leaf in plan))


def assign(algorithm: Algorithm, weight: np.ndarray, kept: np.ndarray, seed: int) -> Slots:
    """The slot of every row that is kept."""
    n = len(weight)
    if algorithm.n_sites == ALL:
        return memory.assign(None, n, weight)
    n_sites = int(algorithm.n_sites)
    if algorithm.groups is None:
        groups = None if n_sites == 0 else np.zeros(n, dtype=int)
    elif isinstance(algorithm.groups, str):
        groups = np.random.default_rng([seed, 1]).permutation(np.arange(n) % n_sites)
    else:
        groups = np.asarray(algorithm.groups)
        if len(groups) != len(kept):
            raise ValueError(f"groups must have one label per row, {len(kept)}; got {len(groups)}.")
        groups = groups[kept]
    return memory.assign(groups, n_sites, weight)


def check_weights(weights: Any, data: Any) -> tuple[np.ndarray, Any, np.ndarray]:
    """Weights as float64, without the rows that weigh nothing, and which rows those are not."""
    leaves = jax.tree.leaves(data)
    n = len(leaves[0])
    if n == 0:
        raise ValueError("data must have at least one row; got none.")
    if weights is None:
        return np.ones(n), data, np.ones(n, dtype=bool)
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"weights must have one entry per row, ({n},); got shape {weight.shape}.")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight > 0):
        raise ValueError("weights must be finite and non-negative, and not all zero.")
    kept = weight > 0
    return weight[kept], jax.tree.map(lambda leaf: leaf[kept], data), kept


def check_limits(max_sweeps: Any, tol: Any, seed: Any, evidence: Any, algorithm: Algorithm) -> int:
    """The number of sweeps allowed, or a ValueError for any setting out of range."""
    if max_sweeps is not None and not (isinstance(max_sweeps, int | np.integer) and max_sweeps >= 1):
        raise ValueError(f"max_sweeps must be a positive integer; got {max_sweeps=}.")
    if not (isinstance(tol, int | float | np.number) and tol >= 0):
        raise ValueError(f"tol must be a non-negative number; got {tol=}.")
    if not (isinstance(seed, int | np.integer) and seed >= 0):
        raise ValueError(f"seed must be a non-negative integer; got {seed=}.")
    if evidence not in (True, False, "history"):
        raise ValueError(f"evidence must be True, False or 'history'; got {evidence=}.")
    return int(max_sweeps or algorithm.max_sweeps)
