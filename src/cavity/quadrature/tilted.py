"""What a likelihood says about one activation: the result of every rule of this package."""

from typing import Any, NamedTuple


class Tilt(NamedTuple):
    """What a likelihood says about one activation a ~ N(m, v): equation (37) of docs/mathematics.md.

    `log_mean` is ℓ(m, v) = (1/α) log E[p^α] (E[log p] at α = 0), `slope` is g = ∂ℓ/∂m, `curvature` is h = ∂²ℓ/∂m² and
    `shrinkage` is 1 + α v h, the tilted variance over v. The tilted mean is m + α v g. Each is a number, traced or not,
    or an array with one entry per row.
    """

    log_mean: Any
    slope: Any
    curvature: Any
    shrinkage: Any
