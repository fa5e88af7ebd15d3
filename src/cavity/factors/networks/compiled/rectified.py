"""Mean and variance of max(a, 0), a ~ N(m, s²), for compiled loops: four units at a time, without a branch.

The library's exp and erfc take one number at a time, a good part of a small network's step. Here everything is
arithmetic that the compiler makes vector instructions of. With x = |m|/s, the density φ and the tail Φ(−x) = φ M(x),

    M = (P + x Q)/D,    1 − x M = (Q − x P)/D,    (1 + x²) M − x = P (1 + x²)/D,    D = (1 + x²) Q,

are what tail, mean and second moment of max(a, 0) for m < 0 are over φ. P/Q approximates the last, in which most digits
would cancel, to 7e-17 of itself for x from 0 to 40; all coefficients are positive, so the others lose no digits either.
"""

import math
from typing import Any

from numba import types
from numba.extending import intrinsic

from cavity.factors.networks.compiled.arrays import Vector
from cavity.factors.networks.compiled.decorators import straight

DENSITY_AT_ZERO = 1 / math.sqrt(2 * math.pi)
FARTHEST = 40.0  # in standard deviations; beyond, the tail is zero in double precision
LOG2_E = math.log2(math.e)
LOG_2, LOG_2_REST = 0.693147180369123816490, 1.90821492927058770002e-10  # their sum; the first times k is exact
SMALLEST = -708.0  # of an exponent that exp does not take to zero
ROUND = 1.5 * 2.0**52  # added to a number this leaves its nearest integer in the last bits


def bits_as_exponent(_: Any, shifted: Any) -> Any:
    """2^k from the bits of ROUND + 1023 + k: those of k are the exponent's."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        from llvmlite import ir

        whole = ir.IntType(64)
        bits = builder.shl(builder.bitcast(arguments[0], whole), ir.Constant(whole, 52))
        return builder.bitcast(bits, ir.DoubleType())

    return types.float64(types.float64), build


power_of_two: Any = intrinsic(bits_as_exponent)


@straight
def exp(a: float) -> float:
    """e^a for a ≤ 0, zero where it would be below 3e-308: 2^k e^r with |r| ≤ ½ log 2, by a polynomial."""
    k = LOG2_E * max(a, SMALLEST) + ROUND - ROUND
    r = max(a, SMALLEST) - k * LOG_2 - k * LOG_2_REST
    p = 2.763265472252779e-07 + r * 2.5110049204818658e-08
    p = 2.4801485441561313e-05 + r * (2.755724088722987e-06 + r * p)
    p = 0.0013888888952352863 + r * (0.00019841269890076403 + r * p)
    p = 0.04166666666648795 + r * (0.008333333333319589 + r * p)
    p = 0.5000000000000019 + r * (0.1666666666666668 + r * p)
    value = (1.0 + r * (1.0 + r * p)) * power_of_two(k + (ROUND + 1023.0))
    return value if a >= SMALLEST else 0.0


@straight
def ratios(x: float) -> tuple[float, float, float]:
    """M(x), 1 − x M and (1 + x²) M − x, for x from 0 to 40."""
    p = 1.8037855772659227483e-05 + x * 6.1819778013076866252e-07
    p = 0.0025497533937252829302 + x * (0.00026606118417081057483 + x * p)
    p = 0.086453196283100998428 + x * (0.0173362846008794652 + x * p)
    p = 0.82729561872924424496 + x * (0.316703777386444069 + x * p)
    p = 1.2533141373155001634 + x * (1.4178008364425099164 + x * p)
    q = 9.0189278852921722947e-06 + x * 3.0909889006980398556e-07
    q = 0.0013289902570105431088 + x * (0.00013488518553657459934 + x * q)
    q = 0.050794677806643338496 + x * (0.0094635442794193531937 + x * q)
    q = 0.66239462164404350711 + x * (0.20919338825450173016 + x * q)
    q = 2.8299904351412923422 + x * (1.5934621018464067233 + x * q)
    q = 1.0 + x * (2.7270105192965825426 + x * (3.511765582391962535 + x * q))
    square = 1.0 + x * x
    over = 1.0 / (square * q)
    return (p + x * q) * over, (q - x * p) * over, p * square * over


@straight
def rectify(
    n: int, mean: Vector, variance: Vector, out_mean: Vector, out_variance: Vector, above: Vector, density: Vector
) -> None:
    """Mean and variance of max(a, 0) of each of n units, P(a > 0), and the density of a at zero."""
    for j in range(n):
        scale = math.sqrt(variance[j])
        over = 1.0 / scale
        ratio = mean[j] * over
        size = min(abs(ratio), FARTHEST)
        at_zero = DENSITY_AT_ZERO * exp(-0.5 * ratio * ratio)
        tail, excess, square = ratios(size)
        tail, smaller = at_zero * tail, at_zero * excess  # P(a < 0) and E[max(−a, 0)]/s for m > 0
        beyond = at_zero * square - smaller * smaller  # the variance over s² for m < 0
        positive = ratio > 0.0
        out_mean[j] = scale * (smaller + ratio if positive else smaller)
        out_variance[j] = variance[j] * (1.0 - tail - smaller * (smaller + ratio) if positive else beyond)
        above[j] = 1.0 - tail if positive else tail
        density[j] = at_zero * over
