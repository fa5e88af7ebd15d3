"""Weights N(0, 1/λ) with an unknown precision λ: one factor for each weight, refined by EP.

Factors act on their own weight and on λ, and are visited one after another, so that each sees what the others have
said of λ. The prior of a network, λ₀ in equation (1), is the sum of their sites and of what is believed of λ.
"""

from typing import Any, NamedTuple

from cavity._lazy import jax, jitted, jnp
from cavity.factors.networks import gamma_noise
from cavity.families import DiagonalGaussian, Gamma

WIDEST = 1e6  # a cavity of larger variance says nothing about λ
LEAST_SHARE = 0.1  # of a weight's precision that is left without a datum, or with it: less, and it is left alone


class Refined(NamedTuple):
    """Weights, their precision, and the sites of the prior factors, one per weight."""

    weights: DiagonalGaussian
    precision: Gamma
    of_weights: DiagonalGaussian
    of_precision: Gamma


@jitted
def refine(now: Refined) -> Refined:
    """One round of EP over the factors of all weights."""

    def visit(precision: Gamma, datum: Any) -> tuple[Gamma, Any]:
        weight, site, share = datum
        cavity, others = weight - site, precision - share
        good = (cavity.precision > 1 / WIDEST) & (others.shape > 1) & (others.rate > 0)
        safe = lambda yes, no: jax.tree.map(lambda a, b: jnp.where(good, a, b), yes, no)
        one: Any = 1.0
        cavity, others = safe(cavity, DiagonalGaussian(0 * one, one)), safe(others, Gamma(2 * one, one))
        new, own = one_site(cavity, others)
        new, own = safe(new, site), safe(own, share)
        return precision - share + own, (weight - site + new, new, own)

    data = now.weights, now.of_weights, now.of_precision
    precision, (weights, of_weights, of_precision) = jax.lax.scan(visit, now.precision, data)
    return Refined(weights, precision, of_weights, of_precision)


def one_site(cavity: DiagonalGaussian, others: Gamma) -> tuple[DiagonalGaussian, Gamma]:
    """The sites of N(w; 0, 1/λ) from the cavities of w and λ: for w it is a Gaussian of λ's mean variance."""
    mean, variance = cavity.shift / cavity.precision, 1 / cavity.precision
    of_weight = DiagonalGaussian(0.0 * mean, 0.0 * mean + (others.shape - 1) / others.rate)
    return of_weight, gamma_noise.site(mean, variance, others, 1.0)
