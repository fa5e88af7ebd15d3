"""Trees of containers without JAX: `map`, `leaves`, `structure` and `unflatten` in the order of `jax.tree`.

Nodes are tuples, lists, dicts in the order of their sorted keys, named tuples, None, which has no leaves, and the
classes made by `cavity._pytree.pytree`. Whatever else JAX has been told of is asked of JAX, where it is loaded.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cavity import _pytree
from cavity._array import is_jax

IsLeaf = Callable[[Any], bool]
LEAVES = frozenset({np.ndarray, np.float64, np.bool_, np.int64, float, int, bool, complex, str, bytes})


class Structure(NamedTuple):
    """A tree without its leaves: the class of the node, what its children do not say, and their structures."""

    kind: type | None
    static: Any
    children: tuple["Structure", ...]


LEAF = Structure(None, None, ())
END = object()


def map(function: Callable[..., Any], tree: Any, *others: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of `function(leaf, *others' subtrees in its place)`."""
    node = None if is_leaf is not None and is_leaf(tree) else one_level(tree)
    if node is None:
        return function(tree, *others)
    kind, static, children = node
    rest = [children_like(tree, node, other) for other in others]
    values = [map(function, *parts, is_leaf=is_leaf) for parts in zip(children, *rest, strict=True)]
    return build(kind, static, values)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """All leaves from left to right."""
    found: list[Any] = []
    collect(tree, is_leaf, found)
    return found


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> Structure:
    """What remains of a tree without its leaves: equal, and of equal hash, for trees of the same classes and keys."""
    node = None if is_leaf is not None and is_leaf(tree) else one_level(tree)
    if node is None:
        return LEAF
    kind, static, children = node
    return Structure(kind, static, tuple([structure(child, is_leaf) for child in children]))


def unflatten(shape: Structure, values: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves."""
    rest = iter(values)
    tree = fill(shape, rest)
    if next(rest, END) is not END:
        raise ValueError("a tree must be given as many leaves as its structure has; got more.")
    return tree


# -- one node -------------------------------------------------------------------------------------------------------


def one_level(tree: Any) -> tuple[type, Any, Any] | None:
    """Class, static part and children of a node; None of a leaf."""
    kind = type(tree)
    if kind in LEAVES:
        return None
    if kind in _pytree.NODES:
        children, static = _pytree.flatten(tree)
        return kind, static, children
    if kind is tuple or kind is list or tree is None or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return kind, None, () if tree is None else tree
    if kind is dict:
        keys = sorted(tree)
        return kind, tuple(keys), [tree[key] for key in keys]
    return one_level_by_jax(tree)


def one_level_by_jax(tree: Any) -> tuple[type, Any, Any] | None:
    """What JAX, where it is loaded, says of an object that is none of ours."""
    tree_util = getattr(sys.modules.get("jax"), "tree_util", None)
    if tree_util is None or isinstance(tree, np.ndarray | np.generic) or is_jax(tree):
        return None
    children, static = tree_util.tree_flatten(tree, is_leaf=lambda part: part is not tree)
    is_leaf = len(children) == 1 and children[0] is tree
    return None if is_leaf else (type(tree), static, children)


def build(kind: type | None, static: Any, children: list[Any]) -> Any:
    """A node from what `one_level` says of it."""
    if kind is type(None):
        return None
    if kind is tuple or kind is list:
        return kind(children)
    if kind is dict:
        return dict(zip(static, children, strict=True))
    if kind in _pytree.NODES:
        return _pytree.unflatten(kind, static, children)
    return kind(*children) if static is None else sys.modules["jax.tree_util"].tree_unflatten(static, children)  # type: ignore[misc]


def children_like(tree: Any, node: tuple[type, Any, Any], other: Any) -> Any:
    """The children of another node, which must be of the same kind."""
    found = one_level(other)
    if found is None or found[:2] != node[:2] or len(found[2]) != len(node[2]):
        raise ValueError(f"trees must have the same structure; got {describe(tree)} and {describe(other)}.")
    return found[2]


def describe(tree: Any) -> str:
    return repr(map(lambda _: "*", tree, is_leaf=lambda part: part is not tree and one_level(part) is not None))


def collect(tree: Any, is_leaf: IsLeaf | None, found: list[Any]) -> None:
    node = None if is_leaf is not None and is_leaf(tree) else one_level(tree)
    if node is None:
        found.append(tree)
    else:
        for child in node[2]:
            collect(child, is_leaf, found)


def fill(shape: Structure, rest: Iterator[Any]) -> Any:
    if shape.kind is None:
        leaf = next(rest, END)
        if leaf is END:
            raise ValueError("a tree must be given as many leaves as its structure has; got fewer.")
        return leaf
    return build(shape.kind, shape.static, [fill(child, rest) for child in shape.children])
