"""What the other rows say about each: EP's cavities, at no more than the cost of a few one-dimensional updates."""

from typing import Any

import jax

from cavity.factors.glm.line import Line, ask, without

SWEEPS = 50


@jax.jit
def own_cavities(likelihood: Any, y: Any, mean: Any, variance: Any, weight: Any) -> tuple[Any, Any]:
    """Mean and variance of every activation without its row, from those under q.

    A row's own site is the one that its tilted distribution asks for in the cavity it leaves; sites that were tied
    while q was learned are not needed.
    """
    present = jax.numpy.minimum(weight, 1.0)

    def one(y: Any, m: Any, v: Any, present: Any) -> tuple[Any, Any]:
        def refine(_: Any, site: Line) -> Line:
            asked = ask(likelihood, y, *without(site, m, v, present), 1.0)
            half = lambda old, new: 0.5 * (old + new)
            return Line(half(site.shift, asked.site.shift), half(site.precision, asked.site.precision))

        site = jax.lax.fori_loop(0, SWEEPS, refine, Line(0.0 * m, 0.0 * m))
        return without(site, m, v, present)[:2]

    return jax.vmap(one)(y, mean, variance, present)
