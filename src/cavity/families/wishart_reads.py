"""What a Wishart is asked, from its degrees of freedom and the Cholesky factor of its rate: of many at once.

Written for arrays of NumPy and of JAX alike.
"""

import math

import numpy as np

from cavity import linalg
from cavity._array import Array, namespace
from cavity.families.stirling import stirling_bregman, triangle_gap, trigamma, wishart_bregman, wishart_excess
from cavity.special import log_gamma


def wishart_log_partition(df: Array, chol: Array) -> Array:
    """(νD/2) log 2 + log Γ_D(ν/2) − (ν/2) log |R|, one number per copy, from R = L Lᵀ."""
    dim = chol.shape[-1]
    log_gammas = log_gamma(halves(df, dim)).sum(-1) + dim * (dim - 1) / 4 * math.log(math.pi)
    return log_gammas + 0.5 * df * (dim * math.log(2.0) - linalg.logdet(chol))


def mean_logdet(df: Array, chol: Array) -> Array:
    """E[log |W|] = Σ_{i<D} ψ((ν − i)/2) + D log 2 − log |R|, relative to log |E[W]| = D log ν − log |R|."""
    dim = chol.shape[-1]
    return dim * namespace(df, chol).log(df) - linalg.logdet(chol) - wishart_excess(0.5 * (df - dim + 1), dim)


def mean_logdet_slope(df: Array, dim: int) -> Array:
    """dE[log |W|]/dν = ½ Σ_{i<D} ψ′((ν − i)/2)."""
    return 0.5 * trigamma(halves(df, dim)).sum(-1)


def wishart_kls(df: Array, chol: Array, df_other: Array, chol_other: Array) -> Array:
    """KL between Wisharts with rates R = L Lᵀ, one number per copy.

    ½ν' [tr M − D − log |M|] with M = (ν/ν') L⁻¹R'L⁻ᵀ, the ratio of their means, and what the log-gammas leave: no term
    is of the order of ν, as those of A(η) are.
    """
    xp, dim = namespace(df, df_other, chol), chol.shape[-1]
    ratio = xp.sqrt(df / df_other)[..., None, None] * linalg.solve_triangular(chol, chol_other)
    rest = stirling_bregman(halves(df, dim), halves(df_other, dim)).sum(-1)
    return 0.5 * df_other * triangle_gap(ratio) + wishart_bregman(df, df_other, dim) + rest


def wishart_draw(key: Array, df: Array, chol: Array) -> Array:
    """L⁻ᵀ B Bᵀ L⁻¹, with B lower triangular by Bartlett: χ on the diagonal, normal below."""
    import jax
    import jax.numpy as jnp

    dim = chol.shape[-1]
    key_diagonal, key_below = jax.random.split(key)
    log_chi2 = jnp.log(2.0) + jax.random.loggamma(key_diagonal, halves(df, dim), dtype=float)
    below = jnp.tril(jax.random.normal(key_below, chol.shape, dtype=float), -1)
    bartlett = below + jnp.exp(0.5 * log_chi2)[..., None] * jnp.eye(dim)
    root = linalg.solve_triangular(chol, bartlett, transposed=True)
    return root @ jnp.swapaxes(root, -1, -2)


def halves(df: Array, dim: int) -> Array:
    """(ν − i)/2 for i < D, on a last axis."""
    return 0.5 * (df[..., None] - np.arange(dim))
