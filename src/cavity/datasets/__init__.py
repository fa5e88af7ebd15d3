"""The paper's datasets, and generators of its synthetic ones."""

from cavity.datasets.catalogue import names
from cavity.datasets.load import Dataset, DatasetError, cache_directory, load
from cavity.datasets.splits import random_splits
from cavity.datasets.synthetic import Synthetic, SyntheticMixture, synthetic_mixture, synthetic_probit

__all__ = [
    "Dataset",
    "DatasetError",
    "Synthetic",
    "SyntheticMixture",
    "cache_directory",
    "load",
    "names",
    "random_splits",
    "synthetic_mixture",
    "synthetic_probit",
]
