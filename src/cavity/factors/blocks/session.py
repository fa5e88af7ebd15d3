"""Asking blocks what they ask for: the dealings of one fit with its data, which `cavity.factors.blocks.visits` runs."""

import abc
from typing import Any, NamedTuple

import numpy as np


class Answer(NamedTuple):
    """What blocks ask for: leaves have a row for each."""

    site: Any  # λ̂, or where a session says that it does not find own sites, a part of the way there
    log_mean: Any  # ℓ_α(c)


class Session(abc.ABC):
    """One fit's dealings with its blocks: what it learns on the way, and its random numbers."""

    no_own_sites: str | None = None  # where answers are not the blocks' own sites: why not, and what to do about it

    @abc.abstractmethod
    def ask(self, factor: Any, q: Any, cavity: Any, site: Any, which: np.ndarray, power: float) -> Answer:
        """The own sites of some blocks. `cavity` and `site` are stacked over them, `which` are their numbers."""

    @abc.abstractmethod
    def ask_aside(
        self, factor: Any, q: Any, cavity: Any, site: Any, which: np.ndarray, power: float, number: int
    ) -> Answer:
        """Own sites for the evidence, whose questions are numbered. It must leave no trace in what `ask` says later.

        The same question has the same answer, random numbers included.
        """

    def end_sweep(self) -> None:
        """Called after the visits of a sweep."""
        return

    def report(self) -> Any:
        """What to tell the user at the end, and whether to warn: see `cavity.inference.driver.Report`."""
        return None
