"""What a relative error costs in nats, without cancellation: the terms that divergences of families are sums of.

Written for arrays of NumPy and of JAX alike.
"""

from typing import Any

from cavity._array import namespace


def gap(step: Any) -> Any:
    """δ − log(1 + δ) ≥ 0, the price of a relative error δ; its series where the difference would cancel."""
    xp = namespace(step)
    small = xp.abs(step) < 1e-2
    inner = xp.where(small, step, 0.0)
    series = inner * horner([(-1) ** k / k for k in range(2, 11)], inner)
    outer = xp.where(small, 1.0, step)
    return xp.where(small, series, outer - xp.log1p(outer))


def triangle_gap(root: Any) -> Any:
    """tr(CCᵀ − I) − log |CCᵀ| ≥ 0 of lower triangular C, one number per matrix.

    A sum of positive terms, all of them small where C is nearly I.
    """
    xp = namespace(root)
    diagonal = xp.diagonal(root, axis1=-2, axis2=-1)
    near = diagonal > 0.5
    inner, outer = xp.where(near, diagonal, 1.0), xp.where(near, 1.0, diagonal)
    on = xp.where(near, gap((inner - 1) * (inner + 1)), outer**2 - 1 - 2 * xp.log(outer))
    return xp.sum(on, axis=-1) + xp.sum(xp.tril(root, -1) ** 2, axis=(-2, -1))


def horner(coefficients: list[float], x: Any) -> Any:
    """c₁ x + c₂ x² + …"""
    total = namespace(x).zeros_like(x)
    for c in reversed(coefficients):
        total = (total + c) * x
    return total
