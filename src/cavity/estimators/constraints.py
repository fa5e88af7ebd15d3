"""What values parameters of estimators may have: each constraint raises a ValueError that names the parameter."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from cavity._checks import check_positive, is_integer, is_number

Constraint: TypeAlias = Callable[[str, Any], Any]  # of a parameter's name and value


def positive(name: str, value: Any) -> None:
    """A positive finite number."""
    check_positive(name, value)


def positive_or_none(name: str, value: Any) -> None:
    """A positive finite number, or None."""
    if value is not None:
        check_positive(name, value)


def positive_or_auto(name: str, value: Any) -> None:
    """A positive finite number, or "auto"."""
    if not isinstance(value, str):
        check_positive(name, value)
    elif value != "auto":
        raise ValueError(f"{name} must be a positive number or 'auto'; got {value!r}.")


def positive_auto_or_none(name: str, value: Any) -> None:
    """A positive finite number, "auto", or None."""
    if value is not None:
        positive_or_auto(name, value)


def above_one(name: str, value: Any) -> None:
    """A finite number above one."""
    if not (is_number(value) and 1 < value < np.inf):
        raise ValueError(f"{name} must be a finite number above 1; got {name}={value!r}.")


def share(name: str, value: Any) -> None:
    """A number from zero to below one."""
    if not (is_number(value) and 0 <= value < 1):
        raise ValueError(f"{name} must lie in [0, 1); got {name}={value!r}.")


def flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {name}={value!r}.")


def positive_integer(name: str, value: Any) -> None:
    """A positive integer."""
    if not (is_integer(value) and value >= 1):
        raise ValueError(f"{name} must be a positive integer; got {name}={value!r}.")


def count(name: str, value: Any) -> None:
    """An integer from zero on."""
    if not (is_integer(value) and value >= 0):
        raise ValueError(f"{name} must be a non-negative integer; got {name}={value!r}.")


def positive_integer_or_none(name: str, value: Any) -> None:
    """A positive integer, or None."""
    if value is not None and not (is_integer(value) and value >= 1):
        raise ValueError(f"{name} must be a positive integer or None; got {name}={value!r}.")


def one_of(*options: str) -> Constraint:
    """One of some words."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")

    return check
