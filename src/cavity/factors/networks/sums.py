"""The sums of a network: its weights begin at random, and its prior's factors are refined after each sweep.

With all weights alike every hidden unit would ask for the same update, for ever: means begin as small random numbers.
Equation (1) holds from the beginning, q = λ₀ + Σ sites, with λ₀ what the prior's factors say at the time.

Data are visited by compiled loops where there are such for the algorithm (`cavity.factors.networks.loops`), and else as
those of any other factor, by programs that only then are imported with JAX; tests hold the two equal.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._kept import double_precision
from cavity._precision import to_numpy
from cavity.factors.networks import loops
from cavity.factors.networks.architecture import Architecture
from cavity.factors.networks.site_storage import allocate
from cavity.factors.networks.weight_prior import Refined, refine
from cavity.families import DiagonalGaussian, Gamma, Product
from cavity.inference.contract import Found, Programs, Report, Rows, Setting, Sums, Terms, Tree, View
from cavity.inference.named import ALL, Algorithm
from cavity.inference.order import Plan
from cavity.inference.update import Info, State

NO_EVIDENCE = "a network has no log Z; its scores are in Result.history.score."


class Inner(NamedTuple):
    """What a network carries from sweep to sweep, besides q and its sites."""

    shares: Gamma  # what each weight's factor says of their precision
    scores: tuple[float, ...]  # mean log density of the data under their cavities, sweep by sweep


class OfNetwork(Sums):
    """A network fitted by one algorithm."""

    scores = True

    def __init__(self, factor: Architecture, prior: Product, algorithm: Algorithm) -> None:
        self.factor, self.prior, self.algorithm = factor, prior, algorithm
        self.in_batches_only = algorithm.n_sites != ALL and loops.has_loops(factor, algorithm)
        self.copies_sites = algorithm.n_sites != ALL  # of all rows there may be no room for two

    def begin(self, prior: Product, slots: Any, sizes: list[int], seed: int) -> State:
        """q with random means, made up of equal sites."""
        q = beginning(self.factor, prior, seed)
        share = 0.0 if slots.nowhere else 1 / float(np.sum(slots.counts))
        one = tree.map(lambda a, b: share * (a - b), q, prior)
        zeros: Any = np.zeros(self.factor.n_weights)
        inner = Inner(Gamma(zeros, zeros), ())
        if slots.own:
            options = self.factor.site_dtype, self.factor.site_directory
            return State(q, [allocate(one, size, *options) for size in sizes], None, None, prior, inner)
        sites = allocate(one, len(slots.counts))
        filed = tree.map(np.zeros_like, sites)
        return State(q, sites, filed, np.zeros(len(slots.counts)), prior, inner)

    def with_sites(self, state: State, sites: Any) -> State:
        """A state with other sites, copied to where there is room for them."""
        tree.map(np.copyto, state.sites, sites)
        return state

    def total(self, rows: Rows) -> Product:
        add = lambda leaf: np.einsum("k,k...->...", rows.weight, leaf)  # forms no other array
        return tree.map(add, rows.sites)

    def visits(
        self, state: State, rows: Rows, plan: Plan, rates: np.ndarray, counts: np.ndarray, setting: Setting
    ) -> tuple[State, Info] | None:
        done = None
        if loops.has_loops(self.factor, self.algorithm):
            done = loops.visits(self.factor, self.algorithm.settles, state, rows, plan, rates, counts)
        return self.traced.visits(state, rows, plan, rates, counts, setting) if done is None else done

    @cached_property
    def traced(self) -> Sums:
        """What there are no loops for."""
        from cavity.inference.pull import Each
        from cavity.inference.traced import Traced

        return Traced(Each(self.factor), self.prior)

    def own_site(self) -> Any:
        return tree.map(np.zeros_like, self.prior)

    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        return self.traced.estimates(view, rows, setting)

    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        return self.traced.terms(view, rows, setting)

    def errors(self, view: View, rows: Rows, draws: Tree, setting: Setting) -> np.ndarray:
        return self.traced.errors(view, rows, draws, setting)

    def programs(self) -> Programs:
        return self.traced.programs()

    def end_sweep(self, state: State, info: Info) -> State:
        """Refine the prior, and remember the score."""
        inner = state.inner._replace(scores=(*state.inner.scores, float(info.score)))
        state = state._replace(inner=inner)
        return with_refined_prior(state) if "precision" in state.q.parts else state

    def no_evidence(self, slots: Any) -> str | None:
        return NO_EVIDENCE

    def report(self, state: State) -> Report:
        # how many epochs of ADF are right is a question of rows left out
        return Report(np.array(state.inner.scores), None, repeats=True)

    def with_factor(self, factor: Architecture) -> "OfNetwork":
        return OfNetwork(factor, self.prior, self.algorithm)


def beginning(factor: Architecture, prior: Product, seed: int) -> Product:
    """The prior with means of the weights drawn from N(0, 1/(n_in + 1)), where they are all alike in it."""
    if np.ptp(prior["weights"].shift) > 0:
        return prior
    rng = np.random.default_rng([seed, 2])
    draws = [rng.standard_normal((a + 1) * b) / np.sqrt(a + 1) for a, b in pairwise(factor.sizes)]
    precision = prior["weights"].precision
    weights = DiagonalGaussian(prior["weights"].shift + precision * np.concatenate(draws), precision)
    return Product({**prior.parts, "weights": weights})


def with_refined_prior(state: State) -> State:
    """One round of EP over the prior's factors."""
    q, prior = state.q, state.prior
    now = Refined(q["weights"], q["precision"], prior["weights"], state.inner.shares)
    done = to_numpy(refined(now)) if loops.prior_loop is None else loops.refined_by_loop(now)
    q = Product({**q.parts, "weights": done.weights, "precision": done.precision})
    prior = Product({**prior.parts, "weights": done.of_weights, "precision": done.precision})
    return state._replace(q=q, prior=prior, inner=state.inner._replace(shares=done.of_precision))


def refined(now: Refined) -> Refined:
    with double_precision():
        return refine(now)
