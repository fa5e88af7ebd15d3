"""Sweeps of mean fields and of variational fits against NumPy's product of X with a square matrix."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import cavity
from benchmarks.sweeps import FACTORS, observations
from benchmarks.timing import in_turn, of_call, of_sweep

N, D, LIMIT = 100_000, 50, 4.0
MEAN_FIELD, FULL = cavity.DiagonalGaussian.isotropic(D), cavity.Gaussian.isotropic(D)
FITS: dict[str, tuple[Any, Any]] = {
    "EP": (cavity.parallel_ep(), MEAN_FIELD),
    "AEP": (cavity.aep(), MEAN_FIELD),
    "averaged VMP": (cavity.averaged_vmp(), MEAN_FIELD),
    "VMP": (cavity.vmp(batch_size=N), MEAN_FIELD),
    "VMP by 10,000": (cavity.vmp(batch_size=10_000), MEAN_FIELD),
    "full averaged VMP": (cavity.averaged_vmp(), FULL),
    "full VMP by 10,000": (cavity.vmp(batch_size=10_000), FULL),
}


def lines() -> Iterator[str]:
    """One line per likelihood."""
    for name in ("probit", "logit", "Poisson"):
        data, square = observations(name, N, D), np.eye(D)
        sweeps = {
            key: of_sweep(FACTORS[name], data, algorithm, prior=prior) for key, (algorithm, prior) in FITS.items()
        }
        product = of_call(lambda features=data[0], square=square: features @ square)  # type: ignore[misc]
        *times, least = in_turn({**sweeps, "NumPy": product}, rounds=4).values()
        told = [f"{key} {seconds / least:.2f}" for key, seconds in zip(sweeps, times, strict=True)]
        yield (
            f"mean-field and variational sweeps / NumPy (X @ W), {name} at {N:,} × {D}: {', '.join(told)} "
            f"(limit {LIMIT}); NumPy {1e3 * least:.0f} ms"
        )
