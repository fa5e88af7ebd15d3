"""Users' functions for arrays of rows: NumPy's as they are, JAX's compiled once for vectors of a fixed length."""

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cavity import _kept
from cavity.quadrature.kernel import map_arrays

DIFFERENCE = 1e-4  # relative to 1 + |a|: good enough to place nodes with


@functools.lru_cache(maxsize=16)  # a function may hold arrays of its own, which live as long as it is remembered
def on_host(name: str, function: Callable[..., Any]) -> "UserFunction":
    """What is known of a user's function, remembered from call to call."""
    return UserFunction(name, function)


class UserFunction:
    """A user's function of (y, a), or of y alone, where y is an array or a nest of tuples of arrays."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self._takes_arrays: bool | None = None
        self._program: Callable[..., Any] | None = None
        self._traceable: bool | None = None

    def takes_arrays(self, *args: Any) -> bool:
        """Whether it is a NumPy function that acts elementwise, by trying it on a few numbers of each argument."""
        if self._takes_arrays is None:
            few = map_arrays(lambda part: np.resize(np.asarray(part, np.float64), PROBE) * UNLIKE, args[-1:])
            few = (*map_arrays(lambda part: np.resize(np.asarray(part, np.float64), PROBE), args[:-1]), *few)
            one = map_arrays(lambda part: part[:1, :1], few)
            try:
                with np.errstate(all="ignore"), double_precision():
                    value, first = self.function(*few), self.function(*one)
            except Exception:  # of whatever kind: tracing it will say what is wrong
                value = first = None
            shaped = isinstance(value, np.ndarray) and value.shape == PROBE
            if shaped and not np.allclose(value[0, 0], first, rtol=1e-9, atol=1e-9, equal_nan=True):
                raise ValueError(
                    f"{self.name} must act on each observation and activation by itself: one pair of numbers has the "
                    f"value {np.ravel(first)[0]:.6g} alone and {value[0, 0]:.6g} beside others. Leave out sums and "
                    "means over its arguments."
                )
            self._takes_arrays = shaped
        return self._takes_arrays

    def can_be_traced(self, *args: Any) -> bool:
        """Whether JAX can trace it; where NumPy's arrays are no way out either, tracing it will say what is wrong."""
        if self._traceable is None:
            import jax

            scalars = map_arrays(lambda part: jax.ShapeDtypeStruct((), np.float32), args)
            try:
                jax.eval_shape(self.function, *scalars)
                self._traceable = True
            except Exception:  # of whatever kind
                self._traceable = not self.takes_arrays(*args)
        return self._traceable

    def values(self, *args: Any) -> np.ndarray:
        """Values of the user's function, in the shape of its last argument."""
        shape = np.shape(first_array(args[-1]))
        if self.takes_arrays(*args):
            value = self.function(*map_arrays(lambda part: np.broadcast_to(part, shape), args))
            return np.asarray(value, dtype=np.float64)
        return self._compiled(shape, *args)[0]

    def derivatives(self, y: Any, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values with first and second derivatives in a: exact ones of a JAX function, rough ones of NumPy's."""
        if not self.takes_arrays(y, a):
            return self._compiled(np.shape(a), y, a)
        step = DIFFERENCE * (1 + np.abs(a))
        below, here, above = self.values(y, a - step), self.values(y, a), self.values(y, a + step)
        return here, (above - below) / (2 * step), (above - 2 * here + below) / step**2

    def _compiled(self, shape: tuple[int, ...], *args: Any) -> Any:
        from cavity.factors.base import scalar_of_user
        from cavity.factors.glm.likelihoods import traced

        if self._program is None:
            scalar = lambda *args: scalar_of_user(self.name, self.function, *args)
            self._program = traced.with_derivatives(scalar) if len(args) == 2 else traced.each(scalar)
        flat = map_arrays(lambda part: np.broadcast_to(part, shape).ravel(), args)
        found = traced.in_portions(self._program, flat, traced.MANY)
        return tuple(part.reshape(shape) for part in found)


def first_array(y: Any) -> Any:
    """The first array of a nest of tuples."""
    return first_array(y[0]) if isinstance(y, tuple) else y


def double_precision() -> contextlib.AbstractContextManager[Any]:
    """The scope in which JAX has float64, where it has been imported."""
    return _kept.double_precision() if "jax" in sys.modules else contextlib.nullcontext()


PROBE = (2, 3)
UNLIKE = np.array([[1.0, 1.25, 0.5], [0.75, 1.5, 0.25]])  # so that no two activations are alike
