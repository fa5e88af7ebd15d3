"""Lloyd's steps of k-means over rows that weigh something."""

import numpy as np

MOST_STEPS = 300


def lloyd(points: np.ndarray, weight: np.ndarray, centres: np.ndarray, enough: float = 0.0) -> np.ndarray:
    """Every centre to the mean of the points nearest to it, until squared steps add up to no more than `enough`.

    A centre without points stays where it is.
    """
    for _ in range(MOST_STEPS):
        member = np.equal.outer(np.arange(len(centres)), nearest(points, centres)) * weight
        mass = member.sum(axis=1)[:, None]
        before, centres = centres, np.where(mass > 0, member @ points / np.where(mass > 0, mass, 1.0), centres)
        if np.sum((centres - before) ** 2) <= enough:
            break
    return centres


def nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The centre nearest to each point."""
    return np.argmin(0.5 * np.sum(centres**2, axis=1)[:, None] - centres @ points.T, axis=0)
