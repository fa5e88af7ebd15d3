"""What a network begins with: an earlier posterior as its prior, and passes by ADF before another algorithm's."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.factors.networks.factor import Network
from cavity.families import DiagonalGaussian, Product
from cavity.inference.result import Result


def without_precision(q: Product) -> Product:
    """A posterior as the next prior: what was believed of the weights' precision is in it."""
    return Product({key: part for key, part in q.parts.items() if key != "precision"})


def warmed_up(factor: Network, prior: Product, warm: Callable[[Network, Product], Result]) -> Product:
    """Where other algorithms begin: at what passes by ADF find, with constant noise.

    Where the noise varies it would soon account for what the mean has not learned yet, and the mean for nothing.
    """
    mean_only, kept = replace(factor, sizes=(*factor.sizes[:-1], 1)), factor.of_first_output
    weights = prior["weights"]
    narrow = DiagonalGaussian(weights.shift[kept], weights.precision[kept])
    result = warm(mean_only, Product({**prior.parts, "weights": narrow}))
    if result.ending == "interrupted":  # it kept what it had, which is no fit yet
        raise KeyboardInterrupt
    found = without_precision(result.posterior)
    shift: Any = np.array(weights.shift)
    precision: Any = np.array(weights.precision)
    shift[kept], precision[kept] = found["weights"].shift, found["weights"].precision
    return Product({**prior.parts, **found.parts, "weights": DiagonalGaussian(shift, precision)})
