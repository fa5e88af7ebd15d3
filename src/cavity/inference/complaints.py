"""What a careful person would say about a fit: the warnings."""

import numpy as np

from cavity import _tree as tree
from cavity.families.base import is_shape
from cavity.inference.contract import Family
from cavity.inference.evidence import Evidence
from cavity.inference.problem import Problem
from cavity.inference.result import CollapseWarning, ConvergenceWarning, History, SharingWarning

Complaint = tuple[type[Warning], str]
TOO_FAR = 0.1  # standard deviations that sharing may move a mean: docs/decisions/0024


def complaints(
    history: History,
    problem: Problem,
    ending: str,
    tol: float,
    evidence: Evidence | None,
    sharing_error: float,
    passes: int,
) -> list[Complaint]:
    """Category and text of each warning; a fit that its callback stopped is not called unfinished.

    `passes` counts those of the fit that this one goes on from too.
    """
    found = [
        of_ending(history, problem, ending, tol),
        of_skipped_data(history, problem),
        of_a_standstill(ending),
        None if evidence is None else of_evidence(evidence),
        of_sharing(sharing_error, history),
        of_collapse(history, problem, passes),
    ]
    return [complaint for complaint in found if complaint is not None]


def of_ending(history: History, problem: Problem, ending: str, tol: float) -> Complaint | None:
    """A fit that ended before it converged."""
    n_sweeps = len(history.change)
    if ending == "interrupted":
        return ConvergenceWarning, f"Interrupted after {n_sweeps} sweeps; the result so far is returned."
    if ending != "out of sweeps" or problem.slots.nowhere:
        return None
    return ConvergenceWarning, (
        f"Not converged after {n_sweeps} sweeps: another would still move the posterior by about "
        f"{history.change[-1]:.2g} standard deviations (tol={tol:g}). Raise max_sweeps or tol, or try rate=0.5."
    )


def of_skipped_data(history: History, problem: Problem) -> Complaint | None:
    """Data that the posterior does not reflect."""
    if history.skipped[-1] == 0:
        return None
    return ConvergenceWarning, (
        f"{history.skipped[-1]} of {problem.n_rows} data were skipped in the last sweep because their cavity or tilted "
        "distribution was improper; the posterior does not reflect them. A power below 1, a tighter prior or rescaled "
        "features may help."
    )


def of_a_standstill(ending: str) -> Complaint | None:
    """A fit that does not move although it is at no fixed point."""
    if ending != "stuck":
        return None
    return ConvergenceWarning, (
        "The posterior stopped moving because every further step would make it improper: it is not a fixed point. "
        "Try a smaller rate, a power below 1 or a tighter prior."
    )


def of_evidence(evidence: Evidence) -> Complaint | None:
    """Evidence that is not to be had, or not to be trusted."""
    if evidence.refusal:
        return ConvergenceWarning, f"log_evidence is NaN: {evidence.refusal}"
    if evidence.rebuilt and not evidence.left_out and not evidence.unsettled:
        return None
    reason = f"it leaves out {int(evidence.left_out)} data whose cavity or tilted distribution was improper"
    if not evidence.left_out:
        reason = f"EP inside of {int(evidence.unsettled)} blocks did not converge"
    if not evidence.rebuilt:
        reason = "the data's own sites do not add up to a proper distribution"
    return ConvergenceWarning, (
        f"log_evidence is unreliable: {reason}. Do not compare models by it; cavity.ep() may do better."
    )


def of_sharing(error: float, history: History) -> Complaint | None:
    """Shared sites of data that are too few, or too influential, for an average to stand for each.

    Where q still moves farther than that, it says nothing of the fixed point.
    """
    if not error > max(TOO_FAR, history.change[-1]):
        return None
    return SharingWarning, (
        f"Shared sites have put a posterior mean about {error:.2g} standard deviations away from EP's: for so many "
        "parameters the data are too few, or some too influential, to share a site. Use algorithm='ep', or cavity.ep()."
    )


def of_collapse(history: History, problem: Problem, passes: int) -> Complaint | None:
    """Data that are counted again and again."""
    repeated = problem.slots.nowhere and passes > 1
    if not repeated and not is_collapsing(entropy_per_unit(history) / n_parameters(problem.prior)):
        return None
    return CollapseWarning, (
        "The posterior's variance has shrunk sweep after sweep with no sign of stopping: data are counted more than "
        "once. Stop ADF after one pass (max_sweeps=1), or use cavity.sep(), which remembers."
    )


def n_parameters(prior: Family) -> int:
    """How many numbers θ has."""
    shapes = tree.leaves(prior.event_shape(), is_leaf=is_shape)
    return int(sum(np.prod(shape, dtype=int) for shape in shapes))


def entropy_per_unit(history: History) -> np.ndarray:
    """The entropy after each full unit of rate: small steps approach the posterior as slowly as a collapse proceeds."""
    units = np.floor(np.cumsum(np.minimum(history.rate, 1.0)) + 1e-9)
    return history.entropy[np.diff(units, prepend=0.0) > 0]


def is_collapsing(entropy: np.ndarray, recent: int = 4) -> bool:
    """Whether the last falls of the entropy per parameter are all sizeable and do not die out.

    After s passes ADF holds about s times the precision of one, so its entropy falls by ½ log(1 + 1/s) per parameter,
    each fall nearly as large as the one before; an algorithm that settles has falls that at least halve.
    """
    falls = -np.diff(entropy)[-recent:]
    return len(falls) == recent and bool(np.all(falls > 0.01) and np.all(falls[1:] > 0.6 * falls[:-1]))
