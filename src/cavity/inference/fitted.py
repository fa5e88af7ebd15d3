"""Questions after a fit: of a problem with its data, and the sites that were found."""

from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity._precision import to_numpy
from cavity._warnings import warn
from cavity.inference.contract import Factor
from cavity.inference.evidence import log_evidence
from cavity.inference.named import Algorithm
from cavity.inference.problem import derived
from cavity.inference.result import ConvergenceWarning
from cavity.inference.source import Arrays
from cavity.inference.threads import Threads
from cavity.inference.update import State
from cavity.inference.walk import Walk

SOLVED = 1e-6  # relative error allowed in the linear system behind the gradient of log Z


class Fitted:
    """A fit that still holds its data. Drop it, and the data are free."""

    def __init__(self, walk: Walk, state: State, algorithm: Algorithm, seed: int) -> None:
        self.walk, self.state, self.algorithm, self.seed = Walk(walk.problem, Threads(1)), state, algorithm, seed

    def evidence_with(self, factor: Factor) -> float:
        """log Z of another likelihood of the same kind, with the sites as they are."""
        self._refuse_without_sites("evidence_with")
        problem = self.walk.problem
        if tree.structure(factor) != tree.structure(problem.factor):
            raise ValueError(f"factor must be of the kind that was fitted, {problem.factor!r}; got {factor!r}.")
        sums = problem.sums.with_factor(factor)
        walk = Walk(problem._replace(factor=factor, sums=sums), self.walk.threads)
        evidence = log_evidence(walk, self.state, self.algorithm.power, self.seed)
        if evidence.refusal:
            raise ValueError(f"evidence_with has no answer here: {evidence.refusal}")
        return evidence.value

    def evidence_gradient(self) -> tuple[Any, Any]:
        """d log Z with respect to factor and prior, in the user's coordinates."""
        from cavity.inference.gradient import gradient

        self._refuse_without_sites("evidence_gradient")
        whole = [np.asarray(leaf).dtype for leaf in tree.leaves((self.walk.problem.factor, self.walk.problem.given[0]))]
        whole = [dtype for dtype in whole if dtype.kind != "f"]
        if whole:
            raise ValueError(f"factor and prior must hold floating-point numbers for a gradient; got {whole[0]}.")
        by_hyper, error = gradient(*self._in_user_coordinates(), self.algorithm.power)
        if not error < SOLVED:
            message = (
                f"The gradient of log Z is good to {float(error):.1g} only: its linear system was not solved. The "
                "sites are probably not at a fixed point; fit with a smaller tol, or with cavity.ep()."
            )
            warn(message, ConvergenceWarning)
        return to_numpy(by_hyper)

    def linear_response(self, expectations: Any) -> Any:
        """The linear response of q, in the user's coordinates."""
        from cavity.inference.response import respond

        self._refuse_without_sites("linear_response")
        walk, state = self._in_user_coordinates()
        return respond(walk, state, self.algorithm.power, expectations)

    def _in_user_coordinates(self) -> tuple[Walk, State]:
        """The walk over the data as they were given, and the sites that go with it."""
        problem, state = self.walk.problem, self.state
        if problem.lift is None:
            return self.walk, state
        prior, data = problem.given
        sums = problem.factor.sums(prior, data, self.algorithm) or derived(problem.factor, prior)
        source = Arrays.split(data, [part.n_rows for part in problem.source.parts])
        walk = Walk(problem._replace(prior=prior, source=source, sums=sums, lift=None), self.walk.threads)
        sites = state.sites
        if not walk.slots.own:
            lifted = [problem.lift(tree.map(lambda leaf, k=k: leaf[k], sites)) for k in range(len(walk.slots.counts))]
            sites = tree.map(lambda *leaves: np.stack(leaves), *lifted)
        q = to_numpy(prior + problem.lift(state.q - problem.prior))
        return walk, state._replace(q=q, sites=sites, prior=prior)

    def _refuse_without_sites(self, name: str) -> None:
        """Raise for ADF, which keeps no sites that could be asked."""
        if self.walk.slots.nowhere:
            raise ValueError(
                f"ADF remembers no sites, so that nothing can be asked of its evidence or fixed point afterwards "
                f"({name}). Fit with cavity.ep() or aep()."
            )
