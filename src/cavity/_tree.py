"""Tree functions of JAX, for now."""

from typing import Any

import jax


def map(function: Any, tree: Any, *others: Any, is_leaf: Any = None) -> Any:
    return jax.tree.map(function, tree, *others, is_leaf=is_leaf)


def leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=is_leaf)


def structure(tree: Any) -> Any:
    return jax.tree.structure(tree)
