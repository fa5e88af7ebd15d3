"""k-means, by which the components of a mixture begin.

scikit-learn's warns where rows are alike and clusters stay empty, which is no news here; and no warning can be silenced
in one thread without losing those of the others. Its starts are used, the steps are made here.
"""

import numpy as np
from sklearn.cluster import kmeans_plusplus

from cavity.inference.lloyd import lloyd, nearest

STARTS = 4  # they take a small part of the time: one start often has two clusters in one
ENOUGH = 1e-4  # of the mean variance: centres whose squared steps add up to less have arrived


def k_means(Z: np.ndarray, weight: np.ndarray, n_clusters: int, rng: np.random.RandomState) -> np.ndarray:
    """The centres of the tightest clusters that several starts led to."""
    middle = np.average(Z, axis=0, weights=weight)
    enough = float(ENOUGH * np.mean(np.average((Z - middle) ** 2, axis=0, weights=weight)))
    start = lambda: kmeans_plusplus(Z, n_clusters, sample_weight=weight, random_state=rng)[0]
    found = [lloyd(Z, weight, start(), enough) for _ in range(STARTS)]
    return min(found, key=lambda centres: weight @ np.sum((Z - centres[nearest(Z, centres)]) ** 2, axis=1))
