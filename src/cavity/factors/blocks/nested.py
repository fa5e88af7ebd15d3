"""EP inside a block: what the block asks for is the outcome of a fit to its rows, with the cavity as prior.

    λ̂_k = EP(c_k, rows of k) − c_k,   ℓ(c_k) = its log Z.

Nothing is random, and with one block it is EP on all rows. It is the limit of many draws of `cavity.factors.sampled`
as far as EP inside a block is exact, which for blocks of rows of a log-concave likelihood it nearly is.
"""

import warnings
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity._pytree import pytree
from cavity.factors.base import Factor
from cavity.factors.blocks.base import BlockFactor, Blocks
from cavity.factors.blocks.session import Answer, Session
from cavity.inference.driver import Report
from cavity.inference.named import ep
from cavity.inference.result import ConvergenceWarning, Result
from cavity.inference.run import fit


@pytree
class Nested(BlockFactor):
    """A block whose site EP finds."""

    rows_factor: Any
    tol: float

    def check_setting(self, prior: Any, algorithm: Any) -> None:
        if algorithm.power != 1:
            raise ValueError(
                f"power must be 1 with nested(): EP inside a block sees whole likelihoods; got power={algorithm.power}."
            )

    def session(self, prior: Any, data: Blocks, seed: int) -> "InnerFits":
        return InnerFits(data, float(self.tol))


def nested(factor: Factor, tol: float = 1e-6) -> Nested:
    """A likelihood over blocks of rows, by EP inside each block.

    `tol` is that of the inner fits. Data are `cavity.factors.in_blocks(data, n_blocks)`.
    """
    if not isinstance(factor, Factor) or isinstance(factor, BlockFactor):
        raise ValueError(f"factor must be that of one row, such as cavity.factors.logit(); got {factor!r}.")
    if not (isinstance(tol, int | float | np.number) and 0 < tol < np.inf):
        raise ValueError(f"tol must be a positive number; got {tol=}.")
    return Nested(factor, float(tol))


class InnerFits(Session):
    """A fit for each visit, which starts from the sites of the block's last one."""

    def __init__(self, data: Blocks, tol: float) -> None:
        self.tol = tol
        self.last = dict[int, Result]()  # of each block, to start from
        self.unsettled_aside = dict[int, int]()  # fits that did not converge at each question of the last evidence
        here = np.asarray(data.present) > 0
        take = lambda k: jax.tree.map(lambda leaf: np.asarray(leaf)[k][here[k]], data.rows)
        self.rows = [take(k) for k in range(len(here))]

    def ask(self, factor: Any, q: Any, cavity: Any, site: Any, which: np.ndarray, power: float) -> Answer:
        fits = self.fits(factor, cavity, which)
        self.last.update((k, replace(result, posterior=None)) for k, result in zip(which.tolist(), fits, strict=True))
        return answers(fits, cavity)

    def ask_aside(
        self, factor: Any, q: Any, cavity: Any, site: Any, which: np.ndarray, power: float, number: int
    ) -> Answer:
        fits = self.fits(factor, cavity, which)
        self.unsettled_aside[number] = sum(not result.converged for result in fits)
        return answers(fits, cavity)

    def report(self) -> Report | None:
        """A complaint where EP inside a block did not converge; a fit that skips rows never counts as converged."""
        unsettled = [result for result in self.last.values() if not result.converged]
        skipped = sum(int(result.history.skipped[-1]) for result in unsettled)
        for_evidence = max(self.unsettled_aside.values(), default=0)
        if not unsettled and not for_evidence:
            return None
        message = (
            f"EP inside a block did not converge: in {len(unsettled)} of {len(self.rows)} blocks in the last sweep, "
            f"with {skipped} rows skipped, and in {for_evidence} for the evidence. Sites of such blocks cannot be "
            "trusted. A larger tol of cavity.factors.nested, a tighter prior or rescaled features may help."
        )
        return Report(None, message)

    def fits(self, factor: Any, cavity: Any, which: np.ndarray) -> list[Result]:
        """A fit for each of some blocks."""
        return [self.one(factor, jax.tree.map(lambda leaf, i=i: leaf[i], cavity), int(k)) for i, k in enumerate(which)]

    def one(self, factor: Any, cavity: Any, block: int) -> Result:
        """EP on the rows of a block. What it warns of is reported once, at the end."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = fit(factor.rows_factor, cavity, self.rows[block], ep(), tol=self.tol, start=self.last.get(block))
        if result._ending == "interrupted":  # it kept what it had, which ends nothing but itself
            raise KeyboardInterrupt
        return replace(result, _gradient=None, _evidence_with=None)  # they hold on to its data


def answers(fits: list[Result], cavity: Any) -> Answer:
    """What fits say of their blocks, stacked."""
    posterior = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(result.posterior for result in fits))
    return Answer(posterior - cavity, jnp.asarray([result.log_evidence for result in fits]))
