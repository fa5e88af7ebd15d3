"""Pictures of the guide to clustering: assignments and densities, evidence against components, regions of means."""

import warnings
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Ellipse

import cavity

COLOURS = ["#1f6fb2", "#b3362b", "#2f7d4f"]
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 5.5]])
ROOTS = np.array([[[1.0, 0.0], [0.6, 0.8]], [[1.3, 0.0], [-0.5, 0.7]], [[1.0, 0.0], [0.0, 0.6]]])
WEIGHTS = [0.5, 0.3, 0.2]
ROWS, DATASETS, MOST = 300, 6, 6
CLOSE, CLOSER = 0.5, 0.35  # how much nearer the centres are where clusters overlap, or run into each other


def rows(seed: int, shrink: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters in the plane and which one each row is from; `shrink` moves them together."""
    rng = np.random.default_rng(seed)
    label = rng.choice(3, size=ROWS, p=WEIGHTS)
    return shrink * CENTRES[label] + np.einsum("nij,nj->ni", ROOTS[label], rng.normal(size=(ROWS, 2))), label


def fitted(X: np.ndarray, n_components: int = 3, seed: int = 0) -> cavity.GaussianMixture:
    """A fit that may also be far from settled, where there are more components than clusters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)
        return cavity.GaussianMixture(n_components, random_state=seed).fit(X)


def finish(figure: plt.Figure, output: Path) -> None:
    """Save and forget."""
    figure.savefig(output, dpi=130)
    plt.close(figure)


def plain(axes: Axes) -> None:
    """Without what the eye does not need."""
    axes.spines[["top", "right"]].set_visible(False)


# -- assignments and densities -------------------------------------------------------------------------------------


def draw_density(output: Path) -> None:
    """Left: soft assignments. Right: the density of new points, and points that are too improbable to belong."""
    X, _ = rows(0, shrink=0.75)
    model = fitted(X)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.4), sharex=True, sharey=True, layout="constrained")
    draw_assignments(left, model, X)
    draw_levels(figure, right, model, X)
    for axes in (left, right):
        axes.set(xlim=(-5.5, 9.5), ylim=(-5, 8.5), xlabel="first feature", aspect="equal")
        plain(axes)
    left.set_ylabel("second feature")
    finish(figure, output)


def draw_assignments(axes: Axes, model: cavity.GaussianMixture, X: np.ndarray) -> None:
    """Each row in the mixture of the components' colours that `predict_proba` says."""
    shares = model.predict_proba(X)
    palette = np.array([ListedColormap(COLOURS)(j)[:3] for j in range(3)])
    axes.scatter(*X.T, c=np.clip(shares @ palette, 0, 1), s=18, linewidths=0)
    unsure = shares.max(axis=1) < 0.9
    axes.scatter(*X[unsure].T, s=60, facecolors="none", edgecolors="0.25", linewidths=0.8)
    axes.set_title(f"assignments; {unsure.sum()} rows below 90 % in a circle")


def draw_levels(figure: plt.Figure, axes: Axes, model: cavity.GaussianMixture, X: np.ndarray) -> None:
    """log p(x | data) on a grid; new points below its 1 % quantile over the rows are crosses."""
    across, up = np.meshgrid(np.linspace(-5.5, 9.5, 121), np.linspace(-5, 8.5, 109))
    grid = model.score_samples(np.stack([across.ravel(), up.ravel()], axis=1)).reshape(across.shape)
    filled = axes.contourf(across, up, grid, levels=np.arange(-16, -1.9, 1), cmap="Blues", extend="min")
    least = np.quantile(model.score_samples(X), 0.01)
    axes.contour(across, up, grid, levels=[least], colors=COLOURS[1], linewidths=1.2, linestyles="solid")
    new = np.vstack([rows(1, shrink=0.75)[0][:40], [[-3.5, 5.0], [7.5, 6.5], [8.0, -3.5]]])
    odd = model.score_samples(new) < least
    axes.scatter(*new[~odd].T, s=14, color="0.15")
    axes.scatter(*new[odd].T, s=46, color=COLOURS[1], marker="x", linewidths=1.8)
    axes.set_title("density of new points; line: 1 % of rows are outside")
    figure.colorbar(filled, ax=axes, label="log p(x | data)", shrink=0.9)


# -- the number of components --------------------------------------------------------------------------------------


def draw_evidence(output: Path) -> None:
    """log evidence below its largest value for 1 to 6 components, clusters apart and clusters that overlap."""
    figure, panels = plt.subplots(1, 2, figsize=(10.4, 3.7), sharey=True, layout="constrained")
    counts = np.arange(1, MOST + 1)
    for axes, shrink, title in zip(panels, (1.0, CLOSER), ("clusters apart", "hardly apart"), strict=True):
        below = np.array([[evidence(rows(seed, shrink)[0], j) for j in counts] for seed in range(DATASETS)])
        below -= below.max(axis=1, keepdims=True)
        axes.axvspan(2.75, 3.25, color="0.92", zorder=0)
        for line in below:
            axes.plot(counts, line, color=COLOURS[0], alpha=0.55, linewidth=1.3, marker="o", markersize=3.5)
            axes.plot(counts[line == 0], 0, marker="o", markersize=9, color=COLOURS[1], zorder=3)
        chosen = np.bincount(counts[below.argmax(axis=1)], minlength=MOST + 1)[1:]
        said = ", ".join(f"{n} × {j}" for j, n in enumerate(chosen, start=1) if n)
        axes.set(title=f"{title}: largest at {said}", xlabel="components J", xticks=counts, yscale="symlog")
        axes.set(ylim=(-1500, 0.6), yticks=[0, -1, -10, -100, -1000])
        plain(axes)
    panels[0].set_ylabel("log evidence − largest")
    finish(figure, output)


def evidence(X: np.ndarray, n_components: int) -> float:
    """The best of three beginnings; fits that had to leave rows out in the end say nothing about all rows."""
    fits = [fitted(X, n_components, seed) for seed in range(3)]
    return max(fit.log_evidence_ for fit in fits if fit.history_.skipped[-1] == 0)


# -- where the means are -------------------------------------------------------------------------------------------


def draw_means(output: Path) -> None:
    """Regions that hold a component's mean with a probability of 90 %, and the means that data were drawn with."""
    figure, panels = plt.subplots(1, 2, figsize=(10.4, 4.4), layout="constrained")
    for axes, shrink, title in zip(panels, (1.0, CLOSE), ("clusters apart", "clusters that overlap"), strict=True):
        X, _ = rows(0, shrink)
        model = fitted(X)
        axes.scatter(*X.T, s=8, color="0.75", linewidths=0)
        for j, mean in enumerate(model.means_):
            colour = COLOURS[np.argmin(np.linalg.norm(shrink * CENTRES - mean, axis=1))]  # the same in both panels
            axes.add_patch(ellipse(mean, 4 * model.covariances_[j], edgecolor=colour, fill=False, ls="--"))
            region = model.posterior_.region(j, level=0.9)
            axes.add_patch(ellipse(*region, facecolor=colour, edgecolor=colour, alpha=0.55, linewidth=1.5, zorder=3))
        axes.scatter(*(shrink * CENTRES).T, marker="+", s=70, color="black", linewidths=1.4, zorder=4)
        axes.set(title=title, xlabel="first feature", aspect="equal")
        plain(axes)
    panels[0].set_ylabel("second feature")
    finish(figure, output)


def ellipse(centre: np.ndarray, matrix: np.ndarray, **style: object) -> Ellipse:
    """The x with (x − centre)ᵀ matrix⁻¹ (x − centre) = 1."""
    values, vectors = np.linalg.eigh(matrix)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    return Ellipse(centre, 2 * np.sqrt(values[1]), 2 * np.sqrt(values[0]), angle=angle, **style)
