"""What a fit returns."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity.inference.acceleration import Past
from cavity.inference.contract import Factor, Family
from cavity.inference.control import Control
from cavity.inference.update import State


class ConvergenceWarning(UserWarning):
    """The fit stopped before it settled; its results are kept."""


class CollapseWarning(UserWarning):
    """The posterior's variance shrinks sweep after sweep: data are being counted again and again."""


class SharingWarning(UserWarning):
    """Data share sites that are too few for them: the posterior is not that of EP."""


class Sweep(NamedTuple):
    """What is known after one sweep; a callback receives it."""

    number: int  # 1 for the first
    change: float  # how far a full unit of rate moves q, in posterior standard deviations: docs/algorithms.md
    skipped: int  # data whose cavity or tilted distribution was improper
    backoffs: int  # batches whose rate was cut to keep q proper
    rate: float  # the share of the asked move that was made, or the mean of the steps the user chose
    entropy: float  # of q
    log_evidence: float  # NaN unless asked for every sweep
    seconds: float  # since the start of the fit
    current: Any  # gives q as it stands
    score: float = float("nan")  # mean log density of the data under their cavities, where the factor tells it

    @property
    def posterior(self) -> Any:
        """q after this sweep."""
        return self.current()


class History(NamedTuple):
    """One entry per sweep."""

    change: np.ndarray
    skipped: np.ndarray
    backoffs: np.ndarray
    rate: np.ndarray
    entropy: np.ndarray
    log_evidence: np.ndarray
    seconds: np.ndarray
    score: np.ndarray

    @classmethod
    def of(cls, sweeps: list[Sweep]) -> "History":
        """Columns from rows."""
        return cls(*(np.array([getattr(sweep, name) for sweep in sweeps]) for name in cls._fields))


class Progress(NamedTuple):
    """Where a fit stands: all that the next sweep depends on, apart from the problem. It can be written down."""

    state: State
    control: Control
    reference: Family  # q where a unit of rate began
    before: Family  # q a sweep ago
    past: tuple[Past, ...] = ()  # the last sweeps, to be combined
    plain: State | None = None  # the state before q was moved ahead, until the next sweep shows that it was well done
    n_sweeps: int = 0
    first_pass: float = float("nan")  # log Z with the sites as they were included in the first pass: ADF's evidence
    near: Family | None = None  # what rows see in the next sweep in place of q: marginals are read there, no more
    outlook: Any = None  # of the last sweep, where rows are judged ahead of q: see `cavity.inference.ahead`

    @classmethod
    def at(cls, state: State, near: Family | None = None) -> "Progress":
        """Before the first sweep, in which rows may see a q that is near the end."""
        return cls(state, Control(), state.q if near is None else near, state.q, near=near)

    def bare(self) -> "Progress":
        """Without what members of the family keep of themselves once it was asked for: means, covariances."""
        copied = lambda part: tree.map(lambda leaf: leaf, part)
        return self._replace(
            state=copied(self.state),
            reference=copied(self.reference),
            before=copied(self.before),
            past=copied(self.past),
            plain=copied(self.plain),
            near=copied(self.near),
            outlook=copied(self.outlook),
        )

    def standing_at(self, state: State) -> "Progress":
        """At another state, from which sweeps are measured anew."""
        return self._replace(state=state, reference=state.q, before=state.q)


@dataclass(frozen=True, repr=False)
class Result:
    """The posterior and how it was reached.

    A result holds sites but no data: it can be pickled, and a fit can go on from it. With `fit(keep_data=True)` it also
    holds `fitted`, of which more can be asked.
    """

    posterior: Any
    converged: bool
    ending: str  # why the fit stopped: "converged", "stopped", "out of sweeps", "skipping", "stuck" or "interrupted"
    n_sweeps: int
    n_skipped: int  # visits skipped, summed over all sweeps
    history: History
    log_evidence: float  # NaN if it was not asked for
    site_bytes: int  # held for sites
    n_sites: int  # K; one where groups were looked for and one shared site is enough, or none would help
    groups: np.ndarray | None  # the group of each row, where there are groups; 0 too for rows of weight zero
    sharing_error: (
        float  # predicted distance from EP of the mean that is farthest off, in posterior standard deviations
    )
    sampling: Any = None  # R-hat and effective sample size of every sweep, where moments were sampled
    progress: Progress | None = None  # to go on from
    origin: Any = None  # what was fitted, to see whether a later fit is of the same: see `cavity.inference.resume`
    complaints: tuple[tuple[type[Warning], str], ...] = ()  # what `fit` warned of
    fitted: Any = field(default=None, compare=False)  # the fit with its data, if these were to be kept

    def evidence_gradient(self) -> tuple[Any, Any]:
        """d log Z with respect to the leaves of (factor, prior): likelihood hyper-parameters and the prior's η.

        Exact at a fixed point. For a function prior(h) the chain rule finishes the job: `jax.vjp(prior, h)`. The fit
        must have been made with `keep_data=True`.
        """
        return self._asked().evidence_gradient()

    def evidence_with(self, factor: Factor) -> float:
        """log Z of the data under another likelihood of the same kind, with the sites held as they are.

        At a fixed point with one site per datum its derivative is that of the refitted evidence. The fit must have been
        made with `keep_data=True`.
        """
        return self._asked().evidence_with(factor)

    def linear_response(self, expectations: Any) -> Any:
        """Covariances of functions f(θ) that q leaves out, from how the fixed point answers to a push.

        `expectations(q)`, a JAX function, gives their means under a member of q's family. The result has `own`, their
        covariance under q as far as its sufficient statistics tell, and `added`: the posterior's is about the sum. The
        fit must have been made with `keep_data=True`.
        """
        return self._asked().linear_response(expectations)

    def without_data(self) -> "Result":
        """This result without the way back to its data."""
        return replace(self, fitted=None)

    def _asked(self) -> Any:
        if self.fitted is None:
            raise ValueError(
                "This result does not hold its data: fit with keep_data=True to ask it. A result that was pickled or "
                "copied never does."
            )
        return self.fitted

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the way back to the data, which may be large, and sites in files that go with the process."""
        return {**self.__dict__, "fitted": None, "progress": written_down(self.progress)}

    def __repr__(self) -> str:
        sweeps = f"{self.n_sweeps} sweep{'s' if self.n_sweeps != 1 else ''}"
        change = f", last change {self.history.change[-1]:.2g} sd" if len(self.history.change) else ""
        kinds = type(self.posterior).__name__
        lines = [
            f"Result: {self.ending} after {sweeps}{change}",
            f"  posterior     {kinds} over {describe_shape(self.posterior.event_shape())}",
            f"  log evidence  {self.log_evidence:.6g}",
            f"  sites         {self.n_sites:,} ({in_words(self.site_bytes)})",
        ]
        if self.n_skipped:
            lines.append(f"  skipped       {self.n_skipped:,} visits to data")
        return "\n".join(lines)


def describe_shape(shape: Any) -> str:
    """The shape of θ in words that fit on a line."""
    return str(shape)


def in_words(n_bytes: float) -> str:
    """A number of bytes for a person."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes:.0f} bytes"


def written_down(progress: Progress | None) -> Progress | None:
    """Progress in a form that outlives the process; None where sites are in files that do not."""
    if progress is None or any(isinstance(leaf, np.memmap) for leaf in tree.leaves(progress.state.sites)):
        return None
    return progress
