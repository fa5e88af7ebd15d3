"""k-means, by which the components of a mixture begin.

scikit-learn's warns where rows are alike and clusters stay empty, which is no news here; and no warning can be silenced
in one thread without losing those of the others. Its starts are used, the steps are made here.
"""

import numpy as np
from sklearn.cluster import kmeans_plusplus

STARTS = 4  # they take a small part of the time: one start often has two clusters in one
MOST_STEPS = 300
ENOUGH = 1e-4  # of the mean variance: centres whose squared steps add up to less have arrived


def k_means(Z: np.ndarray, n_clusters: int, rng: np.random.RandomState) -> np.ndarray:
    """The centres of the tightest clusters that several starts led to."""
    found = [lloyd(Z, kmeans_plusplus(Z, n_clusters, random_state=rng)[0]) for _ in range(STARTS)]
    return min(found, key=lambda centres: np.sum((Z - centres[nearest(Z, centres)]) ** 2))


def lloyd(Z: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Every centre to the mean of the rows nearest to it, until they stay; one without rows stays where it is."""
    enough = ENOUGH * np.mean(np.var(Z, axis=0))
    for _ in range(MOST_STEPS):
        member = np.equal.outer(np.arange(len(centres)), nearest(Z, centres)).astype(float)
        count = member.sum(axis=1)[:, None]
        before, centres = centres, np.where(count > 0, member @ Z / np.maximum(count, 1.0), centres)
        if np.sum((centres - before) ** 2) <= enough:
            break
    return centres


def nearest(Z: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The centre nearest to each row."""
    return np.argmin(0.5 * np.sum(centres**2, axis=1)[:, None] - centres @ Z.T, axis=0)
