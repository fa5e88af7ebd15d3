"""What the other rows say about each: EP's cavities, at no more than the cost of a few one-dimensional updates."""

from typing import Any

import numpy as np

from cavity.factors.glm.line import Line, ask, tilts_of, without
from cavity.inference.source import Arrays, chunks

SWEEPS = 50


def own_cavities(
    likelihood: Any, y: Any, mean: np.ndarray, variance: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every activation without its row, from those under q; a chunk of rows at a time."""
    found = [cavities_of_chunk(likelihood, *rows) for rows in chunks(Arrays.of((y, mean, variance, weight)))]
    return np.concatenate([m for m, _ in found]), np.concatenate([v for _, v in found])


def cavities_of_chunk(
    likelihood: Any, y: Any, mean: np.ndarray, variance: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every activation without its row, from those under q.

    A row's own site is the one that its tilted distribution asks for in the cavity it leaves; sites that were tied
    while q was learned are not needed.
    """
    present, site = np.minimum(weight, 1.0), Line(np.zeros_like(mean), np.zeros_like(mean))
    for _ in range(SWEEPS):
        m, v, proper = without(site, mean, variance, present)
        asked = ask(tilts_of(likelihood, y, m, v, 1.0), m, v, proper)
        site = Line(*(0.5 * (old + new) for old, new in zip(site, asked.site, strict=True)))
    return without(site, mean, variance, present)[:2]
