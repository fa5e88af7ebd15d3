"""Pairs of coefficients of a probit regression, by EP and by one pass of ADF: the picture that `plot_pairs` draws."""

from pathlib import Path

from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer

import cavity
from cavity.diagnostics import plot_pairs

FEATURES = ["mean radius", "mean texture", "mean smoothness", "mean concavity"]


def draw(output: Path) -> None:
    """Fit, draw, save."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    fits = {
        label: cavity.ProbitClassifier(algorithm=name).fit(X[FEATURES], y)
        for name, label in (("ep", "EP"), ("adf", "ADF, one pass"))
    }
    grid = plot_pairs(fits, [*FEATURES[:3], "intercept"])
    grid[0, 0].figure.savefig(output, dpi=100)
    plt.close(grid[0, 0].figure)
