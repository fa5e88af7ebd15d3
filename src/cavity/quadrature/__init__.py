"""One-dimensional Gaussian expectations."""

from cavity.quadrature.adaptive import Tilt, log_mean, mode, tilt

__all__ = ["Tilt", "log_mean", "mode", "tilt"]
