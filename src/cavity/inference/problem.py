"""A fit before it starts: what the user gave, checked, and laid out for the engine."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cavity._checks import as_numbers, is_integer, is_number
from cavity.families.product import as_family
from cavity.inference import kernel as general
from cavity.inference import memory
from cavity.inference.driver import COMPILED, Driver
from cavity.inference.kernel import Kernel, Model
from cavity.inference.memory import Slots
from cavity.inference.named import ALL, Algorithm


class Problem(NamedTuple):
    """A fit ready to start: everything checked, on the device, and in the coordinates that suit it."""

    model: Model
    kernel: Kernel
    slots: Slots
    weight: np.ndarray
    lift: Callable[[Any], Any] | None  # a site from the coordinates of the fit to the user's, where they differ
    given: tuple[Any, Any]  # prior and data in the user's coordinates
    driver: Driver
    kept: np.ndarray  # which of the user's rows these are: those that weigh something

    @classmethod
    def of(cls, factor: Any, prior: Any, data: Any, algorithm: Any, weights: Any, seed: int) -> "Problem":
        """Check what the user gave."""
        if not isinstance(algorithm, Algorithm):
            raise ValueError(f"algorithm must be one of cavity.ep(), cavity.sep(), …; got {algorithm!r}.")
        if not all(hasattr(factor, name) for name in ("log_mean", "site", "check")) or isinstance(factor, type):
            raise ValueError(f"factor must be a factor, such as cavity.factors.probit(); got {factor!r}.")
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
        driver = factor.driver(prior, data, algorithm, slots.own, seed) or COMPILED
        with jax.enable_x64(True):
            count = np.where(slots.counts > 0, slots.counts, 1.0)  # an empty group has a site that is never visited
            model = Model(factor, prior, data, weight, slots.of_row.astype(np.int32), count)
            model = jax.tree.map(jnp.asarray if driver.on_device else np.asarray, model)
            return cls(model, kernel, slots, weight, lift, given, driver, kept)

    def with_slots(self, slots: Slots) -> "Problem":
        """The same fit with other slots, shared ones."""
        count = np.where(slots.counts > 0, slots.counts, 1.0)
        model = self.model._replace(slot=jnp.asarray(slots.of_row.astype(np.int32)), counts=jnp.asarray(count))
        return self._replace(slots=slots, model=model)

    def groups(self) -> np.ndarray:
        """The slot of every row that the user gave; zero for those that are not kept."""
        of_row = np.zeros(len(self.kept), dtype=int)
        of_row[self.kept] = self.slots.of_row
        return of_row


def assign(algorithm: Algorithm, weight: np.ndarray, kept: np.ndarray, seed: int) -> Slots:
    """The slot of every row that is kept."""
    n = len(weight)
    if algorithm.n_sites == ALL:
        return memory.assign(None, n, weight)
    n_sites = int(algorithm.n_sites)
    if algorithm.finds_groups:  # later, from a fit with one
        return memory.assign(np.zeros(n, dtype=int), 1, weight)
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
    weight = as_numbers("weights", weights)
    if weight.shape != (n,):
        raise ValueError(f"weights must have one entry per row, ({n},); got shape {weight.shape}.")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight > 0):
        raise ValueError("weights must be finite and non-negative, and not all zero.")
    kept = weight > 0
    return weight[kept], jax.tree.map(lambda leaf: leaf[kept], data), kept


def check_limits(max_sweeps: Any, tol: Any, seed: Any, evidence: Any, algorithm: Algorithm) -> int:
    """The number of sweeps allowed, or a ValueError for any setting out of range."""
    if max_sweeps is not None and not (is_integer(max_sweeps) and max_sweeps >= 1):
        raise ValueError(f"max_sweeps must be a positive integer; got {max_sweeps=}.")
    if not (is_number(tol) and tol >= 0):
        raise ValueError(f"tol must be a non-negative number; got {tol=}.")
    if not (is_integer(seed) and seed >= 0):
        raise ValueError(f"seed must be a non-negative integer; got {seed=}.")
    if evidence not in (True, False, "history"):
        raise ValueError(f"evidence must be True, False or 'history'; got {evidence=}.")
    return int(max_sweeps or algorithm.max_sweeps)
