"""What a sweep did to q."""

from typing import Any, NamedTuple

import jax
from jax import Array

from cavity.families.base import dot


class Moved(NamedTuple):
    """How far q is from a reference, its entropy, whether this sweep took back some of the last, and if q is proper."""

    distance: float
    entropy: float
    turned: bool
    proper: bool


@jax.jit
def distance_of(new: Any, reference: Any) -> Array:
    """How far q is from a reference, in posterior standard deviations."""
    return new.distance(reference)


@jax.jit
def entropy_of(q: Any) -> tuple[Array, Array]:
    """The entropy of q, and whether q is proper."""
    return q.entropy(), q.is_proper()


@jax.jit
def along(new: Any, old: Any, q: Any) -> Array:
    """⟨η − η', E_q[T]⟩. From one q to another its sign says whether two moves point against each other."""
    return dot(new - old, q.moments())


def measure(reference: Any, before: Any, old: Any, new: Any) -> Moved:
    """What the sweep from `old` to `new` did, after one from `before` to `old`.

    One program after the other: together they would hold a dozen matrices of the size of q's precision.
    """
    distance = float(distance_of(new, reference))
    entropy, proper = map(float, entropy_of(new))
    turned = float(along(new, old, old)) < float(along(new, old, before))
    return Moved(distance, entropy, turned, bool(proper))
