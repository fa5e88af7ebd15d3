"""A fit before it starts: what the user gave, checked, and laid out for the walk."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._checks import as_numbers, is_integer, is_number
from cavity.families.product import as_family
from cavity.inference import memory
from cavity.inference.contract import Factor, Sums
from cavity.inference.memory import Slots
from cavity.inference.named import ALL, Algorithm
from cavity.inference.source import Arrays


class Problem(NamedTuple):
    """A fit ready to start: everything checked, and in the coordinates that suit it."""

    factor: Any
    prior: Any
    source: Any
    weight: tuple[np.ndarray, ...] | None  # of each row, a part after the other; None where all weigh one
    slots: Slots
    sums: Sums
    lift: Callable[[Any], Any] | None  # a site from the coordinates of the fit to the user's, where they differ
    given: tuple[Any, Any]  # prior and data in the user's coordinates
    kept: np.ndarray | None  # which of the user's rows these are: those that weigh something; None for all

    @classmethod
    def of(cls, factor: Any, prior: Any, data: Any, algorithm: Any, weights: Any, seed: int) -> "Problem":
        """Check what the user gave."""
        check_algorithm(algorithm)
        check_factor(factor)
        prior = check_prior(prior)
        data = factor.check(prior, data)
        weight, data, kept = check_weights(weights, data)
        n_rows = len(tree.leaves(data)[0])
        given = prior, data
        prior, data, lift = factor.simplify(prior, data)
        source = Arrays.of(data)
        sizes = [part.n_rows for part in source.parts]
        slots = assign(algorithm, sizes, weight, kept, seed)
        by_part = None if weight is None else tuple(np.split(weight, np.cumsum(sizes)[:-1]))
        sums = factor.sums(prior, data, algorithm) or derived(factor, prior)
        assert n_rows == sum(sizes)
        return cls(factor, prior, source, by_part, slots, sums, lift, given, kept)

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.source.parts)

    @property
    def total_weight(self) -> float:
        return float(self.n_rows if self.weight is None else sum(part.sum() for part in self.weight))

    @property
    def every_weight(self) -> np.ndarray:
        """The weight of every row."""
        return np.ones(self.n_rows) if self.weight is None else np.concatenate(self.weight)

    def with_model(self, factor: Any, prior: Any, algorithm: Any) -> "Problem":
        """The same rows, which need not be checked again, under another factor of the kind and another prior."""
        if self.lift is not None:  # rows are in coordinates that the prior chose
            prior_of_rows, data, lift = factor.simplify(prior, self.given[1])
            problem = self._replace(source=Arrays.split(data, [part.n_rows for part in self.source.parts]), lift=lift)
        else:
            prior_of_rows, data, problem = prior, self.given[1], self
        sums = factor.sums(prior_of_rows, data, algorithm) or derived(factor, prior_of_rows)
        return problem._replace(factor=factor, prior=prior_of_rows, sums=sums, given=(prior, self.given[1]))

    def with_groups(self, labels: np.ndarray, n_sites: int) -> "Problem":
        """This fit with shared slots for other groups of rows."""
        sizes = [part.n_rows for part in self.source.parts]
        return self._replace(slots=memory.assign(labels, n_sites, sizes, self.every_weight))

    def groups(self, algorithm: Algorithm) -> np.ndarray:
        """The group of every row that the user gave; zero for those that are not kept."""
        of_row = np.zeros(self.n_rows, int) if self.slots.of_row is None else np.concatenate(self.slots.of_row)
        if self.slots.own and not isinstance(algorithm.groups, str):
            of_row = np.asarray(algorithm.groups) if self.kept is None else np.asarray(algorithm.groups)[self.kept]
        elif self.slots.own:
            of_row = np.arange(self.n_rows)
        if self.kept is None:
            return of_row
        everywhere = np.zeros(len(self.kept), dtype=int)
        everywhere[self.kept] = of_row
        return everywhere


def derived(factor: Any, prior: Any) -> Sums:
    """Sums by automatic differentiation: JAX is imported here, where something is traced."""
    from cavity.inference.pull import Each
    from cavity.inference.traced import Traced

    return Traced(Each(factor), prior)


def check_algorithm(algorithm: Any) -> None:
    if not isinstance(algorithm, Algorithm):
        raise ValueError(f"algorithm must be one of cavity.ep(), cavity.sep(), …; got {algorithm!r}.")


def check_factor(factor: Any) -> None:
    """Raise unless this has all members of the contract; the message names the one that is missing."""
    is_factor = hasattr(factor, "log_mean") and not isinstance(factor, type)
    name = missing_member(factor, Factor)
    if not is_factor:
        raise ValueError(f"factor must be a factor, with a log_mean, such as cavity.factors.probit(); got {factor!r}.")
    if name is not None:
        raise ValueError(
            f"factor must have a method {name!r}, as cavity.inference.contract.Factor says; {type(factor).__name__} "
            "has none. A subclass of cavity.factors.Factor has a default for every method but log_mean."
        )


def check_prior(prior: Any) -> Any:
    """The prior as a family."""
    try:
        prior = as_family(prior)
    except TypeError as error:
        raise ValueError(f"prior must be an exponential family, such as cavity.Gaussian: {error}") from None
    if not bool(prior.is_proper()):
        raise ValueError("prior must be a proper distribution; got parameters that are not finite or out of range.")
    return prior


def assign(
    algorithm: Algorithm, sizes: list[int], weight: np.ndarray | None, kept: np.ndarray | None, seed: int
) -> Slots:
    """The slot of every row that is kept."""
    n = sum(sizes)
    if algorithm.n_sites == ALL:
        return memory.assign(None, n, sizes, weight)
    n_sites = int(algorithm.n_sites)
    if algorithm.finds_groups:  # later, from a fit with one
        return memory.assign(None, 1, sizes, weight)
    if algorithm.groups is None:
        groups = None
    elif isinstance(algorithm.groups, str):
        groups = np.random.default_rng([seed, 1]).permutation(np.arange(n) % n_sites)
    else:
        groups = np.asarray(algorithm.groups)
        expected = n if kept is None else len(kept)
        if len(groups) != expected:
            raise ValueError(f"groups must have one label per row, {expected}; got {len(groups)}.")
        groups = groups if kept is None else groups[kept]
    return memory.assign(groups, n_sites, sizes, weight, once=not algorithm.replace)


def check_weights(weights: Any, data: Any) -> tuple[np.ndarray | None, Any, np.ndarray | None]:
    """Weights as float64, the data without the rows that weigh nothing, and which rows those are not."""
    n = len(tree.leaves(data)[0])
    if n == 0:
        raise ValueError("data must have at least one row; got none.")
    if weights is None:
        return None, data, None
    weight = as_numbers("weights", weights)
    if weight.shape != (n,):
        raise ValueError(f"weights must have one entry per row, ({n},); got shape {weight.shape}.")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight > 0):
        raise ValueError("weights must be finite and non-negative, and not all zero.")
    kept = weight > 0
    if np.all(kept):
        return weight, data, None
    return weight[kept], tree.map(lambda leaf: leaf[kept], data), kept


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


def missing_member(given: Any, protocol: type) -> str | None:
    """The first member of a protocol that an object lacks."""
    names = [name for name in vars(protocol) if not name.startswith("_")]
    return next((name for name in names if not callable(getattr(given, name, None))), None)
