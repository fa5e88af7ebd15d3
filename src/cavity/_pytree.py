"""Frozen dataclasses that are trees: for the host at once, and for JAX as soon as somebody has imported it.

`jax.tree_util.register_dataclass` is not used: with JAX 0.10 the structures of two different classes registered by it
compare equal when their fields do, and `jit` may then run the program compiled for the wrong class.
"""

import dataclasses
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, dataclass_transform

T = TypeVar("T")


class Fields(NamedTuple):
    """Names of the fields of a class: those that are subtrees, and those that are structure."""

    children: tuple[str, ...]
    static: tuple[str, ...]


NODES: dict[type, Fields] = {}  # every class made by `pytree`
_WAITING: list[type] = []  # those that JAX does not know yet
_LOCK = threading.Lock()


@dataclass_transform(frozen_default=True)
def pytree(cls: type[T]) -> type[T]:
    """Make a class with annotated fields a frozen dataclass and a pytree.

    Fields whose metadata says `static` are structure; all others are subtrees.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    is_static = lambda field: bool(field.metadata.get("static"))
    NODES[cls] = Fields(
        tuple(field.name for field in fields if not is_static(field)),
        tuple(field.name for field in fields if is_static(field)),
    )
    _WAITING.append(cls)
    if sys.modules.get("jax") is not None:
        register_with_jax()
    return cls


def flatten(node: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """The subtrees of an object made by `pytree`, and its structure."""
    fields = NODES[type(node)]
    return [getattr(node, name) for name in fields.children], tuple(getattr(node, name) for name in fields.static)


def unflatten(cls: type[T], static: Any, children: Any) -> T:
    """An object from its structure and subtrees, which need not be numbers: JAX puts placeholders into them."""
    self = object.__new__(cls)  # skips the constructor, and with it all checks
    for name, value in zip((*NODES[cls].children, *NODES[cls].static), (*children, *static), strict=True):
        object.__setattr__(self, name, value)
    return self


# -- telling JAX ----------------------------------------------------------------------------------------------------


def register_with_jax() -> None:
    """Register all classes that wait for it, from whatever thread."""
    import jax  # before the lock is taken: another thread may be importing JAX, and will want the lock at the end of it

    with _LOCK:
        while _WAITING:
            _register(jax.tree_util, _WAITING.pop(0))


def _register(tree_util: Any, cls: type) -> None:
    def flatten_with_keys(node: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children, static = flatten(node)
        keys = map(tree_util.GetAttrKey, NODES[cls].children)
        return list(zip(keys, children, strict=True)), static

    tree_util.register_pytree_with_keys(cls, flatten_with_keys, partial(unflatten, cls), flatten)


class AfterImport:
    """A finder that lets all others find a module, and calls a function once the module has been executed."""

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self.name, self.function = name, function

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """What the other finders say; only asking for a spec, as `importlib.util.find_spec` does, calls nothing."""
        if name != self.name:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            if module.__name__ == self.name and self in sys.meta_path:  # a loader may serve more than one module
                sys.meta_path.remove(self)
                self.function()

        loader.exec_module = exec_module


if sys.modules.get("jax") is None:
    sys.meta_path.insert(0, AfterImport("jax", register_with_jax))
