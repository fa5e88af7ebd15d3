"""How loops are compiled by Numba: which liberties the arithmetic has, and what is inlined."""

from numba import njit

FAST = {"contract", "reassoc", "nsz", "arcp"}  # sums in any order; NaN and infinity keep their meaning
compiled = njit(fastmath=FAST, error_model="numpy", nogil=True, cache=True)
inlined = njit(fastmath=FAST, error_model="numpy", nogil=True, inline="always")
straight = njit(fastmath={"contract", "nsz"}, error_model="numpy", nogil=True, cache=True)  # sums as they are written
