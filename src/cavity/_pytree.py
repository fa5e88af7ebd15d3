"""Frozen dataclasses that JAX sees as pytrees.

`jax.tree_util.register_dataclass` is not used: with JAX 0.10 the structures of two different classes registered by it
compare equal when their fields do, and `jit` may then run the program compiled for the wrong class.
"""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def pytree(cls: type[T]) -> type[T]:
    """Make a class with annotated fields a frozen dataclass and a pytree.

    Fields whose metadata says `static` are structure; all others are subtrees.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    leaves = [f.name for f in fields if not f.metadata.get("static")]
    static = [f.name for f in fields if f.metadata.get("static")]

    def flatten(self: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in leaves]
        return children, tuple(getattr(self, name) for name in static)

    def unflatten(structure: tuple[Any, ...], children: Any) -> Any:
        self = object.__new__(cls)  # skips the constructor: JAX also unflattens placeholders that are not numbers
        for name, value in zip([*leaves, *static], [*children, *structure], strict=True):
            object.__setattr__(self, name, value)
        return self

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)
    return cls
