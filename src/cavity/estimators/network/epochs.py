"""How many epochs a network is given: so many, or as long as rows are foreseen better.

The score of an epoch is the mean log density of every row under its cavity, as it was visited: what the network said of
the row with the row's own site taken out. For EP this is nearly a leave-one-out score. For SEP, whose cavities lack an
average row, and for ADF, which takes nothing out, it is nearer to the fit of the rows themselves, and rises longer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MOST = 100  # epochs that "auto" gives
WINDOW = 10  # epochs whose scores are averaged: single ones fluctuate, those of SEP by several thousandths
GAIN = 0.005  # by which a row must be foreseen better from one window to the next, in nats


class Epoch(NamedTuple):
    """What is known after an epoch of a network; a callback receives it."""

    network: int  # 0 for the first
    number: int  # 1 for the first
    score: float  # mean log density of rows under their cavities, in standardised units; NaN without compiled loops
    current: Callable[[], Any]

    @property
    def posterior(self) -> Any:
        """The network as it stands, a `NetworkPosterior`."""
        return self.current()


class Stopping:
    """Called after every epoch, in turn; tells whether it was the last.

    With "auto" that is when the mean score of ten epochs is no longer above that of the ten before. The first ten do
    not count: sites begin alike, and the cavities of rows that a warm-up has seen still know them.
    """

    def __init__(self, n_epochs: int | str) -> None:
        self.n_epochs = n_epochs
        self.scores: list[float] = []

    def __call__(self, number: int, score: float) -> bool:
        if self.n_epochs != "auto":
            return number >= int(self.n_epochs)
        if np.isnan(score):
            raise ValueError("n_epochs must be a number where compiled loops do not run; got 'auto'.")
        self.scores.append(score)
        return number >= MOST or (number >= 3 * WINDOW and self.gain() < GAIN)

    def gain(self) -> float:
        """Of the last window over the one before."""
        return float(np.mean(self.scores[-WINDOW:]) - np.mean(self.scores[-2 * WINDOW : -WINDOW]))
