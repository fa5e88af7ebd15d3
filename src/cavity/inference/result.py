"""What a fit returns."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from cavity._precision import to_numpy


class ConvergenceWarning(UserWarning):
    """The fit stopped before it settled; its results are kept."""


class CollapseWarning(UserWarning):
    """The posterior's variance shrinks sweep after sweep: data are being counted again and again."""


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


@dataclass(frozen=True)
class Result:
    """The posterior and how it was reached."""

    posterior: Any
    converged: bool
    n_sweeps: int
    n_skipped: int  # visits skipped, summed over all sweeps
    history: History
    log_evidence: float  # NaN if it was not asked for
    site_bytes: int  # held for sites
    n_sites: int  # K; one where groups were looked for and one shared site is enough, or none would help
    groups: np.ndarray | None  # the group of each row, where there are groups; 0 too for rows of weight zero
    sharing_error: float  # with groups="auto": predicted distance from EP in posterior standard deviations, else NaN
    sampling: Any = None  # R-hat and effective sample size of every sweep, where moments were sampled
    _ending: str = field(repr=False, default="")  # why the loop stopped: see `cavity.inference.loop`
    _earlier: int = field(repr=False, default=0)  # sweeps of the fit that this one went on from
    _sites: Any = field(repr=False, default=None)
    _gradient: Any = field(repr=False, default=None)
    _evidence_with: Any = field(repr=False, default=None)
    _response: Any = field(repr=False, default=None)

    def evidence_gradient(self) -> tuple[Any, Any]:
        """d log Z with respect to the leaves of (factor, prior): likelihood hyper-parameters and the prior's η.

        Exact at a fixed point. For a function prior(h) the chain rule finishes the job: `jax.vjp(prior, h)`.
        """
        if self._gradient is None:
            raise ValueError("A result that was pickled or copied no longer holds its data: fit again to ask it.")
        with jax.enable_x64(True):
            return to_numpy(self._gradient())

    def evidence_with(self, factor: Any) -> float:
        """log Z of the same data under another likelihood of the same kind, with the sites held as they are.

        At a fixed point with one site per datum its derivative is that of the refitted evidence.
        """
        if self._evidence_with is None:
            raise ValueError("A result that was pickled or copied no longer holds its data: fit again to ask it.")
        with jax.enable_x64(True):
            return self._evidence_with(factor)

    def linear_response(self, expectations: Any) -> Any:
        """Covariances of functions f(θ) that q leaves out, from how the fixed point answers to a push.

        `expectations(q)`, a JAX function, gives their means under a member of q's family. The result has `own`, their
        covariance under q as far as its sufficient statistics tell, and `added`: the posterior's is about the sum.
        """
        if self._response is None:
            raise ValueError("A result that was pickled or copied no longer holds its data: fit again to ask it.")
        with jax.enable_x64(True):
            return self._response(expectations)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the way back to the data, which may be large."""
        return {**self.__dict__, "_sites": None, "_gradient": None, "_evidence_with": None, "_response": None}
