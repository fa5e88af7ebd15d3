"""The guard of every update: a step is halved until q stays proper. On the host and inside compiled programs."""

from typing import Any

from cavity import _tree as tree
from cavity._array import is_jax

MAX_HALVINGS = 40


def proper_rate(q: Any, move: Any, rate: Any) -> tuple[Any, Any]:
    """The largest of rate, rate/2, rate/4, … that keeps q + rate · move proper (0 if none), and whether it was cut."""
    if is_jax(rate, *tree.leaves(q), *tree.leaves(move)):
        return _inside_a_program(q, move, rate)
    for cuts in range(MAX_HALVINGS + 1):
        scale = 0.5**cuts * rate
        if bool((q + scale * move).is_proper()):
            return scale, cuts > 0
    return 0.0, True


def _inside_a_program(q: Any, move: Any, rate: Any) -> tuple[Any, Any]:
    """The halvings as a loop of JAX, which has no reverse derivative and needs none."""
    import jax
    import jax.numpy as jnp

    q, move = jax.lax.stop_gradient((q, move))
    ok = lambda scale: (q + scale * move).is_proper()
    rate = jnp.asarray(rate, dtype=float)

    def halve(carry: Any) -> Any:
        scale, _, tries = carry
        return 0.5 * scale, ok(0.5 * scale), tries + 1

    searching = lambda carry: ~carry[1] & (carry[2] < MAX_HALVINGS)
    scale, found, tries = jax.lax.while_loop(searching, halve, (rate, ok(rate), 0))
    return jnp.where(found, scale, 0.0), jnp.asarray(tries > 0)


def proper_rate_unless(safe: Any, q: Any, move: Any, rate: Any) -> tuple[Any, Any]:
    """`proper_rate`, without a look at q where the step is known to be safe."""
    if is_jax(safe):
        import jax
        import jax.numpy as jnp

        rate = jnp.asarray(rate, dtype=float)
        return jax.lax.cond(safe, lambda: (rate, jnp.asarray(False)), lambda: proper_rate(q, move, rate))
    return (rate, False) if safe else proper_rate(q, move, rate)
