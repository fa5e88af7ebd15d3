"""Names that a package loads when they are first asked for, and packages that not everybody has.

Importing the library then imports neither JAX nor scikit-learn. What is missing is asked for by the name of the extra
that brings it. A module of which only some functions need JAX takes `jax`, `jnp` and `jitted` from here.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from types import ModuleType
from typing import Any

EXTRAS = {"sklearn": "sklearn", "pandas": "pandas", "matplotlib": "demo"}  # which extra brings a package


def lazily(package: str, table: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package (PEP 562) whose table says which module has a name.

    A name whose module is `package.name` is that module itself.
    """

    def get(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = imported(table[name], f"{package}.{name}")
        value = module if table[name] == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *table})

    return get, names


def imported(module: str, needed_by: str) -> ModuleType:
    """A module; where it needs a package that only an extra brings, and that is missing, say which extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in EXTRAS:
            raise
        told = f"{needed_by} needs {missing}: pip install 'cavity[{EXTRAS[missing]}]'"
        raise ModuleNotFoundError(told, name=missing) from error


class Later:
    """A module that is imported when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


jax: Any = Later("jax")
jnp: Any = Later("jax.numpy")


def jitted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`jax.jit` of a function; JAX is imported when it is first called."""
    program = cache(lambda: jax.jit(function, **options))

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return program()(*arguments, **named)

    return call
