"""Loops of networks, compiled by Numba."""
