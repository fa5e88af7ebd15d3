"""One-dimensional Gaussian expectations: for many rows on the host, for one row under JAX (`adaptive`)."""

from cavity.quadrature.kernel import Kernel
from cavity.quadrature.rows import tilts
from cavity.quadrature.tilted import Tilt

__all__ = ["Kernel", "Tilt", "tilts"]
