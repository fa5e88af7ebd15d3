"""Sums over blocks: what a block asks for is found outside of compiled programs, by draws or by a fit of its own.

A chunk is some blocks. They are asked, and their answers are judged as any other row's: an improper cavity or tilted
distribution gives no move, and is counted. What is learned of a block on the way (step sizes, sites of inner fits) is
kept beside it, and goes in and out as a value.
"""

import abc
from typing import Any, NamedTuple

import numpy as np

from cavity import _tree as tree
from cavity._precision import to_numpy
from cavity.inference import memory
from cavity.inference.contract import Found, Programs, Report, Rows, Setting, Sums, Terms, View
from cavity.inference.measure import reads_of
from cavity.inference.sweep import empty_state
from cavity.inference.update import State

AT_ONCE = 32  # blocks


class Answer(NamedTuple):
    """What blocks ask for: leaves have a row for each."""

    site: Any  # λ̂, or where own sites are not found, a part of the way there
    log_mean: Any  # ℓ_α(c)
    unsettled: Any = None  # whether an answer was found by a fit that did not converge, where fits find them


class Question(NamedTuple):
    """What some blocks are asked: leaves of cavities and sites have a row for each."""

    q: Any
    cavity: Any
    site: Any
    rows: Rows
    setting: Setting
    aside: int | None = None  # the number of a question for the evidence, of which no trace is kept


class Asking(abc.ABC):
    """How the blocks of a fit are asked."""

    no_own_sites: str | None = None  # where answers are not the blocks' own sites: why not, and what to do about it

    @abc.abstractmethod
    def beside(self, n_blocks: int) -> Any:
        """What is kept with each block, before the first visit."""

    @abc.abstractmethod
    def ask(self, question: Question) -> tuple[Answer, Any]:
        """The answers of some blocks, and what to keep beside them."""

    @abc.abstractmethod
    def with_factor(self, factor: Any) -> "Asking":
        """How the blocks of another factor of the same kind are asked."""

    def end_sweep(self, state: State) -> State:
        """What is learned from a whole sweep."""
        return state

    def report(self, state: State) -> Report:
        """What there is to say at the end of a fit."""
        return Report()


class OfBlocks(Sums):
    """Blocks whose answers are found outside of compiled programs."""

    chunk = AT_ONCE
    asks_for_numbers = True  # draws have keys by block

    def __init__(self, asking: Asking, prior: Any) -> None:
        self.asking, self.prior = asking, prior

    def begin(self, prior: Any, slots: Any, sizes: list[int], seed: int) -> State:
        state = empty_state(prior, slots, sizes, tree.map(np.zeros_like, prior))
        return state._replace(beside=[self.asking.beside(size) for size in sizes])

    def own_site(self) -> Any:
        return tree.map(np.zeros_like, self.prior)

    def total(self, rows: Rows) -> Any:
        return tree.map(lambda leaf: np.tensordot(rows.weight, leaf, 1), rows.sites)

    def estimates(self, view: View, rows: Rows, setting: Setting) -> Found:
        sites, present = memory.sites_seen(view, rows)
        cavity, proper = cavities(view.q, sites, present, setting.power)
        answer, beside = self.asking.ask(Question(view.q, cavity, sites, rows, setting))
        found = judged(cavity, proper, sites, answer, rows.weight, setting.power)
        if rows.sites is None and view.site is not None:
            found = found._replace(total=found.total + found.weight * view.site, change=None)
        return found._replace(beside=beside, change=found.change if rows.sites is not None else None)

    def terms(self, view: View, rows: Rows, setting: Setting) -> Terms:
        own, unsettled = rows.sites, np.zeros(len(rows.weight), dtype=bool)
        if own is None:
            sites, present = memory.sites_seen(view, rows)
            cavity, proper = cavities(view.q, sites, present, setting.power)
            answer, _ = self.asking.ask(Question(view.q, cavity, sites, rows, setting, aside=0))
            unsettled |= False if answer.unsettled is None else answer.unsettled
            own = tree.map(lambda leaf: np.where(memory.lifted(proper, leaf), leaf, np.nan), answer.site)
        cavity, proper = cavities(view.q, own, memory.present(rows.weight), setting.power)
        answer, _ = self.asking.ask(Question(view.q, cavity, own, rows, setting, aside=1))
        unsettled |= False if answer.unsettled is None else answer.unsettled
        terms = closing(cavity, proper, own, answer.log_mean, rows.weight, setting.power)
        return terms._replace(unsettled=float(np.sum(unsettled)))

    def errors(self, view: View, rows: Rows, draws: Any, setting: Setting) -> np.ndarray:
        raise ValueError("groups must be an array of labels, or 'random', for data in blocks; got groups='auto'.")

    def programs(self) -> Programs:
        raise ValueError(
            "groups must be an array of labels, or 'random', for data in blocks, and their evidence has no gradient "
            "and no linear response: what a block asks for is not a JAX function."
        )

    def with_factor(self, factor: Any) -> "OfBlocks":
        return OfBlocks(self.asking.with_factor(factor), self.prior)

    def no_evidence(self, slots: Any) -> str | None:
        return None if slots.own else self.asking.no_own_sites

    def end_sweep(self, state: State, info: Any) -> State:
        return self.asking.end_sweep(state)

    def report(self, state: State) -> Report:
        return self.asking.report(state)


def cavities(q: Any, sites: Any, present: np.ndarray, power: float) -> tuple[Any, np.ndarray]:
    """c = q − α λ for each site, q itself where that is improper, and whether it was proper."""
    each, proper = [], []
    for i in range(len(present)):
        cavity = q - (power * present[i]) * member(sites, i)
        proper.append(is_proper(cavity))
        each.append(cavity if proper[-1] else q)
    return stacked(each), np.array(proper)


def judged(cavity: Any, proper: np.ndarray, sites: Any, answer: Answer, weight: np.ndarray, power: float) -> Found:
    """Σ w (λ̂ − λ) over blocks whose cavity, answer and tilted distribution are proper, and the change of each."""
    changes, total, used, log_scale, skipped = [], 0.0 * member(cavity, 0), 0.0, 0.0, 0
    for i, w in enumerate(weight):
        c, site, estimate = member(cavity, i), member(sites, i), member(answer.site, i)
        finite = all(np.all(np.isfinite(leaf)) for leaf in tree.leaves((estimate, answer.log_mean[i])))
        valid = bool(proper[i]) and finite and is_proper(c + power * estimate)
        changes.append(estimate - site if valid else 0.0 * c)
        skipped += not valid and w > 0
        if valid:
            total, used = total + w * changes[-1], used + w
            log_scale += w * (float(answer.log_mean[i]) - log_mean_of_site(c, estimate, power))
    return Found(total, used, skipped, log_scale, False, stacked(changes))


def closing(cavity: Any, proper: np.ndarray, own: Any, log_mean: np.ndarray, weight: np.ndarray, power: float) -> Terms:
    """What blocks add to the closing evidence."""
    total, value, left_out = 0.0 * member(cavity, 0), 0.0, 0
    for i, w in enumerate(weight):
        c, site = member(cavity, i), member(own, i)
        term = float(log_mean[i]) - log_mean_of_site(c, site, power)
        if proper[i] and np.isfinite(term) and all(np.all(np.isfinite(leaf)) for leaf in tree.leaves(site)):
            total, value = total + w * site, value + w * term
        else:
            left_out += 1
    return Terms(total, value, float(left_out))


def log_mean_of_site(cavity: Any, site: Any, power: float) -> float:
    """(1/α) log E_c[site^α], and its limit at power 0."""
    reads = reads_of(cavity)
    if power == 0:
        return float(reads.rise(cavity, cavity + site))
    return (float(reads.log_partition(cavity + power * site)) - float(reads.log_partition(cavity))) / power


def is_proper(q: Any) -> bool:
    return bool(reads_of(q).is_proper(q))


def member(stack: Any, number: int) -> Any:
    """One of a stack."""
    return tree.map(lambda leaf: leaf[number], stack)


def stacked(members: list[Any]) -> Any:
    """A stack of members, in NumPy."""
    return to_numpy(tree.map(lambda *leaves: np.stack(leaves), *members))
