"""Sweeps of a network: its prior's factors are refined after each, and its weights begin at random.

With all weights alike every hidden unit would ask for the same update, for ever: means begin as small random numbers.
Equation (1) holds from the beginning, q = λ₀ + Σ sites, with λ₀ what the prior's factors say at the time.

Data are visited by compiled loops (`cavity.factors.networks.compiled`, with Numba) where there are such for the
algorithm, and else by the general kernel; tests hold the two equal.
"""

from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from cavity._precision import to_numpy
from cavity.factors.networks.site_storage import allocate
from cavity.factors.networks.weight_prior import Refined, refine
from cavity.families import DiagonalGaussian, Gamma, Product
from cavity.inference import kernel as general
from cavity.inference.driver import Driver, Report, Setting, close_sweep, on_device, one_sweep
from cavity.inference.evidence import Evidence
from cavity.inference.kernel import Model
from cavity.inference.measure import measure
from cavity.inference.memory import Plan
from cavity.inference.named import ALL, Algorithm
from cavity.inference.step import Info, State

try:
    from cavity.factors.networks.compiled import batches
    from cavity.factors.networks.compiled import noise as noises
    from cavity.factors.networks.compiled import rows as loops
    from cavity.factors.networks.compiled import weight_prior as prior_loop
except ImportError:  # Numba is an extra
    loops = batches = noises = prior_loop = None  # type: ignore[assignment]

Network: TypeAlias = Any  # the factor, whose module imports this one
NO_NOISE = np.array([2.0, 1.0])  # in the place of a Gamma where targets are labels: loops leave it alone


class NetworkState(NamedTuple):
    """q, its sites, and what its prior's factors say."""

    q: Product
    sites: Product
    filed: Any
    filed_weight: Any
    prior: Product  # λ₀
    shares: Gamma  # what each weight's factor says of their precision


class Sweeps:
    """How one fit of a network is made: random numbers to begin with, and the score of every sweep."""

    def __init__(self, factor: Network, algorithm: Algorithm, seed: int) -> None:
        self.factor, self.algorithm, self.seed = factor, algorithm, seed
        self.scores: list[float] = []  # mean log density of the data under their cavities, sweep by sweep

    def start(self, _: Any, model: Model, own: bool) -> NetworkState:
        """q with random means, made up of equal sites."""
        prior = to_numpy(model.prior)
        q = begin(self.factor, prior, self.seed)
        n_slots = len(model.counts)
        kept = self.algorithm.n_sites != 0
        share = 1 / np.sum(model.counts) if kept else 0.0
        one = jax.tree.map(lambda a, b: share * (a - b), q, prior)
        options = (self.factor.site_dtype, self.factor.site_directory) if own else ()
        sites = allocate(one, n_slots, *options)
        zeros: Any = np.zeros(self.factor.n_weights)
        filed = None if own else jax.tree.map(np.zeros_like, sites)
        return NetworkState(q, sites, filed, None if own else np.zeros(n_slots), prior, Gamma(zeros, zeros))

    def resume(self, _: Any, model: Model, state: NetworkState, sites: Any) -> NetworkState | None:
        """q rebuilt from sites."""
        total = jax.tree.map(lambda leaf: np.einsum("k,k...->...", model.counts, leaf), sites)  # forms no other array
        q = to_numpy(state.prior + total)
        if not bool(q.is_proper()):
            return None
        jax.tree.map(np.copyto, state.sites, sites)  # where there is room for them
        return state._replace(q=q)

    def sweep(
        self, _: Any, model: Model, state: NetworkState, plan: Plan, rates: np.ndarray, setting: Setting
    ) -> tuple[NetworkState, Info, Any]:
        """Visit the data, settle, refine the prior."""
        visit = by_loops if self.has_loops(rates, model, plan) else by_kernel
        end, info, score = visit(self.factor, model, state, plan, rates, setting)
        info = info._replace(log_scale=np.nan)  # prior factors change after a pass by ADF too: there is no log Z
        self.scores.append(score / float(np.sum(model.weight)))
        cut: Any = False
        if end.filed is not None:
            before, after = (State(s.q, s.sites, s.filed, s.filed_weight) for s in (state, end))
            closed, cut = close_sweep(state.prior, model.counts, before, after, setting.share, average=setting.settles)
            end = end._replace(**to_numpy(closed)._asdict())
        return (with_refined_prior(end) if "precision" in end.q.parts else end), info, cut

    def has_loops(self, rates: np.ndarray, model: Model, plan: Plan) -> bool:
        """Whether the compiled loops know this sweep."""
        whole = bool(np.all(rates == 1) and np.all(model.weight == 1))
        return has_loops(self.factor, self.algorithm) and (plan.slot.ndim == 1 or (whole and plan.rows.shape[1] == 1))

    def log_evidence(self, *_: Any) -> Evidence:
        return Evidence(np.nan, 0, True, "a network has no log Z; its scores are in Result.history.score.")

    def report(self) -> Report:
        return Report(np.array(self.scores), None)


def has_loops(factor: Network, algorithm: Algorithm) -> bool:
    """Whether there are compiled loops for rows that weigh one and, with sites of their own, steps of size one."""
    known = loops is not None and factor.activation == "relu" and factor.units_are_independent
    single = algorithm.batch_size == 1 and algorithm.rate in (None, 1)
    return known and algorithm.power == 1 and (algorithm.n_sites != ALL or single)


def begin(factor: Network, prior: Product, seed: int) -> Product:
    """The prior with means of the weights drawn from N(0, 1/(n_in + 1)), where they are all alike in it."""
    if np.ptp(prior["weights"].shift) > 0:
        return prior
    rng = np.random.default_rng([seed, 2])
    draws = [rng.standard_normal((a + 1) * b) / np.sqrt(a + 1) for a, b in pairwise(factor.sizes)]
    precision = prior["weights"].precision
    weights = DiagonalGaussian(prior["weights"].shift + precision * np.concatenate(draws), precision)
    return Product({**prior.parts, "weights": weights})


def with_refined_prior(state: NetworkState) -> NetworkState:
    """One round of EP over the prior's factors."""
    q, prior = state.q, state.prior
    now = Refined(q["weights"], q["precision"], prior["weights"], state.shares)
    done = to_numpy(refine(now)) if prior_loop is None else refined_by_loop(now)
    q = Product({**q.parts, "weights": done.weights, "precision": done.precision})
    prior = Product({**prior.parts, "weights": done.of_weights, "precision": done.precision})
    return state._replace(q=q, prior=prior, shares=done.of_precision)


def refined_by_loop(now: Refined) -> Refined:
    """The same by a compiled loop."""
    weights, sites, shares = (tuple(np.array(leaf) for leaf in jax.tree.leaves(part)) for part in now[::2] + now[3:])
    total = np.array([now.precision.shape, now.precision.rate])
    visit: Any = prior_loop.refine
    visit(*weights, *sites, *shares, total)
    return Refined(DiagonalGaussian(*weights), Gamma(*total), DiagonalGaussian(*sites), Gamma(*shares))  # type: ignore[arg-type]


def by_kernel(
    factor: Network, model: Model, state: NetworkState, plan: Plan, rates: np.ndarray, setting: Setting
) -> tuple[NetworkState, Info, float]:
    """The general sweep; the score is not known."""
    before = State(state.q, state.sites, state.filed, state.filed_weight)
    end, info = one_sweep(general.GENERAL, before, model, on_device(plan), jnp.asarray(rates), setting.power, None)
    return state._replace(**to_numpy(end)._asdict()), to_numpy(info), np.nan


def by_loops(
    factor: Network, model: Model, state: NetworkState, plan: Plan, rates: np.ndarray, setting: Setting
) -> tuple[NetworkState, Info, float]:
    """The same by compiled loops."""
    kept = plan.slot.ndim == 2 or int(np.max(plan.slot)) < len(model.counts)
    single = plan.rows.shape[1] == 1 and bool(np.all(rates == 1) and np.all(model.weight == 1))
    if plan.slot.ndim == 2:
        return one_by_one(loops.OWN, factor, model, state, plan)
    if single and not kept:
        return one_by_one(loops.NOWHERE, factor, model, state, plan)
    if single and len(model.counts) == 1 and not setting.settles:
        return one_by_one(loops.IMPLIED, factor, model, state, plan)
    return in_batches(factor, model, state, plan, rates)


def one_by_one(
    kind: int, factor: Network, model: Model, state: NetworkState, plan: Plan
) -> tuple[NetworkState, Info, float]:
    """Steps of size one, a datum each. Sites of the data's own change in place: there may be no room for others."""
    (X, y), q, prior, (noise, site_noise) = model.data, state.q, state.prior, gammas(state)
    weights, sites = q["weights"], state.sites["weights"]
    variance = 1 / weights.precision
    mean = weights.shift * variance
    base = unless_zero(prior["weights"].shift), prior["weights"].precision, noise_of(prior)
    nothing = np.zeros((1, 1))
    own = (sites.shift, sites.precision, site_noise) if kind == loops.OWN else (nothing, nothing, nothing)
    given = output_of(factor), plan.rows[:, 0], X, y, *shape_of(factor)
    score = loops.one_by_one(kind, *given, mean, variance, noise, *base, *own, *work_of(factor))
    q = with_parts(q, DiagonalGaussian(mean / variance, 1 / variance), noise)
    new = state.sites
    if kind == loops.IMPLIED:
        new = jax.tree.map(lambda end, start: (end - start)[None] / len(y), q, prior)
    elif kind == loops.OWN:
        new = with_parts(state.sites, sites, site_noise.T)
    return state._replace(q=q, sites=new), Info(len(y), 0, 0, 0.0), score


def in_batches(
    factor: Network, model: Model, state: NetworkState, plan: Plan, rates: np.ndarray
) -> tuple[NetworkState, Info, float]:
    """Batches of rows that share a site."""
    (X, y), (noise, site_noise) = model.data, gammas(state)
    weights: Any
    sites: Any
    filed: Any
    weights, sites, filed = (
        tuple(map(np.array, jax.tree.leaves(s["weights"]))) for s in (state.q, state.sites, state.filed)
    )
    filed_noise, filed_weight = np.zeros_like(site_noise), np.zeros(len(model.counts))
    visit: Any = batches.in_batches
    score, cuts = visit(
        output_of(factor), plan.rows, plan.slot, rates, model.weight, model.counts, X, y, *shape_of(factor), *weights,
        noise, *sites, site_noise, *filed, filed_noise, filed_weight, columns_of(factor, plan.rows.shape[1]),
    )  # fmt: skip
    q = with_parts(state.q, DiagonalGaussian(*weights), noise)
    new = with_parts(state.sites, DiagonalGaussian(*sites), site_noise.T)
    done = state._replace(
        q=q,
        sites=new,
        filed=with_parts(state.filed, DiagonalGaussian(*filed), filed_noise.T),
        filed_weight=filed_weight,
    )
    return done, Info(float(model.weight.sum()), 0, cuts, 0.0), score


def with_parts(q: Product, weights: DiagonalGaussian, noise: np.ndarray) -> Product:
    """The same with other weights and, where there is one, another noise precision."""
    return Product({**q.parts, "weights": weights, **({"noise": Gamma(*noise)} if "noise" in q.parts else {})})


def gammas(state: NetworkState) -> tuple[np.ndarray, np.ndarray]:
    """Shape and rate of the noise's precision, in q and, as columns, in the sites."""
    if "noise" not in state.q.parts:
        return NO_NOISE.copy(), np.zeros((len(state.sites["weights"].shift), 2))
    return noise_of(state.q), np.stack(jax.tree.leaves(state.sites["noise"]), axis=1).astype(float)


def noise_of(q: Product) -> np.ndarray:
    """Shape and rate."""
    return np.array([q["noise"].shape, q["noise"].rate]) if "noise" in q.parts else NO_NOISE.copy()


def output_of(factor: Network) -> int:
    """What compiled loops do with the outputs."""
    return noises.LABELS if factor.labels else noises.CHANGING if factor.sizes[-1] == 2 else noises.CONSTANT


def unless_zero(shift: np.ndarray) -> np.ndarray | None:
    """A prior's shift, or None where it is zero everywhere: loops then have less to read."""
    return shift if np.any(shift) else None


def shape_of(factor: Network) -> tuple[np.ndarray, np.ndarray]:
    """Widths, and where each layer's weights begin."""
    counts = [(a + 1) * b for a, b in pairwise(factor.sizes)]
    return np.array(factor.sizes), np.cumsum([0, *counts])


def work_of(factor: Network) -> tuple[np.ndarray, ...]:
    """Room for signals, and for which weights have a cavity."""
    units = np.zeros((8, len(factor.sizes) - 1, max(factor.sizes) + 1))
    return units, np.ones(factor.n_weights)


def columns_of(factor: Network, batch_size: int) -> np.ndarray:
    """Room for the signals of the rows of a batch, by fours; of a large one, of a part."""
    width = min(4 * -(-batch_size // 4), batches.WIDEST)
    return np.zeros((8, len(factor.sizes) - 1, max(factor.sizes) + 1, width))


def driver_of(factor: Network, algorithm: Algorithm, seed: int) -> Driver:
    """The driver of one fit."""
    fit = Sweeps(factor, algorithm, seed)
    return Driver(
        fit.start,
        fit.resume,
        fit.sweep,
        remember=lambda state: state.q,
        measure=lambda model, reference, before, old, state: measure(reference, before, old, state.q),
        log_evidence=fit.log_evidence,
        on_device=False,
        report=fit.report,
        score=lambda: fit.scores[-1],
        repeats=True,  # how many epochs of ADF are right is a question of rows left out
    )
