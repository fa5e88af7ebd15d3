"""Bayesian learning by expectation propagation at any data size."""

from cavity.families import Gaussian

__all__ = ["Gaussian"]
