"""What a network is made of: widths of its layers, how units answer, and how its sites are kept."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Architecture:
    """A network apart from its mathematics: all that compiled loops need to know."""

    sizes: tuple[int, ...] = field(metadata={"static": True})
    activation: str = field(metadata={"static": True})
    site_dtype: str = field(default="float64", metadata={"static": True})  # of sites of the data's own
    site_directory: str | None = field(default=None, metadata={"static": True})  # where they are kept in a file
    unit_covariances: bool = field(default=False, metadata={"static": True})  # whether they are carried with variances
    labels: bool = field(default=False, metadata={"static": True})  # whether y are ±1

    @property
    def n_weights(self) -> int:
        return sum((a + 1) * b for a, b in pairwise(self.sizes))

    @property
    def of_first_output(self) -> np.ndarray:
        """Which of the weights a network with the first output alone has: not those that tell the noise."""
        n_in, n_out = self.sizes[-2] + 1, self.sizes[-1]
        below = self.n_weights - n_in * n_out
        return np.concatenate([np.arange(below), below + n_out * np.arange(n_in)])

    @property
    def units_are_independent(self) -> bool:
        """Whether moments are those of independent units: carried so, or one output above one hidden layer."""
        return not self.unit_covariances or (len(self.sizes) <= 3 and self.sizes[-1] == 1)
