"""The loop: sweeps until q stops moving."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from cavity._precision import to_numpy
from cavity._warnings import warn
from cavity.families.base import are_alike, describe
from cavity.inference import evidence as evidence_of
from cavity.inference import memory, rates
from cavity.inference.acceleration import Acceleration
from cavity.inference.complaints import complaints
from cavity.inference.driver import Setting, on_device
from cavity.inference.measure import entropy_of
from cavity.inference.memory import Plan
from cavity.inference.named import Algorithm
from cavity.inference.problem import Problem
from cavity.inference.response import respond
from cavity.inference.result import CollapseWarning, ConvergenceWarning, History, Result, Sweep

SMALLEST_SHARE = 2.0**-10
SLOW = 0.7  # a change that keeps more than this share of the last one is falling slowly
LONGEST_PATIENCE = 8  # sweeps
ROUNDING, STALLED = 1e-7, 10  # a change below this that does not fall in so many sweeps is rounding
SOLVED = 1e-6  # relative error allowed in the linear system behind the gradient of log Z
WORTH = 0.3  # a change that keeps less than this share of the last one is falling fast enough
NEAR, LONGEST_WAIT = 1.0, 64  # a change, in standard deviations, from which on sweeps are combined; see `accelerate`
RUNAWAY = 2.0  # one that grows by more than this is not falling at all, whichever way it points


class Loop:
    """The sweeps of one fit, and what is decided between them."""

    def __init__(
        self, problem: Problem, algorithm: Algorithm, limit: int, tol: float, seed: int, evidence: bool | str
    ) -> None:
        self.problem, self.algorithm, self.limit, self.tol, self.evidence = problem, algorithm, limit, tol, evidence
        self.rng = np.random.default_rng(seed)
        self.driver = problem.driver
        self.state = self.driver.start(problem.kernel, problem.model, problem.slots.own)
        self.now = self.driver.remember(self.state)
        self.share = 1.0  # of the asked move that is made: halved when the change stops falling
        self.patience, self.calm = 1, 0  # sweeps that must agree before the share is doubled, and those that have
        self.reference, self.travelled = self.now, 0.0  # where a unit of rate began, how much of it is gone
        self.before, self.turned = self.now, False  # q a sweep ago, and whether the last two moves are opposed
        self.acceleration = Acceleration()
        self.plain: Any = None  # the state before q was moved ahead, until the next sweep shows that it was well done
        self.ahead, self.falling, self.in_a_row = False, 0, 2  # whether it was moved; changes that fell; and must fall
        self.sharing_error = float("nan")  # where groups were looked for
        self.sweeps: list[Sweep] = []
        self.earlier = 0  # sweeps made by the fit that this one goes on from
        self.last_evidence: evidence_of.Evidence | None = None
        self.first_pass = float("nan")  # log Z with the sites as they were included in the first pass: ADF's evidence

    def begin_at(self, start: Result) -> None:
        """Take over the sites of another fit, if they go with this prior."""
        sites = getattr(start, "_sites", None)
        if sites is None:
            raise ValueError("start must be the result of a fit that still holds its sites; a pickled one does not.")
        if shapes_of(sites) != shapes_of(self.state.sites):
            raise ValueError("start must be a result for the same data and algorithm; its sites have other shapes.")
        if self.take_over(sites):
            self.earlier = start._earlier + start.n_sweeps

    def begin_with(self, q: Any) -> None:
        """Equal sites that make up q: a place to begin where the prior is a trap, as for alike parts of a mixture."""
        if self.problem.slots.n_sites == 0:
            raise ValueError("start must be None for ADF, which has no sites to begin with: give it as the prior.")
        prior, counts = self.problem.given[0], self.problem.model.counts
        if not are_alike(q, prior):
            raise ValueError(
                f"start must be a Result, or of the prior's family and shape, {describe(prior)}; got {describe(q)}."
            )
        if not bool(q.is_proper()):
            raise ValueError("start must be a proper distribution; got parameters that are not finite or out of range.")
        spread: Any = jnp.broadcast_to if self.driver.on_device else np.broadcast_to  # on the host without a copy
        share = 1 / float(np.sum(counts))
        sites = jax.tree.map(lambda leaf: spread(share * leaf, (len(counts), *np.shape(leaf))), q - prior)
        if self.problem.lift is not None or shapes_of(sites) != shapes_of(self.state.sites):
            raise ValueError(
                "start must be a Result here: the sites of this fit have fewer numbers than the prior, and do not make "
                "up any distribution. A shared site, as of cavity.aep(), does."
            )
        self.take_over(sites)

    def take_over(self, sites: Any) -> bool:
        """Begin at these sites, unless q would be improper; whether that was done."""
        state = self.driver.resume(self.problem.kernel, self.problem.model, self.state, sites)
        if state is not None:
            self.state = state
            self.stand_here()
        return state is not None

    def settle(self) -> None:
        """Sweep until q hardly moves, with nobody looking on."""
        for number in range(1, self.limit + 1):
            self.sweeps.append(self.sweep(number, 0.0)._replace(current=None))
            if self.is_settled(self.sweeps[-1]):
                break
            self.adjust()

    def run(self, progress: bool, callback: Callable[[Sweep], Any] | None) -> Result:
        """Sweep until converged, told to stop, or out of sweeps."""
        start, ending = time.perf_counter(), "out of sweeps"
        bar = tqdm(total=self.limit, desc="sweeps", disable=not progress)
        try:
            for number in range(1, self.limit + 1):
                sweep = self.sweep(number, start)
                self.sweeps.append(sweep._replace(current=None))  # a record, not another copy of q
                bar.update()
                bar.set_postfix(change=f"{sweep.change:.2g}", skipped=sweep.skipped)
                stop = callback is not None and callback(sweep)
                if self.is_settled(sweep):
                    ending = "skipping" if sweep.skipped else "stuck" if sweep.backoffs else "converged"
                elif stop:
                    ending = "stopped"
                if ending != "out of sweeps":
                    break
                self.adjust()
        except KeyboardInterrupt:
            ending = "interrupted"
        finally:
            bar.close()
        if not self.sweeps:
            raise KeyboardInterrupt
        return self.result(ending)

    def sweep(self, number: int, start: float) -> Sweep:
        """One pass over the data, and its record."""
        model, kernel, slots = self.problem[:3]
        plan = memory.plan(self.rng, slots, self.algorithm.batch_size, self.algorithm.replace)
        step_rates = self.rates(number, plan)
        setting = Setting(self.algorithm.power, self.share, self.algorithm.settles)
        end, info, cut = self.driver.sweep(kernel, model, self.state, plan, step_rates, setting)
        moved = self.driver.measure(model, self.reference, self.before, self.now, end)
        if not moved.proper:  # steps keep q proper one by one; at extreme scales rounding can still lose it
            end, moved = self.state, moved._replace(distance=np.inf, entropy=float(entropy_of(self.state.q)[0]))
            info = info._replace(skipped=len(self.problem.weight), log_scale=0.0)
        if self.is_a_map(plan):
            self.acceleration.note(end.sites, end.q - self.state.q)
        self.before, self.now, self.state = self.now, self.driver.remember(end), end
        self.turned = moved.turned
        rate = self.share if self.algorithm.settles else float(step_rates.mean())
        self.travelled += min(rate, 1.0)
        if number == 1 and slots.n_sites == 0:
            self.first_pass = float(end.q.log_partition() - model.prior.log_partition() + info.log_scale)
        return Sweep(
            number,
            float(np.nan_to_num(moved.distance / self.travelled, nan=np.inf)),  # never taken for a small one
            int(info.skipped),
            int(info.backoffs) + int(cut),
            rate,
            moved.entropy,
            self.log_evidence() if self.evidence == "history" else float("nan"),
            time.perf_counter() - start,
            partial(self.in_user_coordinates, self.state.q),
            self.driver.score(),
        )

    def rates(self, number: int, plan: Plan) -> np.ndarray:
        """ε of every batch in this sweep.

        Sites that are averaged at the end of a sweep let q wander within it at a rate that halves each sweep: the
        first is as quick as the literal algorithm, later ones turn into averaged EP, whose fixed point they reach.
        """
        n_batches = len(plan.rows)
        if self.algorithm.rate is not None:
            steps = np.arange(n_batches) + (self.earlier + number - 1) * n_batches
            part = memory.part_of_site(self.problem.slots, self.problem.weight, plan)
            return rates.evaluate(self.algorithm.rate, steps, n_batches, part)
        shared = self.algorithm.settles and not self.problem.slots.own
        stochastic = shared and n_batches > len(np.unique(plan.slot))
        return np.full(n_batches, self.share * (0.5 ** (self.earlier + number - 1) if stochastic else 1.0))

    def is_settled(self, sweep: Sweep) -> bool:
        """Whether q has moved by less than `tol` over a full unit of rate.

        A small rate alone must not look like convergence: the change is per unit of rate, and a rate of the user's is
        judged over as many sweeps as add up to one.
        """
        if self.algorithm.settles or self.travelled >= 1 - 1e-9:
            self.reference, self.travelled = self.now, 0.0
            one_pass = self.problem.slots.n_sites == 0 and self.limit == 1
            return sweep.change < self.tol or one_pass or self.is_rounding()
        return False

    def is_rounding(self) -> bool:
        """Whether what still moves is the last digits only."""
        recent = [sweep.change for sweep in self.sweeps[-2 * STALLED :]]
        if not self.algorithm.settles or len(recent) < 2 * STALLED or max(recent) > ROUNDING:
            return False
        return min(recent[STALLED:]) > 0.9 * min(recent[:STALLED])

    def back_off(self) -> None:
        """Change the share of each move that is made when the change falls slowly or not at all.

        If successive moves point against each other, the iteration overshoots and may go on for ever: the share is
        halved. If they point the same way, q is far from home and a small share only delays it: the share is doubled,
        after one such sweep the first time and twice as many after each halving, or the two could alternate for ever.
        """
        if not self.algorithm.settles or len(self.sweeps) < 2:
            return
        ratio = self.sweeps[-1].change / max(self.sweeps[-2].change, 1e-300)
        if self.sweeps[-1].change < ROUNDING:  # opposed moves are then the work of rounding
            return
        if ratio > RUNAWAY or (self.turned and ratio > SLOW):
            self.share, self.calm = max(0.5 * self.share, SMALLEST_SHARE), 0
            self.patience = min(2 * self.patience, LONGEST_PATIENCE)
        elif ratio > SLOW:
            self.calm += 1
            if self.calm >= self.patience:
                self.share, self.calm = min(2 * self.share, 1.0), 0

    def is_a_map(self, plan: Plan) -> bool:
        """Whether the sweep's end depends on nothing but the sites it began with."""
        shared = self.algorithm.settles and not self.problem.slots.own and self.algorithm.rate is None
        return shared and self.share == 1 and self.driver.accelerates and len(plan.rows) == len(np.unique(plan.slot))

    def adjust(self) -> None:
        """What the last sweep says about the next: where to begin it, and how much of its move to make."""
        *_, before, now = [np.inf, np.inf, *(sweep.change for sweep in self.sweeps)]
        if now > before and self.plain is not None:  # a combination of sweeps went too far, not the sweeps
            self.state = self.plain
            self.stand_here()
            self.wait_longer()
            return
        self.back_off()
        if now > before:
            self.wait_longer()
        else:
            self.accelerate(before, now)

    def wait_longer(self) -> None:
        """Combinations of sweeps are drawn to any fixed point, also to one that sweeps by themselves leave.

        So each time that changes grow again after one was made, more sweeps must fall in a row before the next.
        """
        self.in_a_row = min((2 if self.ahead else 1) * self.in_a_row, LONGEST_WAIT)
        self.acceleration.forget()
        self.plain, self.ahead, self.falling = None, False, 0

    def accelerate(self, before: float, now: float) -> None:
        """Move ahead where sweeps converge slowly."""
        self.plain, self.falling = None, self.falling + 1
        if self.share < 1:
            self.acceleration.forget()
        if self.falling < self.in_a_row or not NEAR > now > max(WORTH * before, ROUNDING):
            return
        sites = self.acceleration.propose(self.state.q)
        if sites is not None:
            plain = self.state
            self.ahead = self.take_over(sites)
            self.plain = plain if self.ahead else None

    def stand_here(self) -> None:
        """Measure from the present state on."""
        self.now = self.reference = self.before = self.driver.remember(self.state)

    def in_user_coordinates(self, q: Any) -> Any:
        """q as the user knows it, in NumPy."""
        model, lift = self.problem.model, self.problem.lift
        with jax.enable_x64(True):
            return to_numpy(q if lift is None else self.problem.given[0] + lift(q - model.prior))

    def closing_plan(self) -> Plan:
        """All rows of a slot at once. The order does not matter, and must not cost the sweeps a random number."""
        return memory.plan(np.random.default_rng(0), self.problem.slots, None, replace=False)

    def log_evidence(self) -> float:
        """log Z; for K = 0 that of the first pass, at power 1 the sum of one-step-ahead predictive densities (29)."""
        if self.problem.slots.n_sites == 0:
            return self.first_pass
        model, kernel = self.problem[:2]
        self.last_evidence = self.driver.log_evidence(
            kernel, model, self.state.sites, self.closing_plan(), self.algorithm.power
        )
        return float(self.last_evidence.value)

    def evidence_with(self, factor: Any) -> float:
        """log Z of another likelihood with the sites as they are."""
        self.refuse_without_sites()
        model, kernel = self.problem[:2]
        if jax.tree.structure(factor) != jax.tree.structure(model.factor):  # type: ignore[operator]
            raise ValueError(f"factor must be of the kind that was fitted, {model.factor!r}; got {factor!r}.")
        model = model._replace(factor=jax.tree.map(jnp.asarray, factor))
        plan = self.closing_plan()
        evidence = self.driver.log_evidence(kernel, model, self.state.sites, plan, self.algorithm.power)
        if evidence.refusal:
            raise ValueError(f"evidence_with has no answer here: {evidence.refusal}")
        return float(evidence.value)

    def refuse_without_sites(self) -> None:
        """The evidence of K = 0 is that of its first pass; no sites are left of it."""
        if self.problem.slots.n_sites == 0:
            raise ValueError(
                "ADF remembers no sites, so that nothing can be asked of its evidence or fixed point afterwards. Fit "
                "with cavity.ep() or aep()."
            )

    def gradient(self) -> tuple[Any, Any]:
        """d log Z with respect to factor and prior, in the user's coordinates."""
        model, kernel, slots, _, lift, (prior, data) = self.problem[:6]
        self.refuse_without_sites()
        whole = [leaf.dtype for leaf in jax.tree.leaves((model.factor, prior)) if leaf.dtype.kind != "f"]
        if whole:
            raise ValueError(f"factor and prior must hold floating-point numbers for a gradient; got {whole[0]}.")
        sites = self.state.sites
        if lift is not None:
            model = model._replace(prior=jax.tree.map(jnp.asarray, prior), data=jax.tree.map(jnp.asarray, data))
            sites = sites if slots.own else jax.vmap(lift)(sites)
        power = self.algorithm.power
        # with a site of its own for each datum log Z is stationary in them, unless a cavity keeps a part of the site
        stationary = power == 0 or (slots.own and bool(np.all(self.problem.weight >= 1)))
        gradient, error = evidence_of.gradient(kernel, model, sites, on_device(self.closing_plan()), power, stationary)
        if not error < SOLVED:
            message = (
                f"The gradient of log Z is good to {float(error):.1g} only: its linear system was not solved. The "
                "sites are probably not at a fixed point; fit with a smaller tol, or with cavity.ep()."
            )
            warn(message, ConvergenceWarning)
        return gradient

    def response(self, expectations: Any) -> Any:
        """The linear response of q, in the user's coordinates."""
        self.refuse_without_sites()
        if not self.driver.on_device:
            raise ValueError("linear_response must be asked of a fit to dense rows, not to sparse ones or blocks.")
        prior, data = (jax.tree.map(jnp.asarray, part) for part in self.problem.given)
        q = jax.tree.map(jnp.asarray, self.in_user_coordinates(self.state.q))
        model = self.problem.model._replace(prior=prior, data=data)
        return respond(model, q, self.algorithm.power, expectations)

    def result(self, ending: str) -> Result:
        """What the user gets, with warnings for what went wrong on the way."""
        history = History.of(self.sweeps)
        posterior = self.in_user_coordinates(self.state.q)
        if not bool(posterior.is_proper()):  # q itself always is: only the way back can lose it
            raise ValueError(
                "data must be rescaled: the precisions of the posterior span more than the sixteen digits of float64. "
                "Standardise the columns of X, or use a prior variance nearer to the scale of the data."
            )
        log_evidence = self.log_evidence() if self.evidence else float("nan")
        for category, message in complaints(history, self.problem, ending, self.tol, self.last_evidence):
            if category is not CollapseWarning or not self.driver.repeats:
                warn(message, category)
        report = self.driver.report()
        if report is not None and report.complaint:
            warn(report.complaint, ConvergenceWarning)
        n_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(self.state.sites)) if self.problem.slots.n_sites else 0
        return Result(
            posterior=posterior,
            converged=ending == "converged",
            n_sweeps=len(self.sweeps),
            n_skipped=int(history.skipped.sum()),
            history=history,
            log_evidence=log_evidence,
            site_bytes=n_bytes,
            n_sites=self.problem.slots.n_sites,
            groups=None if self.algorithm.groups is None else self.problem.groups(),
            sharing_error=self.sharing_error,
            sampling=report.values if report is not None else None,
            _ending=ending,
            _earlier=self.earlier,
            _sites=self.state.sites,
            _gradient=self.gradient,
            _evidence_with=self.evidence_with,
            _response=self.response,
        )


def shapes_of(sites: Any) -> Any:
    """The structure of sites and the shape of every leaf."""
    return jax.tree.structure(sites), [leaf.shape for leaf in jax.tree.leaves(sites)]
