"""The loop: sweeps until q stops moving."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._precision import to_numpy
from cavity.inference import acceleration, ahead, control
from cavity.inference.complaints import complaints
from cavity.inference.contract import Family, Sites
from cavity.inference.control import Act
from cavity.inference.evidence import Evidence, log_evidence
from cavity.inference.fitted import Fitted
from cavity.inference.measure import measure, reads_of
from cavity.inference.named import Algorithm
from cavity.inference.result import CollapseWarning, ConvergenceWarning, History, Progress, Result, Sweep
from cavity.inference.resume import Origin, at_sites, sign
from cavity.inference.sweep import Course, Swept, sweep
from cavity.inference.update import State
from cavity.inference.walk import Walk

LITTLE = 1e-4  # share of a move: to first order in what follows from it


class Limits(NamedTuple):
    """When to stop, and what to look at on the way."""

    max_sweeps: int
    tol: float
    seed: int
    evidence: bool | str


class Loop:
    """The sweeps of one fit, and what is done between them."""

    def __init__(self, walk: Walk, algorithm: Algorithm, limits: Limits, progress: Progress) -> None:
        self.walk, self.algorithm, self.limits, self.progress = walk, algorithm, limits, progress
        self.sweeps: list[Sweep] = []
        self.looks_ahead = ahead.looks_ahead(walk, algorithm)
        self.told: Evidence | None = None  # log Z, where the last sweep summed it on the way
        self.begun = time.perf_counter()

    # -- sweeping ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Sweep until q hardly moves, with nobody looking on."""
        for _ in range(self.limits.max_sweeps):
            self.sweeps.append(self.next_sweep()._replace(current=None))
            if self.is_settled(self.sweeps[-1]):
                break

    def run(self, progress: bool, callback: Callable[[Sweep], Any] | None) -> str:
        """Sweep until converged, told to stop, or out of sweeps; which of these it was."""
        with bar(self.limits.max_sweeps, progress) as show:
            try:
                for _ in range(self.limits.max_sweeps):
                    sweep = self.next_sweep()
                    self.sweeps.append(sweep._replace(current=None))  # a record, not another copy of q
                    show(sweep)
                    stop = callback is not None and callback(sweep)
                    if self.is_settled(sweep):
                        return "skipping" if sweep.skipped else "stuck" if sweep.backoffs else "converged"
                    if stop:
                        return "stopped"
            except KeyboardInterrupt:
                if not self.sweeps:
                    raise
                return "interrupted"
        return "out of sweeps"

    def next_sweep(self) -> Sweep:
        """Make one sweep: decide its share, walk over the rows, and record what changed.

        Progress is what it was until the sweep has come to its end.
        """
        last = self.prepared() if self.progress.control.changes else self.progress
        course = self.course(last)
        with np.errstate(all="ignore"):  # what is not a number is seen to by the guards
            made = sweep(self.walk, last.state, course)
            if self.looks_ahead:
                last = last._replace(outlook=ahead.outlook(course, made, last))
                made = made._replace(rate=last.control.share, is_a_map=False)
            moved = measure(last.reference, last.before, last.state.q, made.state.q)
        if not moved.proper:  # steps keep q proper one by one; at extreme scales rounding can still lose it
            entropy = float(reads_of(last.state.q).entropy(last.state.q))
            moved = moved._replace(distance=np.inf, entropy=entropy)
            info = made.info._replace(skipped=self.walk.problem.n_rows, log_scale=0.0)
            made = made._replace(state=self.before(last.state, made.state), info=info, is_a_map=False)
        travelled = last.control.travelled + min(made.rate, 1.0)
        change = float(np.nan_to_num(moved.distance / travelled, nan=np.inf))  # never taken for a small one
        now = replace(control.with_change(last.control, change, moved.turned), travelled=travelled)
        past = last.past
        if made.is_a_map:
            past = acceleration.with_sweep(past, made.state.sites, made.state.q - last.state.q)
        self.progress = last._replace(
            state=made.state, control=now, before=last.state.q, past=past, n_sweeps=course.number, near=None
        )
        self.told = self.told_on_the_way(last, made, change)
        sign(made.state, course.number)
        if course.number == 1 and self.walk.slots.nowhere:
            self.progress = self.progress._replace(first_pass=self.evidence_of_first_pass(made))
        return self.record(made, change, moved.entropy)

    def course(self, last: Progress) -> Course:
        """How the next sweep is made. One that may be the last also sums what the evidence is made of."""
        _, change = last.control.last_two
        values = bool(self.limits.evidence) and last.near is None and not 1 < change < np.inf
        course = Course(
            self.algorithm, self.limits.seed, last.n_sweeps + 1, last.control.share, values=values, near=last.near
        )
        return ahead.course_ahead(course, self.walk.sums, last) if self.looks_ahead else course

    def told_on_the_way(self, last: Progress, made: Swept, change: float) -> Evidence | None:
        """log Z of the state before a sweep that hardly moved it: off by about the square of the change, in nats."""
        info, q = made.info, last.state.q
        if not (np.isfinite(info.value) and change**2 < self.limits.tol) or info.skipped:
            return None
        reads = reads_of(q)
        rise = float(reads.log_partition(q)) - float(reads.log_partition(last.state.prior))
        return Evidence(rise + info.value)

    def record(self, made: Swept, change: float, entropy: float) -> Sweep:
        evidence = self.evidence().value if self.limits.evidence == "history" else float("nan")
        return Sweep(
            len(self.sweeps) + 1,
            change,
            int(made.info.skipped),
            int(made.info.backoffs),
            made.rate,
            entropy,
            evidence,
            time.perf_counter() - self.begun,
            partial(self.in_user_coordinates, made.state.q),
            float(made.info.score),
        )

    def before(self, start: State, end: State) -> State:
        """The state before a sweep; with the sites after it, where they have changed in place."""
        if self.walk.sums.copies_sites:
            return start
        state = self.walk.at(start, end.sites)
        return state if bool(reads_of(state.q).is_proper(state.q)) else start

    def prepared(self) -> Progress:
        """Where the next sweep begins: here, or where a combination of the last sweeps points."""
        progress = self.progress
        now, act = control.decided(progress.control, self.algorithm.settles, self.looks_ahead)
        progress = progress._replace(control=now)
        if act is Act.RETREAT and progress.plain is not None:
            progress = progress.standing_at(progress.plain)
        if act in (Act.RETREAT, Act.FORGET):
            progress = progress._replace(past=())
        plain = None
        if act is Act.LEAP:
            sites = acceleration.proposed(progress.past, progress.state.q)
            ahead = None if sites is None else at_sites(self.walk, progress.state, sites)
            if sites is not None:
                progress = progress._replace(control=replace(now, ahead=ahead is not None, leapt=ahead is not None))
            if ahead is not None:
                plain, progress = progress.state, progress.standing_at(ahead)
        return progress._replace(plain=plain)

    def is_settled(self, sweep: Sweep) -> bool:
        """Whether q has moved by less than `tol` over a full unit of rate.

        A small rate alone must not look like convergence: the change is per unit of rate, and a rate of the user's is
        judged over as many sweeps as add up to one.
        """
        now = self.progress.control
        if not self.algorithm.settles and now.travelled < 1 - 1e-9:
            return False
        self.progress = self.progress._replace(reference=self.progress.state.q, control=replace(now, travelled=0.0))
        one_pass = self.walk.slots.nowhere and self.limits.max_sweeps == 1
        left = control.next_change(now) if self.walk.slots.own and self.algorithm.settles else sweep.change
        return left < self.limits.tol or one_pass or (self.algorithm.settles and control.is_rounding(now))

    # -- what the user gets --------------------------------------------------------------------------------------

    def in_user_coordinates(self, q: Family) -> Any:
        """q as the user knows it, in NumPy."""
        problem = self.walk.problem
        return to_numpy(q if problem.lift is None else problem.given[0] + problem.lift(q - problem.prior))

    def evidence_of_first_pass(self, made: Swept) -> float:
        """log Z of K = 0: at power 1 the sum of one-step-ahead predictive densities (29)."""
        if self.walk.sums.no_evidence(self.walk.slots):
            return float("nan")
        reads, state = reads_of(made.state.q), made.state
        rise = float(reads.log_partition(state.q)) - float(reads.log_partition(self.walk.problem.prior))
        return rise + float(made.info.log_scale)

    def evidence(self) -> Evidence:
        """log Z as it stands; for K = 0 that of the first pass."""
        if self.walk.slots.nowhere:
            return Evidence(self.progress.first_pass)
        if self.told is not None:
            return self.told
        with np.errstate(all="ignore"):
            return log_evidence(self.walk, self.progress.state, self.algorithm.power, self.limits.seed)

    def is_torn(self, ending: str) -> bool:
        """Whether a sweep was interrupted that had changed sites in place: no later fit can go on from these."""
        return ending == "interrupted" and not self.walk.sums.copies_sites

    def sharing_error(self, q: Any, evidence: Evidence | None) -> float:
        """By how many standard deviations a visit of EP moves the mean it moves most, or begins to if it loses q."""
        if evidence is None or evidence.moves is None:
            return float("nan")
        for share in (1.0, LITTLE):
            visited = self.in_user_coordinates(self.progress.state.q + share * evidence.moves)
            if bool(reads_of(visited).is_proper(visited)):
                return float(reads_of(q).means_apart(q, visited)) / share
        return float("nan")

    def result(self, ending: str, keep_data: bool) -> Result:
        """What the user gets, with what went wrong on the way."""
        self.progress = self.progress.bare()
        problem, history, state = self.walk.problem, History.of(self.sweeps), self.progress.state
        evidence = self.evidence() if self.limits.evidence else None
        posterior = self.in_user_coordinates(state.q)
        if not bool(posterior.is_proper()):  # q itself always is: only the way back can lose it
            raise ValueError(
                "data must be rescaled: the precisions of the posterior span more than the sixteen digits of float64. "
                "Standardise the columns of X, or use a prior variance nearer to the scale of the data."
            )
        report, error = self.walk.sums.report(state), self.sharing_error(posterior, evidence)
        found = complaints(history, problem, ending, self.limits.tol, evidence, error, self.progress.n_sweeps)
        found = [each for each in found if each[0] is not CollapseWarning or not report.repeats]
        if report.complaint:
            found.append((ConvergenceWarning, report.complaint))
        return Result(
            posterior=posterior,
            converged=ending == "converged",
            ending=ending,
            n_sweeps=len(self.sweeps),
            n_skipped=int(history.skipped.sum()),
            history=history,
            log_evidence=float("nan") if evidence is None else evidence.value,
            site_bytes=0 if problem.slots.nowhere else n_bytes(state.sites),
            n_sites=problem.slots.n_sites,
            groups=None if self.algorithm.groups is None else problem.groups(self.algorithm),
            sharing_error=error,
            sampling=report.values,
            progress=None if self.is_torn(ending) else self.progress,
            origin=Origin.of(problem, self.algorithm, self.limits.seed),
            complaints=tuple(found),
            fitted=Fitted(self.walk, state, self.algorithm, self.limits.seed) if keep_data else None,
        )


@contextmanager
def bar(total: int, shown: bool) -> Iterator[Callable[[Sweep], None]]:
    """What is called with each sweep: shows it in a bar, or does nothing and needs no tqdm."""
    if not shown:
        yield lambda sweep: None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc="sweeps") as drawn:

        def show(sweep: Sweep) -> None:
            drawn.update()
            drawn.set_postfix(change=f"{sweep.change:.2g}", skipped=sweep.skipped)

        yield show


def n_bytes(sites: Sites) -> int:
    """Memory of a tree of arrays."""
    return sum(leaf.nbytes for leaf in tree.leaves(sites))
