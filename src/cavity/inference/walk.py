"""The walk: a sweep over the batches of a source, each judged in chunks from one q.

    for batch in order(source):
        for rows in chunks(batch):
            found = found + sums.estimates(view of q and site, rows)
        state = update(state, found, rate, counts)

Memory, threads and, later, disks and machines differ in who runs the inner loop, and in nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from cavity import _tree as tree
from cavity._array import Array
from cavity.inference import memory
from cavity.inference.contract import Found, Rows, Setting, Sites, Terms, Tree
from cavity.inference.order import Plan
from cavity.inference.problem import Problem
from cavity.inference.source import pieces
from cavity.inference.threads import Threads, one_blas_thread
from cavity.inference.update import NOTHING, Info, State, update, update_own

Which = Any  # rows of a part: a slice, or an array of their numbers


class Walk:
    """The rows of a problem, and the threads that sum them."""

    def __init__(self, problem: Problem, threads: Threads) -> None:
        self.problem, self.sums, self.threads = problem, problem.sums, threads
        self.slots = problem.slots

    # -- reading -------------------------------------------------------------------------------------------------

    def rows(self, number: int, state: State | None = None) -> Rows:
        """All rows of a part, with what is kept beside them."""
        part, weight = self.problem.source.parts[number], self.problem.weight
        every = np.broadcast_to(1.0, part.n_rows) if weight is None else weight[number]  # a view of one number
        sites = state.sites[number] if state is not None and self.slots.own else None
        beside = None if state is None or state.beside is None else state.beside[number]
        begin = sum(part.n_rows for part in self.problem.source.parts[:number])
        numbers = np.arange(begin, begin + part.n_rows) if self.sums.asks_for_numbers else None
        return Rows(part.read(), every, sites, numbers, beside)

    def over_chunks(self, function: Callable[[Rows], Any], rows: Rows, which: Which = slice(None)) -> Iterator[Any]:
        """A function of every chunk of some rows, in their order."""
        bounds = pieces(which, len(rows.weight), self.sums.chunk)
        yield from self.over_pieces(lambda piece: function(chosen(rows, piece)), bounds)

    def over_pieces(self, function: Callable[[Any], Any], bounds: list[Any]) -> Iterator[Any]:
        """A function of the bounds of every chunk, in threads where sums may be formed there."""
        if not self.sums.in_threads or len(bounds) == 1:
            yield from map(function, bounds)
            return
        with one_blas_thread():
            yield from self.threads.map(function, bounds)

    def chunks(self, size: int) -> Iterator[Rows]:
        """All rows, so many at a time."""
        for number in range(len(self.problem.source.parts)):
            rows = self.rows(number)
            yield from (chosen(rows, piece) for piece in pieces(slice(None), len(rows.weight), size))

    def estimates(self, view: Any, rows: Rows, which: Which, setting: Setting) -> Found:
        """What some rows of a part ask for together."""
        return joined(self.over_chunks(lambda chunk: self.sums.estimates(view, chunk, setting), rows, which))

    def view(self, state: State, slot: int, power: float, n_rows: int | None = None) -> Any:
        """What rows of a slot see of q, so many of them: all, unless said otherwise."""
        n_rows = self.problem.n_rows if n_rows is None else n_rows
        if self.slots.own or self.slots.nowhere:
            return self.sums.view(state.q, None, 1.0, power, n_rows)
        site = tree.map(lambda stack: stack[slot], state.sites)
        return self.sums.view(state.q, site, float(memory.present(self.slots.counts[slot])), power, n_rows)

    # -- sweeping ------------------------------------------------------------------------------------------------

    def all_at_once(self, state: State, rate: float, setting: Setting, near: Any = None) -> tuple[State, Info]:
        """One batch of all rows: every slot is judged from the same q, and there is one update.

        Rows may see a q that is `near` the end instead of that of the state.
        """
        seen = state if near is None else state._replace(q=near)
        if self.slots.own:
            return self.own_at_once(state, rate, setting, seen)
        found = []
        for slot in self.slots.visited():
            view = self.view(seen, slot, setting.power)
            found.append(joined(self.of_parts(state, slot, view, setting)))
        state, info = self.updated(state, np.array(self.slots.visited()), stacked(found), rate)
        return state, info._replace(response=sum(response_of(each) for each in found))

    def of_parts(self, state: State, slot: int, view: Any, setting: Setting) -> Iterator[Found]:
        """What the rows of a slot ask for, a part after the other."""
        for number in range(len(self.problem.source.parts)):
            which = self.slots.rows_of(slot, number)
            if isinstance(which, slice) or len(which):
                found = self.estimates(view, self.rows(number, state), which, setting)
                keep_beside(state, number, which, found)
                yield found._replace(beside=None)

    def own_at_once(self, state: State, rate: float, setting: Setting, seen: State) -> tuple[State, Info]:
        """One batch of all rows, with sites of their own: proposed, guarded as a whole, and then kept."""
        view, parts = self.view(seen, 0, setting.power), range(len(self.problem.source.parts))
        proposed = tree.map(np.empty_like, state.sites)
        found = [self.proposals(view, self.rows(p, state), slice(None), setting, rate, proposed[p]) for p in parts]
        total = joined(each._replace(beside=None) for each in found)
        q, made, cut = update_own(state.q, total, rate)
        if cut:
            tree.map(partial(shorten, made / rate), proposed, state.sites)
        for number, each in enumerate(found):
            keep_beside(state, number, slice(None), each)
        if not self.sums.copies_sites:
            tree.map(np.copyto, state.sites, proposed)
            proposed = state.sites
        return state._replace(q=q, sites=proposed), info_of(total, cut)._replace(response=response_of(total))

    def proposals(self, view: Any, rows: Rows, which: Which, setting: Setting, rate: float, room: Sites) -> Found:
        """What rows with sites of their own ask for together; the sites that a step of this rate leads to in `room`."""

        def of_places(places: slice) -> Found:
            chunk = chosen(rows, places if isinstance(which, slice) else which[places])
            found = self.sums.estimates(view, chunk, setting)
            tree.map(partial(step_into, rate, places), room, chunk.sites, found.change)
            return found._replace(change=None)

        return joined(self.over_pieces(of_places, self.places(tree.leaves(room)[0])))

    def places(self, stack: np.ndarray) -> list[Any]:
        """Chunks of the members of a stack."""
        return pieces(slice(None), len(stack), self.sums.chunk)

    def put(self, sites: Sites, which: np.ndarray, members: Sites) -> None:
        """Put members of a stack in the places of these rows."""

        def put(places: slice) -> None:
            tree.map(lambda stack, leaf: stack.__setitem__(which[places], leaf[places]), sites, members)

        for _ in self.over_pieces(put, self.places(which)):
            pass

    def updated(self, state: State, slot: np.ndarray, found: Found, rate: Array) -> tuple[State, Info]:
        """The update by what the rows of some slots ask for."""
        state, cut = update(state, slot, found, rate, self.slots.counts)
        return state, info_of(found, cut)

    def in_batches(
        self, state: State, number: int, plan: Plan, rates: np.ndarray, setting: Setting
    ) -> tuple[State, Info]:
        """The batches of a part in their order: in a way of the factor's own, or one by one."""
        rows = self.rows(number, state)
        done = self.sums.visits(state, rows, plan, rates, self.slots.counts, setting)
        if done is not None:
            return done
        total = NOTHING
        for which, slot, rate in zip(plan.rows, plan.slot, rates, strict=True):
            which = which[which < len(rows.weight)]
            step = self.own_step if self.slots.own else self.shared_step
            state, info = step(state, number, rows, which, int(slot), float(rate), setting)
            total = total + info
        return state, total

    def shared_step(
        self, state: State, number: int, rows: Rows, which: Which, slot: int, rate: float, setting: Setting
    ) -> tuple[State, Info]:
        """A batch whose rows share a site, or are remembered nowhere."""
        found = self.estimates(self.view(state, slot, setting.power, len(which)), rows, which, setting)
        keep_beside(state, number, which, found)
        return self.updated(state, np.array([slot]), stacked([found]), rate)

    def own_step(
        self, state: State, number: int, rows: Rows, which: Which, slot: int, rate: float, setting: Setting
    ) -> tuple[State, Info]:
        """A batch whose rows have sites of their own."""
        view, n = self.view(state, slot, setting.power, len(which)), len(which)
        proposed = tree.map(lambda stack: np.empty((n, *stack.shape[1:]), stack.dtype), rows.sites)
        found = self.proposals(view, rows, which, setting, rate, proposed)
        q, made, cut = update_own(state.q, found, rate)
        if cut:
            tree.map(partial(shorten, made / rate), proposed, chosen(rows, which).sites)
        self.put(rows.sites, which, proposed)
        keep_beside(state, number, which, found)
        return state._replace(q=q), info_of(found, cut)

    def at(self, state: State, sites: Sites) -> State:
        """The state with these sites, and q made up of them: equation (1)."""
        return state._replace(q=state.prior + self.total(sites), sites=sites)

    # -- other folds ---------------------------------------------------------------------------------------------

    def total(self, sites: Sites) -> Any:
        """Σ_k W_k λ_k, the second term of (1)."""
        if not self.slots.own:
            return memory.total(sites, self.slots.counts)
        parts = (self.rows(number)._replace(sites=stack) for number, stack in enumerate(sites))
        return summed(total for rows in parts for total in self.over_chunks(self.sums.total, rows))

    def terms(self, state: State, setting: Setting) -> Terms:
        """The sums in the closing evidence (26)."""

        def of_chunks() -> Iterator[Terms]:
            for slot in self.slots.visited():
                of_chunk = partial(self.terms_of_chunk, self.view(state, slot, setting.power), setting)
                for number in range(len(self.problem.source.parts)):
                    yield from self.over_chunks(of_chunk, self.rows(number, state), self.slots.rows_of(slot, number))

        return summed(of_chunks())

    def terms_of_chunk(self, view: Any, setting: Setting, chunk: Rows) -> Terms:
        return self.sums.terms(view, chunk, setting)

    def errors(self, state: State, draws: Tree, setting: Setting) -> np.ndarray:
        """What sharing one site costs each row, at draws of θ."""
        view = self.view(state, 0, setting.power)
        each: list[np.ndarray] = []
        for number in range(len(self.problem.source.parts)):
            each.extend(
                self.over_chunks(lambda chunk: self.sums.errors(view, chunk, draws, setting), self.rows(number))
            )
        return np.concatenate(each)


def chosen(rows: Rows, which: Which) -> Rows:
    """Some of the rows."""
    # `take` copies whole rows; a leaf that is no array, as of sparse rows, knows its own way
    by_number = lambda leaf: leaf.take(which, axis=0) if isinstance(leaf, np.ndarray) else leaf[which]
    pick = (lambda leaf: leaf[which]) if isinstance(which, slice) else by_number
    take = lambda part: None if part is None else tree.map(pick, part)
    number = None if rows.number is None else rows.number[which]
    return Rows(take(rows.data), rows.weight[which], take(rows.sites), number, take(rows.beside))


def joined(found: Iterable[Found]) -> Found:
    """What several lots of rows ask for together. The sums of the first are added to in place."""
    lots = iter(found)
    total = next(lots)
    beside = [total.beside]
    for lot in lots:
        total = total._replace(
            total=tree.map(added, total.total, lot.total),
            weight=total.weight + lot.weight,
            skipped=total.skipped + lot.skipped,
            log_scale=total.log_scale + lot.log_scale,
            safe=total.safe & lot.safe,
            value=None if total.value is None else total.value + lot.value,
            response=None if total.response is None else added(total.response, lot.response),
        )
        beside.append(lot.beside)
    if len(beside) == 1:
        return total
    return total._replace(change=None, beside=tree.map(lambda *leaves: np.concatenate(leaves), *beside))


def summed(lots: Iterable[Any]) -> Any:
    """The sum of what chunks give, as they come. Arrays of the first are added to in place."""
    lots = iter(lots)
    total = next(lots)
    for lot in lots:
        total = tree.map(added, total, lot)
    return total


def stacked(found: list[Found]) -> Found:
    """What rows of several slots ask for, on a leading axis; what is not of a slot is not part of it."""
    plain = [each._replace(change=None, beside=None, response=None) for each in found]
    return tree.map(lambda *leaves: np.stack(leaves), *plain)


def info_of(found: Found, cut: Any) -> Info:
    """What a person may want to see."""
    log_scale, value = float(np.sum(found.log_scale)), float("nan") if found.value is None else float(found.value)
    return Info(int(np.sum(found.skipped)), int(cut), log_scale, float("nan"), value)


def response_of(found: Found) -> Any:
    """How what rows ask for answers to where they are judged; zero where that was not asked."""
    return 0.0 if found.response is None else found.response


def keep_beside(state: State, number: int, which: Which, found: Found) -> None:
    """Keep what the factor wants to find with its rows at the next visit."""
    if state.beside is not None:
        tree.map(lambda stack, leaf: stack.__setitem__(which, leaf), state.beside[number], found.beside)


def added(a: Any, b: Any) -> Any:
    """a + b, in the place of a where that is an array."""
    return np.add(a, b, out=a) if isinstance(a, np.ndarray) and a.flags.writeable else a + b


def step_into(rate: float, places: slice, room: np.ndarray, old: np.ndarray, change: np.ndarray) -> None:
    """Where a step of this rate leads, at some places of a stack."""
    np.add(old, change if rate == 1 else rate * change, out=room[places])


def shorten(share: Any, new: np.ndarray, old: np.ndarray) -> None:
    """Take this share of the way from the old to the new, in the place of the new."""
    new[...] = old + share * (new - old) if share > 0 else old
