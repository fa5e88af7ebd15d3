"""A known part of the activation."""

from typing import Any

import numpy as np

from cavity._pytree import pytree
from cavity.factors.glm.likelihoods.base import check_finite
from cavity.quadrature import Tilt


@pytree
class Offset:
    """A likelihood whose activation has a known part: observations are pairs (y, offset), and p(y | a + offset)."""

    likelihood: Any

    def check(self, y: Any) -> tuple[Any, np.ndarray]:
        if not (isinstance(y, tuple | list) and len(y) == 2):
            raise ValueError("y must be a pair (y, offset) of observations and what is added to their activations.")
        return self.likelihood.check(y[0]), check_finite(y[1], "offset")

    def is_closed(self, power: float) -> bool:
        return self.likelihood.is_closed(power)

    def can_be_traced(self, y: tuple[Any, Any]) -> bool:
        return self.likelihood.can_be_traced(y[0])

    def log_lik(self, y: tuple[Any, Any], a: Any) -> Any:
        return self.likelihood.log_lik(y[0], a + y[1])

    def tilts(self, y: tuple[Any, Any], mean: np.ndarray, variance: np.ndarray, power: float) -> Tilt:
        return self.likelihood.tilts(y[0], mean + y[1], variance, power)

    def tilt(self, y: tuple[Any, Any], mean: Any, variance: Any, power: float) -> Tilt:
        return self.likelihood.tilt(y[0], mean + y[1], variance, power)

    def log_mean(self, y: tuple[Any, Any], mean: Any, variance: Any, power: float) -> Any:
        return self.likelihood.log_mean(y[0], mean + y[1], variance, power)
