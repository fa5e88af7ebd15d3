"""What the engine asks of a family, a factor and a source. Nothing else is called on them.

A *source* is a list of parts, a part a recipe for some rows. A *batch* is the unit of update: rows judged from one q. A
*chunk* is the unit of computing: at most `CHUNK` rows of one batch. It gives a sum, `Found`, of which updates are made.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

Tree: TypeAlias = Any  # arrays in tuples, dicts and the like: data, draws
Member: TypeAlias = Any  # of an exponential family: what `Family` says of it
Sites: TypeAlias = Any  # λ of one slot, or a stack of them: natural parameters, or as a factor keeps own sites
CHUNK = 2048  # rows: enough for matrix products at full speed, few enough for work arrays to stay in the cache


@runtime_checkable
class Family(Protocol):
    """An exponential family; an instance is its natural parameter η, on which +, − and number × act."""

    def log_partition(self) -> Any:
        """A(η)."""

    def moments(self) -> Any:
        """E[T] = ∇A(η), in an instance of the same class."""

    def from_moments(self) -> Any:
        """The natural parameter whose moments this instance holds."""

    def is_proper(self) -> Any:
        """Whether η is finite and in the domain of A."""

    def moments_along(self, direction: Any) -> Any:
        """∇²A(η) times a direction of η."""

    def expected(self, direction: Any) -> Any:
        """⟨direction, E[T]⟩."""

    def has_host_form(self) -> bool:
        """Whether methods compute with NumPy where all numbers are NumPy's; otherwise the engine compiles them."""

    def entropy(self) -> Any:
        """−E[log q]."""

    def distance(self, other: Any) -> Any:
        """How many posterior standard deviations two members are apart."""

    def means_apart(self, other: Any) -> Any:
        """How many of its standard deviations the means of one number in θ are apart at most; NaN if there are none."""

    def statistics(self, theta: Any) -> Any:
        """T(θ)."""

    def event_shape(self) -> Any:
        """The shape of θ, or a tree of shapes."""

    def sample(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Draws of θ, stacked; the key may be an integer."""

    def __add__(self, other: Self) -> Self: ...

    def __sub__(self, other: Self) -> Self: ...

    def __rmul__(self, scale: Any) -> Self: ...


@runtime_checkable
class Factor(Protocol):
    """A likelihood p(x|θ), seen through ℓ_α(q) = (1/α) log E_q[p(x|θ)^α].

    `cavity.factors.Factor` has defaults for all members but `log_mean`. A factor is a pytree (`cavity.factors.pytree`)
    whose leaves are its hyper-parameters.
    """

    def check(self, prior: Member, data: Tree) -> Any:
        """The user's data as a tree of float64 arrays with a row for each datum, or a ValueError."""

    def log_mean(self, q: Member, datum: Tree, power: float) -> Any:
        """ℓ_α(q) of one datum; E_q[log p(x|θ)] at power 0. A JAX function."""

    def estimate(self, cavity: Member, datum: Tree, power: float) -> tuple[Any, Any]:
        """The own site λ̂ = (proj[c pᵅ] − c)/α of one datum, and ℓ_α(c). A JAX function."""

    def proper_parts(self, q: Member, of: Any) -> Any:
        """Which numbers of q, made of another proper one, belong to a proper distribution: a tree of truth values."""

    def smooth(self) -> Any:
        """The factor with estimates that JAX can differentiate in reverse: itself, unless they are found by search."""

    def simplify(self, prior: Member, data: Tree) -> "tuple[Any, Any, Callable[[Any], Any] | None]":
        """Prior and data of the same problem in fewer dimensions, and what lifts a site back; None for as it is."""

    def sums(self, prior: Member, data: Tree, algorithm: Any) -> "Sums | None":
        """How chunks are summed where that is not left to automatic differentiation, or None."""


class Programs(abc.ABC):
    """Sums over rows as JAX functions: what is compiled for a chunk. A pytree that holds the factor.

    `cavity.inference.pull.Each` forms them from one datum at a time, for any factor; a factor with closed forms for
    many rows at once brings its own, and tests hold the two equal.
    """

    factor: Any

    @abc.abstractmethod
    def estimates(self, q: Member, site: Sites, present: Any, data: Tree, weight: Any, power: float) -> "Found":
        """Σ w λ̂ over rows that share a site, of which q holds the part `present`.

        Without a site (None) nothing is removed before tilting, and `log_scale` must be filled in.
        """

    @abc.abstractmethod
    def terms(self, q: Member, site: Sites, present: Any, data: Tree, weight: Any, power: float) -> "Terms":
        """What rows that share a site add to the closing evidence."""

    @abc.abstractmethod
    def errors(self, q: Member, site: Sites, present: Any, data: Tree, weight: Any, draws: Tree, power: float) -> Any:
        """⟨r, T(θ)⟩ of every row at every draw, with r what sharing the site costs it."""

    @abc.abstractmethod
    def own_site(self, prior: Member) -> Any:
        """A site of one row that says nothing, in the form in which own sites are kept."""

    @abc.abstractmethod
    def own_total(self, prior: Member, sites: Sites, data: Tree, weight: Any) -> Any:
        """Σ w λ of own sites, as natural parameters."""

    @abc.abstractmethod
    def own_estimates(self, q: Member, sites: Sites, data: Tree, weight: Any, power: float) -> "Found":
        """Σ w (λ̂ − λ) over rows with sites of their own, and the change of each."""

    @abc.abstractmethod
    def own_terms(self, q: Member, sites: Sites, data: Tree, weight: Any, power: float) -> "Terms":
        """What rows with sites of their own add to the closing evidence."""

    @abc.abstractmethod
    def with_factor(self, factor: Any) -> "Programs":
        """The programs of another factor of the same kind, or of one whose hyper-parameters are traced."""


class Found(NamedTuple):
    """Summed site estimates of some rows: all that an update needs."""

    total: Any  # Σ w λ̂; for rows with sites of their own Σ w (λ̂ − λ)
    weight: Any  # Σ w of the rows that count
    skipped: Any  # rows whose cavity or tilted distribution was improper
    log_scale: Any  # Σ w log s, the scales of the sites (24); where nothing is remembered
    safe: Any  # whether adding any share of it leaves a proper q proper
    change: Any = None  # λ̂ − λ of each row, for rows with sites of their own
    beside: Any = None  # what a factor wants to keep with each row, and to find there at the next visit
    value: Any = None  # Σ w {ℓ_α(c) + (A(c) − A(q))/α} with own sites as they were, where `Setting.values` asks
    response: Any = None  # how all they ask for answers to where they are judged, where `Setting.responses` asks


class Terms(NamedTuple):
    """Summed terms of some rows in the closing evidence (26)."""

    own_sites: Any  # Σ w λ̂
    value: Any  # Σ w {ℓ_α(c) + (A(c) − A(q))/α}, with c the cavity of the datum's own site
    left_out: Any  # rows whose term could not be formed
    unsettled: Any = 0.0  # rows whose term was found by a fit of its own that did not converge
    moves: Any = None  # Σ w (λ̂′ − λ̂), λ̂′ asked for without λ̂ in place of the shared site; None where that is not found


class Rows(NamedTuple):
    """A chunk: some rows, in memory."""

    data: Tree  # a tree of arrays
    weight: np.ndarray
    sites: Sites = None  # their own sites, stacked
    number: Any = None  # which rows of the data they are, where `Sums.asks_for_numbers`
    beside: Any = None  # what the factor kept with them


class View(NamedTuple):
    """q and the site that rows share, of which q holds the part `present`."""

    q: Member
    site: Sites
    present: float


class Setting(NamedTuple):
    """What all rows of a sweep see alike, apart from q."""

    power: float
    seed: int = 0
    sweep: int = 0  # counted from one; zero for questions between sweeps
    values: bool = False  # whether `Found.value` is wanted, from factors that can tell it on the way
    responses: bool = False  # whether `Found.response` is wanted, from factors that look ahead


@runtime_checkable
class Part(Protocol):
    """A recipe for some rows, one at least."""

    n_rows: int

    def read(self) -> Any:
        """The rows, as a tree of arrays."""


@runtime_checkable
class Source(Protocol):
    """Where rows come from."""

    parts: Sequence[Part]


class Sums(abc.ABC):
    """How the rows of a chunk are summed: the work of a fit, for one factor and prior.

    A `view` is what all chunks of a batch need of q and of the site that their rows share, found once. Rows with sites
    of their own have them in `rows.sites`, and see a view without a site, as do rows of which nothing is remembered.
    """

    chunk = CHUNK  # rows; it must not depend on how many there are
    in_threads = False  # whether chunks may be summed in several threads at once
    small_matrices = False  # whether several threads of BLAS would only wait for each other between chunks
    copies_sites = True  # whether a sweep works on a copy of the sites; otherwise they change in place
    in_batches_only = False  # whether even a batch of all rows is for `visits`
    scores = False  # whether `Info.score` is filled in
    asks_for_numbers = False  # whether `Rows.number` is needed
    looks_ahead = False  # whether `ahead` says where to judge rows, where all are one batch,
    first_look: Any = None  # and the q to judge them by in the first sweep, if it is not the prior

    def view(self, q: Member, site: Sites, present: float, power: float, n_rows: int) -> Any:
        """q, and a shared site of which it holds the part `present` (one, unless its data weigh less); for n rows."""
        return View(q, site, present)

    @abc.abstractmethod
    def own_site(self) -> Any:
        """A site of one row that says nothing, in the form in which such sites are kept."""

    @abc.abstractmethod
    def total(self, rows: Rows) -> Any:
        """Σ w λ of the rows' own sites, as natural parameters."""

    @abc.abstractmethod
    def estimates(self, view: Any, rows: Rows, setting: Setting) -> Found:
        """What the rows ask for."""

    @abc.abstractmethod
    def terms(self, view: Any, rows: Rows, setting: Setting) -> Terms:
        """What the rows add to the closing evidence."""

    def visits(self, state: Any, rows: Rows, plan: Any, rates: np.ndarray, counts: np.ndarray, setting: Setting) -> Any:
        """Visit batches in a way of the factor's own: state and `Info`; None to let the walk take them one by one.

        `rows` are all rows of a part, and sites of their own may change in place.
        """
        return None

    @abc.abstractmethod
    def programs(self) -> Programs:
        """The sums as JAX functions, for gradients and linear response; a ValueError where there are none."""

    @abc.abstractmethod
    def with_factor(self, factor: Any) -> "Sums":
        """The sums of another factor of the same kind."""

    @abc.abstractmethod
    def errors(self, view: Any, rows: Rows, draws: Tree, setting: Setting) -> np.ndarray:
        """⟨r, T(θ)⟩ of every row at every draw, with r what sharing the site costs it: see `grouping`."""

    def begin(self, prior: Member, slots: Any, sizes: list[int], seed: int) -> Any:
        """The state before the first sweep, or None for q equal to the prior and sites that say nothing."""
        return None

    def with_sites(self, state: Any, sites: Sites) -> Any:
        """A state with other sites, of the same shapes."""
        return state._replace(sites=sites)

    def end_sweep(self, state: Any, info: Any) -> Any:
        """What a factor does to a state at the end of a sweep."""
        return state

    def ahead(self, prior: Member, seen: Member, reached: Member, response: Any, share: float) -> Member | None:
        """A q nearer to the end than `reached`, which rows judged by `seen` make up; None where that is not found."""
        return None

    def no_evidence(self, slots: Any) -> str | None:
        """Why there is no evidence, and what to do about it; None where there is."""
        return None

    def report(self, state: Any) -> "Report":
        """What there is to say at the end of a fit."""
        return Report()


class Report(NamedTuple):
    """What a factor has to say at the end of a fit."""

    values: Any = None  # for the user: `Result.sampling`
    complaint: str | None = None  # a warning's text, where there is cause
    repeats: bool = False  # whether data that are counted again and again are no cause for a warning
