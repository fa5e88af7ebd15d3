"""EP inside a block: what the block asks for is the outcome of a fit to its rows, with the cavity as prior.

    λ̂_k = EP(c_k, rows of k) − c_k,   ℓ(c_k) = its log Z.

Nothing is random, and with one block it is EP on all rows. It is the limit of many draws of `cavity.factors.sampled`
as far as EP inside a block is exact, which for blocks of rows of a log-concave likelihood it nearly is.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity._pytree import pytree
from cavity.factors.base import Factor
from cavity.factors.blocks.base import BlockFactor, Blocks
from cavity.factors.blocks.sums import Answer, Asking, Question, member, stacked
from cavity.inference.contract import Report
from cavity.inference.named import ep
from cavity.inference.result import Result
from cavity.inference.run import Options, quiet_fit
from cavity.inference.update import State


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

    def asking(self, prior: Any, data: Blocks) -> "InnerFits":
        return InnerFits(self, len(data.present))


def nested(factor: Factor, tol: float = 1e-6) -> Nested:
    """A likelihood over blocks of rows, by EP inside each block.

    `tol` is that of the inner fits. Data are `cavity.factors.in_blocks(data, n_blocks)`.
    """
    if not isinstance(factor, Factor) or isinstance(factor, BlockFactor):
        raise ValueError(f"factor must be that of one row, such as cavity.factors.logit(); got {factor!r}.")
    if not (isinstance(tol, int | float | np.number) and 0 < tol < np.inf):
        raise ValueError(f"tol must be a positive number; got {tol=}.")
    return Nested(factor, float(tol))


class InnerFits(Asking):
    """A fit for each visit, which starts from the sites of the block's last one.

    Beside a block are kept where its last fit ended, and whether fits for the evidence converged.
    """

    def __init__(self, factor: Nested, n_blocks: int) -> None:
        self.factor, self.n_blocks = factor, n_blocks

    def beside(self, n_blocks: int) -> np.ndarray:
        return np.full(n_blocks, None, dtype=object)

    def ask(self, question: Question) -> tuple[Answer, Any]:
        rows, kept = question.rows, np.array(question.rows.beside, dtype=object)
        fits = [self.one(question, i, rows.beside[i]) for i in range(len(rows.weight))]
        if question.aside is None:
            for i, result in enumerate(fits):
                kept[i] = replace(result, posterior=None)  # q is not needed to start from
        unsettled = np.array([not result.converged for result in fits])
        site = stacked([result.posterior - member(question.cavity, i) for i, result in enumerate(fits)])
        return Answer(site, np.array([result.log_evidence for result in fits]), unsettled), kept

    def one(self, question: Question, number: int, last: Result | None) -> Result:
        """EP on the rows of a block."""
        blocks = question.rows.data
        here = blocks.present[number] > 0
        rows = tree.map(lambda leaf: leaf[number][here], blocks.rows)
        cavity, tol = member(question.cavity, number), float(self.factor.tol)
        result = quiet_fit(self.factor.rows_factor, cavity, rows, ep(), Options(tol=tol, start=last))
        if result.ending == "interrupted":  # it kept what it had, which ends nothing but itself
            raise KeyboardInterrupt
        return result

    def report(self, state: State) -> Report:
        """A complaint where EP inside a block did not converge; a fit that skips rows never counts as converged."""
        last = [result for part in state.beside for result in part if result is not None]
        unsettled = [result for result in last if not result.converged]
        skipped = sum(int(result.history.skipped[-1]) for result in unsettled)
        if not unsettled:
            return Report()
        message = (
            f"EP inside a block did not converge: in {len(unsettled)} of {self.n_blocks} blocks in the last sweep, "
            f"with {skipped} rows skipped. Sites of such blocks cannot be trusted. A larger tol of "
            "cavity.factors.nested, a tighter prior or rescaled features may help."
        )
        return Report(complaint=message)

    def with_factor(self, factor: Nested) -> "InnerFits":
        return InnerFits(factor, self.n_blocks)
