"""Random divisions into rows for training and rows for the test."""

from collections.abc import Iterator

import numpy as np


def random_splits(
    n_rows: int, n_splits: int, test_share: float = 0.1, seed: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of row numbers, for training and for the test.

    With the default seed and share these are the splits of Hernández-Lobato & Adams (2015) that most papers on Bayesian
    neural networks have used since: the end of each permutation is the test set.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must lie strictly between 0 and 1; got {test_share=}.")
    random = np.random.RandomState(seed)
    n_train = round(n_rows * (1 - test_share))
    for _ in range(n_splits):
        order = random.permutation(n_rows)
        yield order[:n_train], order[n_train:]
