"""Arguments that must be numbers: a check names the argument, says what it got and what to do."""

from typing import Any

import numpy as np

from cavity._precision import is_traced


def is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is one real number: Python's, NumPy's or an array without axes; truth values are none."""
    if hasattr(value, "dtype"):
        return np.ndim(value) == 0 and value.dtype.kind in "iuf"
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_positive(name: str, value: Any) -> Any:
    """A positive finite number as float64; a traced one is believed."""
    if is_traced(value):
        return value
    if not (is_number(value) and np.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number; got {name}={value!r}.")
    return np.float64(value)


def as_numbers(name: str, value: Any) -> np.ndarray:
    """An array of real numbers as float64. NumPy alone would read "1" as one and drop imaginary parts."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "cSUmM":
            raise TypeError(f"got {array.dtype}")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be numeric, an array of real numbers; it is not one of float64: {error}"
        ) from None
