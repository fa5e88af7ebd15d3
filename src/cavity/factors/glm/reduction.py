"""The N × N form: with fewer rows than features, the data speak about N directions only.

Write the prior as θ = C⁻ᵀ w with w ~ N(w₀, I), where C Cᵀ is its precision, and factorise (X C⁻ᵀ)ᵀ = Q R. The
activations are X θ = Rᵀ φ with φ = Qᵀ w in N dimensions. Every site lies in that subspace, whatever the algorithm, so
the problem with features Rᵀ and prior φ ~ N(Qᵀ w₀, I) is the same problem, and a site lifts back as
(C Q s, C Q P Qᵀ Cᵀ): equation (45) of docs/mathematics.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity import linalg
from cavity.factors.glm.rows import times


def to_row_space(prior: Any, features: Any) -> tuple[Any, Any, Callable[[Any], Any]]:
    """Prior and features in N dimensions, and the map that lifts a site back to the user's coordinates."""
    chol = linalg.cholesky(prior.precision)
    root = linalg.inverse_transpose(chol)
    basis, triangle = np.linalg.qr(times(features, root).T)
    start = basis.T @ (root.T @ prior.shift)  # w₀ = Cᵀ μ₀ = C⁻¹ s₀
    reduced = type(prior)(start, np.eye(len(start)))
    axes = chol @ basis

    def lift(site: Any) -> Any:
        return type(prior)(axes @ site.shift, linalg.symmetric(axes @ site.precision @ axes.T))

    return reduced, np.ascontiguousarray(triangle.T), lift
