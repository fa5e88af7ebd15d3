"""One network of several that are fitted at the same time: its warm-up, its epochs, and who ends them."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from cavity.estimators.network.epochs import Epoch, Stopping
from cavity.estimators.network.posterior import NetworkPosterior, RowsOfChunk
from cavity.estimators.network.warm_up import warmed_up
from cavity.factors.networks.factor import Network
from cavity.families import Product
from cavity.inference.named import Algorithm, adf
from cavity.inference.result import Result, Sweep
from cavity.inference.run import fit

MOST_SWEEPS = 10**9  # a callback stops before
Callback = Callable[[Epoch], Any] | None


@dataclass(frozen=True)
class Training:
    """What the networks have in common; called with the number, prior, targets and seed of one."""

    factor: Network
    algorithm: Algorithm
    rows: RowsOfChunk
    X: np.ndarray  # standardised
    n_epochs: int | str
    warm_up: tuple[int, int]  # epochs, and rows in a batch
    callback: Callback
    keeps_interrupted: bool  # a network that is interrupted is of use: alone, and in nobody's place
    over: Event  # something went wrong: no network goes on

    def __call__(self, number: int, prior: Product, target: np.ndarray, seed: int) -> Result:
        last, start = Stopping(self.n_epochs), None

        def passes(factor: Network, prior: Product, algorithm: Algorithm, stop: Callable[[Sweep], bool]) -> Result:
            ends = lambda sweep: stop(sweep) or self.over.is_set()
            options: dict[str, Any] = {"tol": 0.0, "evidence": False, "max_sweeps": MOST_SWEEPS, "seed": seed}
            options |= {"weights": self.rows.weight, "callback": ends, "start": start}
            return fit(factor, prior, (self.X, target), algorithm, **options)

        def stop(sweep: Sweep) -> bool:
            posterior = lambda: NetworkPosterior(self.factor, [sweep.posterior], self.rows.units)
            epoch = Epoch(number, sweep.number, sweep.score, posterior)
            wanted = self.callback is not None and self.callback(epoch)
            return last(sweep.number, sweep.score) or bool(wanted)

        epochs, rows_at_once = self.warm_up
        if epochs and self.algorithm.n_sites != 0:
            few = lambda sweep: sweep.number == epochs
            start = warmed_up(self.factor, prior, lambda of, given: passes(of, given, adf(rows_at_once), few))
        result = passes(self.factor, prior, self.algorithm, stop)
        if result.ending == "interrupted" and not self.keeps_interrupted:
            raise KeyboardInterrupt
        return result
