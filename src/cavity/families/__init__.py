"""Exponential families: an instance is its natural parameter."""

from cavity.families.base import ExpFamily
from cavity.families.gaussian import Gaussian

__all__ = ["ExpFamily", "Gaussian"]
