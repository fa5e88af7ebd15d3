"""How good a posterior is, and how good its predictions are."""

from cavity.diagnostics.importance import ImportanceCheck, importance_check
from cavity.diagnostics.linear import check_posterior
from cavity.diagnostics.plots import plot_calibration, plot_coefficients, plot_convergence, plot_pairs
from cavity.diagnostics.scores import Calibration, Scores, calibration_curve, score
from cavity.diagnostics.second_order import correction, tilted_cumulants
from cavity.diagnostics.verdict import PosteriorCheck

__all__ = [
    "Calibration",
    "ImportanceCheck",
    "PosteriorCheck",
    "Scores",
    "calibration_curve",
    "check_posterior",
    "correction",
    "importance_check",
    "plot_calibration",
    "plot_coefficients",
    "plot_convergence",
    "plot_pairs",
    "score",
    "tilted_cumulants",
]
