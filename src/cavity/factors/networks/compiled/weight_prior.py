"""`weight_prior.refine` as a compiled loop: factors are visited one after another, which JAX does slowly."""

from cavity.factors.networks.compiled.arrays import Noise, Vector
from cavity.factors.networks.compiled.decorators import loop
from cavity.factors.networks.compiled.noise import rises, site_of_rises
from cavity.factors.networks.weight_prior import WIDEST


@loop
def refine(
    shift: Vector,
    precision: Vector,
    site_shift: Vector,
    site_precision: Vector,
    share_shape: Vector,
    share_rate: Vector,
    total: Noise,
) -> None:
    """One round of EP over the factors of all weights, in place; `total` is shape and rate of their precision."""
    for i in range(len(shift)):
        left, others, rate = precision[i] - site_precision[i], total[0] - share_shape[i], total[1] - share_rate[i]
        if not (left > 1.0 / WIDEST and others > 1.0 and rate > 0.0):
            continue
        mean = (shift[i] - site_shift[i]) / left
        first, second = rises(mean * mean, 1.0 / left, others, rate)
        more, scale = site_of_rises(others, rate, first, second)
        new = (others - 1.0) / rate
        shift[i], precision[i] = shift[i] - site_shift[i], left + new
        site_shift[i], site_precision[i] = 0.0, new
        share_shape[i], share_rate[i] = more, scale
        total[0], total[1] = others + more, rate + scale
