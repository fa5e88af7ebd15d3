"""What every exponential family has, derived from its log-partition.

A family is q(θ) = h(θ) exp(⟨η, T(θ)⟩ − A(η)). An instance *is* its natural parameter η: a frozen pytree whose
leaves are the parts of η, on which +, − and scalar × act. The same class also holds moments E_q[T], because they
have the same structure: `q.moments()` gives them and `moments.from_moments()` goes back.

Leading axes of the leaves are independent copies: a `Gamma` whose leaves have shape (5,) is a product of five.
"""

import abc
import operator
from collections.abc import Callable
from typing import Any, Self, TypeVar, dataclass_transform

import numpy as np

from cavity import _tree
from cavity._array import Array, is_jax, namespace
from cavity._precision import in_float64, is_traced
from cavity._pytree import NODES, pytree, unflatten

T = TypeVar("T")


def dot(left: Any, right: Any) -> Array:
    """⟨η, T⟩: the inner product of two pytrees of equal structure."""
    return sum(_tree.leaves(_tree.map(inner, left, right)), start=0.0)


def inner(left: Any, right: Any) -> Array:
    """Σ a b over all entries of two arrays; on the host without an array of products."""
    return (left * right).sum() if is_jax(left, right) else np.vdot(left, right)


def total_of_logs(logs: Any, axis: int | None = None) -> Array:
    """Σ of logarithms of factors of a density; where one factor is zero and another infinite, the density is zero."""
    xp = namespace(logs)
    return xp.where(xp.any(xp.isneginf(logs), axis=axis), -np.inf, xp.sum(logs, axis=axis))[()]


class ExpFamily(abc.ABC):
    """An exponential family; a subclass gives the abstract methods and inherits the rest.

    Methods may be written with JAX alone. A family whose methods use `xp = namespace(...)` throughout overrides
    `has_host_form`: its reads of NumPy arrays then need no JAX.
    """

    # -- what a family must say ------------------------------------------------------------------------------

    @abc.abstractmethod
    def log_partition(self) -> Array:
        """A(η), summed over independent copies."""

    @abc.abstractmethod
    def from_moments(self) -> Self:
        """The natural parameters of the distribution whose moments E[T] this instance holds: (∇A)⁻¹."""

    @abc.abstractmethod
    def is_proper(self) -> Array:
        """Whether η is finite and inside the domain of A."""

    @abc.abstractmethod
    def statistics(self, theta: Any) -> Self:
        """T(θ), with the structure of η."""

    @abc.abstractmethod
    def log_base(self, theta: Any) -> Array:
        """log h(θ), summed over independent copies."""

    @abc.abstractmethod
    def event_shape(self) -> Any:
        """The shape of θ (a tuple of integers), or a pytree of shapes where θ is a pytree."""

    @abc.abstractmethod
    def draw(self, key: Array) -> Any:
        """One draw of θ."""

    # -- what follows ----------------------------------------------------------------------------------------

    def has_host_form(self) -> bool:
        """Whether every method computes with NumPy where all numbers are NumPy's."""
        return False

    def moments(self) -> Self:
        """E_q[T] = ∇A(η)."""
        import jax

        return jax.grad(lambda eta: eta.log_partition())(self)

    @in_float64
    def expected(self, direction: Self) -> Array:
        """⟨direction, E_q[T]⟩."""
        return dot(direction, self.moments())

    @in_float64
    def moments_along(self, direction: Self) -> Self:
        """∇²A(η) times a direction of η: how fast the moments change that way."""
        import jax

        return jax.jvp(lambda eta: eta.moments(), (self,), (direction,))[1]

    @in_float64
    def entropy(self) -> Array:
        """−E_q[log q], where the base measure is constant in θ or its expectation is known to the family."""
        moments = self.moments()
        return self.log_partition() - dot(self, moments) - self.expected_log_base(moments)

    def expected_log_base(self, moments: Self) -> Array:
        """E_q[log h(θ)]; zero unless the family says otherwise."""
        return np.float64(0.0)

    @in_float64
    def kl(self, other: Self) -> Array:
        """KL(self ‖ other) = ⟨η − η', E_q[T]⟩ − A(η) + A(η')."""
        return dot(self - other, self.moments()) - self.log_partition() + other.log_partition()

    @in_float64
    def distance(self, other: Self) -> Array:
        """√⟨η − η', μ − μ'⟩, the root of the symmetrised KL: for small steps, how many posterior sds they are."""
        square = dot(self - other, self.moments() - other.moments())
        xp = namespace(square)
        return xp.sqrt(xp.maximum(square, 0.0))

    @in_float64
    def means_apart(self, other: Self) -> Array:
        """max |E[θ_i] − E'[θ_i]| / sd(θ_i) over the numbers in θ; NaN where a family knows no means and variances."""
        if not hasattr(type(self), "variance"):
            return np.float64(np.nan)
        check_alike(self, other)
        gap = abs(self.mean - other.mean)  # type: ignore[attr-defined]
        xp = namespace(gap)
        return xp.max(gap / xp.sqrt(self.variance))  # type: ignore[attr-defined]

    @in_float64
    def log_prob(self, theta: Any) -> Array:
        """log q(θ); leading axes of θ beyond its own shape are independent evaluations."""
        theta = _tree.map(lambda _, part: as_array(part), self.event_shape(), theta, is_leaf=is_shape)
        log_partition = self.log_partition()
        on_host = self.has_host_form() and not is_jax(log_partition, *_tree.leaves(theta))
        one = lambda t: self.log_weight(t) - log_partition
        return over_leading_axes(one, theta, self.event_shape(), on_host)

    @in_float64
    def log_weight(self, theta: Any) -> Array:
        """⟨η, T(θ)⟩ + log h(θ). A family whose θ is bounded says here what holds at the edge, and −∞ beyond it."""
        return dot(self, self.statistics(theta)) + self.log_base(theta)

    @in_float64
    def sample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Draws of θ with leading `shape`; the key is one of JAX, an integer or a NumPy generator.

        >>> import jax, cavity
        >>> cavity.Gamma(2.0, 1.0).sample(jax.random.key(0), (3,)).shape
        (3,)
        """
        if isinstance(key, int | np.integer | np.random.Generator):
            return self.draws(np.random.default_rng(key), shape)
        import jax

        draws = jax.vmap(self.draw)(jax.random.split(key, int(np.prod(shape, dtype=int))))
        return _tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), draws)

    def draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draws of θ by NumPy's generator, which only gives the key of JAX unless the family says otherwise."""
        import jax

        return self.sample(jax.random.key(rng.integers(2**63)), shape)

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what was read of them is read again."""
        fields = NODES[type(self)]
        return {name: getattr(self, name) for name in (*fields.children, *fields.static)}

    # -- arithmetic on η -------------------------------------------------------------------------------------
    # `operator` rather than `jnp`: NumPy leaves stay NumPy float64 outside the precision scope.

    def __add__(self, other: Self) -> Self:
        return combined(operator.add, self, other)

    def __sub__(self, other: Self) -> Self:
        return combined(operator.sub, self, other)

    def __rmul__(self, scale: Any) -> Self:
        fields = NODES[type(self)]
        leaves = [getattr(self, name) for name in fields.children]
        if not fields.static and all(type(leaf) is np.ndarray for leaf in leaves):
            return unflatten(type(self), (), [scale * leaf for leaf in leaves])
        return _tree.map(lambda leaf: scale * leaf, self)


def combined(function: Callable[[Any, Any], Any], left: T, right: Any) -> T:
    """A function of the leaves of two members of one family.

    Steps of a fit are made of such sums: where all leaves are arrays of NumPy, the tree is not walked for them.
    """
    fields = NODES[type(left)]
    if type(left) is type(right) and not fields.static:
        pairs = [(getattr(left, name), getattr(right, name)) for name in fields.children]
        if all(type(a) is type(b) is np.ndarray and a.shape == b.shape for a, b in pairs):
            return unflatten(type(left), (), [function(a, b) for a, b in pairs])
    check_alike(left, right)
    return _tree.map(function, left, right)


def check_alike(left: Any, right: Any) -> None:
    """Raise unless two families are of one kind and shape: broadcasting would make up a third."""
    if not are_alike(left, right):
        raise ValueError(f"families must be of the same kind and shape; got {describe(left)} and {describe(right)}.")


def are_alike(left: Any, right: Any) -> bool:
    """Whether two pytrees have the same structure, classes included, and leaves of the same shapes."""
    if _tree.structure(left) != _tree.structure(right):
        return False
    return all(np.shape(a) == np.shape(b) for a, b in zip(_tree.leaves(left), _tree.leaves(right), strict=True))


def describe(tree: Any) -> str:
    """A family with the shapes of its leaves in their place, for messages."""
    return repr(_tree.map(np.shape, tree)) if is_family(tree) else type(tree).__name__


@dataclass_transform(frozen_default=True)
def family(cls: type[T]) -> type[T]:
    """A `pytree` whose leaves are made float64 arrays by the constructor."""
    cls = pytree(cls)
    construct, names = cls.__init__, NODES[cls].children

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        for name in names:
            object.__setattr__(self, name, as_leaves(getattr(self, name)))

    cls.__init__ = init  # type: ignore[method-assign]
    return cls


def as_leaves(value: Any) -> Any:
    """A field as float64: one array (lists included), or a pytree of families as it is."""
    if isinstance(value, np.ndarray):
        return as_float64(value)
    holds_families = any(isinstance(node, ExpFamily) for node in _tree.leaves(value, is_leaf=is_family))
    return value if holds_families else as_float64(value)


def is_family(node: Any) -> bool:
    return isinstance(node, ExpFamily)


def as_float64(leaf: Any) -> Any:
    """A user's number as a NumPy float64 array; JAX values under a trace pass through."""
    return leaf if is_traced(leaf) else np.asarray(leaf, dtype=np.float64)


def as_array(value: Any) -> Array:
    """An array as it is; numbers in lists as one, of JAX where any of them is JAX's."""
    return namespace(*_tree.leaves(value)).asarray(value)


def is_shape(node: Any) -> bool:
    """Whether a node of an event shape is the shape of one array."""
    return isinstance(node, tuple) and all(isinstance(size, int) for size in node)


def over_leading_axes(function: Any, theta: Any, event_shape: Any, on_host: bool = False) -> Array:
    """Apply a function of one θ over whatever axes θ has in front of its own shape."""
    first_shape = _tree.leaves(event_shape, is_leaf=is_shape)[0]
    first = _tree.leaves(theta)[0]
    lead = first.shape[: first.ndim - len(first_shape)]
    flat = _tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[len(lead) :]), theta)
    if on_host:
        count = int(np.prod(lead, dtype=int))
        values = [function(_tree.map(lambda leaf, i=i: leaf[i], flat)) for i in range(count)]
        return np.array(values, dtype=np.float64).reshape(lead)
    import jax

    return jax.vmap(function)(flat).reshape(lead)
