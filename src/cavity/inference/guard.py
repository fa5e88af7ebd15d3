"""The guard of every update: a step is halved until q stays proper. On the host and inside compiled programs."""

from typing import Any

from cavity import _tree as tree
from cavity._array import Array, is_jax, namespace
from cavity.inference.contract import Family
from cavity.inference.measure import reads_of

MAX_HALVINGS = 40


def advance(q: Family, move: Family, rate: Array, safe: Any = False) -> tuple[Any, Any, Any]:
    """q + ε · move with the largest ε of rate, rate/2, rate/4, … that keeps q proper; also ε, and whether it was cut.

    Where no such ε is found it is 0. A step that is known to be safe is not looked at.
    """
    if is_jax(rate, safe, *tree.leaves(q), *tree.leaves(move)):
        rate, cut = traced_rate(q, move, rate, safe)
        # no step at all is no step towards what is not a number
        stay = lambda new, old: namespace(new).where(rate > 0, new, old)
        return tree.map(stay, q + rate * move, q), rate, cut
    for cuts in range(MAX_HALVINGS + 1):
        scale = 0.5**cuts * rate
        there = q + scale * move
        if safe or bool(reads_of(there).is_proper(there)):
            return there, scale, cuts > 0
    return q, 0.0, True


def traced_rate(q: Family, move: Family, rate: Array, safe: Any) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    rate = jnp.asarray(rate, dtype=float)
    search = lambda: halve_until_proper(q, move, rate)
    if safe is False:
        return search()
    return jax.lax.cond(safe, lambda: (rate, jnp.asarray(False)), search)


def halve_until_proper(q: Family, move: Family, rate: Array) -> tuple[Any, Any]:
    """The halvings as a loop of JAX, which has no reverse derivative and needs none."""
    import jax
    import jax.numpy as jnp

    q, move = jax.lax.stop_gradient((q, move))
    ok = lambda scale: (q + scale * move).is_proper()

    def halve(carry: Any) -> Any:
        scale, _, tries = carry
        return 0.5 * scale, ok(0.5 * scale), tries + 1

    searching = lambda carry: ~carry[1] & (carry[2] < MAX_HALVINGS)
    scale, found, tries = jax.lax.while_loop(searching, halve, (rate, ok(rate), 0))
    return jnp.where(found, scale, 0.0), jnp.asarray(tries > 0)
