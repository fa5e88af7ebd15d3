"""Independent parts: any pytree of families is a family."""

import operator
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from cavity import _tree
from cavity._array import Array, namespace
from cavity._precision import in_float64
from cavity._pytree import unflatten
from cavity.families.base import ExpFamily, check_alike, combined, family, is_family, total_of_logs


def as_family(tree: Any) -> ExpFamily:
    """An exponential family as it is; a dict, tuple or list of them as their product."""
    if is_family(tree):
        return tree
    if isinstance(tree, dict | tuple | list):
        return Product(tree)
    raise TypeError(f"expected an exponential family or a dict, tuple or list of them; got {type(tree).__name__}.")


@family
class Product(ExpFamily):
    """∏_i q_i(θ_i): θ is a pytree with the structure of `parts`, and A, T, KL and entropy are sums over the parts.

    >>> from cavity.families import Gamma, Gaussian, Product
    >>> q = Product({"weights": Gaussian.isotropic(2), "noise": Gamma(3.0, 2.0)})
    >>> q["noise"].mean.item()
    1.5
    """

    parts: Any

    def __post_init__(self) -> None:
        parts = self._leaves()
        wrong = [type(part).__name__ for part in parts if not is_family(part)]
        if wrong or not parts:
            raise TypeError(
                f"parts must be a pytree of exponential families; got {wrong[0] if wrong else 'no family'}."
            )

    def __getitem__(self, key: Any) -> Any:
        return self.parts[key]

    # Steps of a fit are made of such sums: the tree is not walked for a dict of families.

    def __add__(self, other: Self) -> Self:
        return self._part_by_part(operator.add, other)

    def __sub__(self, other: Self) -> Self:
        return self._part_by_part(operator.sub, other)

    def __rmul__(self, scale: Any) -> Self:
        if not is_flat(self):
            return super().__rmul__(scale)
        return unflatten(type(self), (), [{key: scale * part for key, part in self.parts.items()}])

    def _part_by_part(self, function: Callable[[Any, Any], Any], other: Self) -> Self:
        if not (is_flat(self) and is_flat(other) and self.parts.keys() == other.parts.keys()):
            return combined(function, self, other)
        return unflatten(type(self), (), [{key: function(part, other[key]) for key, part in self.parts.items()}])

    def has_host_form(self) -> bool:
        return all(part.has_host_form() for part in self._leaves())

    @in_float64
    def log_partition(self) -> Array:
        return self._sum(lambda part: part.log_partition())

    @in_float64
    def moments(self) -> Self:
        return type(self)(self._map(lambda part: part.moments()))

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        return type(self)(self._map(lambda part, along: part.moments_along(along), direction.parts))

    @in_float64
    def from_moments(self) -> Self:
        return type(self)(self._map(lambda part: part.from_moments()))

    @in_float64
    def kl(self, other: Self) -> Array:
        check_alike(self, other)
        return self._sum(lambda part, part_other: part.kl(part_other), other.parts)

    @in_float64
    def distance(self, other: Self) -> Array:
        check_alike(self, other)
        square = self._sum(lambda part, part_other: part.distance(part_other) ** 2, other.parts)
        return namespace(square).sqrt(square)

    @in_float64
    def means_apart(self, other: Self) -> Array:
        check_alike(self, other)
        gaps = _tree.leaves(self._map(lambda part, part_other: part.means_apart(part_other), other.parts))
        return namespace(*gaps).max(namespace(*gaps).stack(gaps))

    @in_float64
    def is_proper(self) -> Array:
        proper = [part.is_proper() for part in self._leaves()]
        return namespace(*proper).all(namespace(*proper).stack(proper))

    @in_float64
    def statistics(self, theta: Any) -> Self:
        return type(self)(self._map(lambda part, value: part.statistics(value), theta))

    @in_float64
    def log_base(self, theta: Any) -> Array:
        return self._sum(lambda part, value: part.log_base(value), theta)

    @in_float64
    def log_weight(self, theta: Any) -> Array:
        return self._sum_of_logs(lambda part, value: part.log_weight(value), theta)

    @in_float64
    def log_prob(self, theta: Any) -> Array:
        return self._sum_of_logs(lambda part, value: part.log_prob(value), theta)

    @in_float64
    def expected_log_base(self, moments: Self) -> Array:
        return self._sum(lambda part, mean: part.expected_log_base(mean), moments.parts)

    def event_shape(self) -> Any:
        return self._map(lambda part: part.event_shape())

    def draw(self, key: Array) -> Any:
        import jax

        keys = iter(jax.random.split(key, len(self._leaves())))
        return self._map(lambda part: part.draw(next(keys)))

    @in_float64
    def draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return self._map(lambda part: part.draws(rng, shape))

    def _leaves(self) -> list[Any]:
        return _tree.leaves(self.parts, is_leaf=is_family)

    def _map(self, function: Callable[..., Any], *others: Any) -> Any:
        return _tree.map(function, self.parts, *others, is_leaf=is_family)

    def _sum(self, function: Callable[..., Any], *others: Any) -> Array:
        return sum(_tree.leaves(self._map(function, *others)), start=0.0)

    def _sum_of_logs(self, function: Callable[..., Any], *others: Any) -> Array:
        logs = _tree.leaves(self._map(function, *others))
        return total_of_logs(namespace(*logs).stack(logs), axis=0)


def is_flat(q: Any) -> bool:
    """Whether a product is a plain dict of families."""
    return isinstance(q, Product) and type(q.parts) is dict and all(map(is_family, q.parts.values()))
