"""Pictures of a fit: how it converged, its coefficients, pairs of them, and its predictions against what came.

Each function draws into the axes it is given, or into new ones, and returns them. Where one model is taken, a dict of
several by name is taken too, and they are drawn side by side. Needs matplotlib.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from cavity._lazy import imported
from cavity.diagnostics.scores import calibration_curve
from cavity.families import Gaussian

ELLIPSE = np.linspace(0, 2 * np.pi, 200)


def plot_convergence(fits: Any, axes: Any = None) -> Any:
    """Change of the posterior per sweep, in posterior standard deviations; what `tol` is compared with.

    `fits` are results of `cavity.fit`, fitted estimators or histories. Sweeps in which data were skipped are ringed.
    """
    axes = axes if axes is not None else new_axes()
    for name, fit in by_name(fits).items():
        histories = histories_of(fit)
        for index, history in enumerate(histories):
            label = name if len(histories) == 1 else f"{name} {index}".strip()
            sweep = np.arange(1, len(history.change) + 1)
            (line,) = axes.semilogy(sweep, history.change, marker="o", markersize=3, label=label or None)
            ringed = history.skipped > 0
            axes.semilogy(sweep[ringed], history.change[ringed], "o", markersize=8, mfc="none", color=line.get_color())
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="sweep over the data", ylabel="change, posterior sd")
    return finish(axes)


def plot_coefficients(
    models: Any, level: float = 0.9, largest: int | None = None, intercept: bool = False, axes: Any = None
) -> Any:
    """Posterior means of the coefficients with credible intervals.

    `models` are fitted linear estimators. A model with `standardize=True` is drawn per standard deviation of each
    feature: in the features' own units coefficients cannot be compared. Of more than two classes, each has its own
    colour. `largest` keeps as many coefficients, those furthest from zero in standard deviations of the first model.
    """
    tables = {}
    for name, model in by_name(models).items():
        table = in_comparable_units(model, level, intercept)
        classes = table.index.levels[0] if table.index.nlevels > 1 else []
        tables.update({f"{name} {label}".strip(): table.loc[label] for label in classes} or {name: table})
    first = next(iter(tables.values()))
    kept = (first["mean"] / first["sd"]).abs().sort_values(ascending=False, kind="stable").index[:largest]
    names = [name for name in first.index if name in kept]
    axes = axes if axes is not None else new_axes(height=1.2 + 0.25 * len(names) * max(1.0, 0.5 * len(tables)))
    shifts = 0.7 * ((np.arange(len(tables)) + 0.5) / len(tables) - 0.5)
    for shift, (name, table) in zip(shifts, tables.items(), strict=True):
        table = table.loc[names]
        reach = np.stack([table["mean"] - table["lower"], table["upper"] - table["mean"]])
        where = np.arange(len(names)) + shift
        axes.errorbar(table["mean"], where, xerr=reach, fmt="o", ms=4, lw=1.4, label=name or None)
    axes.axvline(0, color="0.8", zorder=0)
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    standardised = all(model._state.settings.standardize for model in by_name(models).values())
    unit = " per sd of the feature" if standardised else ""
    axes.set(xlabel=f"coefficient{unit}, mean and {level:.0%} interval")
    return finish(axes)


def in_comparable_units(model: Any, level: float, intercept: bool) -> Any:
    """The summary, times the scale by which the model standardises each feature; the intercept only where wanted."""
    table = model.summary(level)
    state = model._state
    scale = state.units.scale if state.settings.standardize else np.ones_like(state.units.scale)
    scale = np.append(scale, [1.0] * state.units.intercept)
    table = table.mul(np.tile(scale, len(table) // len(scale)), axis=0)
    kept = np.tile(np.arange(len(scale)) < model.n_features_in_, len(table) // len(scale))
    return table if intercept else table[kept]


def plot_pairs(
    models: Any,
    coefficients: Sequence[Any] | None = None,
    levels: Sequence[float] = (0.5, 0.9),
    draws: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Marginals of coefficients on the diagonal, and for each pair the ellipses that hold `levels` of the posterior.

    `models` are fitted linear estimators of one function, results of `cavity.fit` or Gaussians. `coefficients` chooses
    some by name or position; by default all, at most six. `draws`, as of a sampler, are shown behind as dots.
    """
    plt = pyplot()
    fits = by_name(models)
    posteriors = {name: posterior_of(fit) for name, fit in fits.items()}
    dim = len(next(iter(posteriors.values())).mean)
    names = list(names or getattr(next(iter(fits.values())), "_names", lambda: [f"x{i}" for i in range(dim)])())
    if len(names) != dim:
        raise ValueError(f"names must have one entry per coefficient, {dim}; got {len(names)}.")
    chosen = places(names, coefficients)
    side = len(chosen)
    figure, grid = plt.subplots(
        side, side, figsize=(1 + 1.7 * side, 1 + 1.7 * side), squeeze=False, layout="constrained"
    )
    for row, i in enumerate(chosen):
        for column, j in enumerate(chosen):
            if column > row:
                grid[row, column].remove()
                continue
            draw_pair(grid[row, column], list(posteriors.values()), i, j, levels, draws)
            label_pair(grid, row, column, names[j], names[i])
    if len(posteriors) > 1:
        handles = [plt.Line2D([], [], color=f"C{k}", label=name) for k, name in enumerate(posteriors)]
        figure.legend(handles=handles, loc="upper right", frameon=False)
    return grid


def draw_pair(axes: Any, posteriors: list[Any], i: int, j: int, levels: Sequence[float], draws: Any) -> None:
    """The posteriors of two coefficients, or of one, with draws behind them."""
    for number, posterior in enumerate(posteriors):
        if i == j:
            draw_marginal(axes, posterior, i, f"C{number}")
        else:
            draw_ellipses(axes, posterior, j, i, levels, f"C{number}")
    if draws is None:
        return
    sample = np.asarray(draws, dtype=float)
    if i == j:
        axes.hist(sample[:, i], bins=40, density=True, color="0.85", zorder=0)
    else:
        axes.plot(sample[:, j], sample[:, i], ",", color="0.6", zorder=0, rasterized=True)


def label_pair(grid: np.ndarray, row: int, column: int, below: str, beside: str) -> None:
    """Names at the edges of the grid, and axes shared along its rows and columns."""
    axes, last = grid[row, column], len(grid) - 1
    axes.spines[["top", "right"]].set_visible(False)
    if column == row:
        axes.set_yticks([])
    if row == last:
        axes.set_xlabel(below)
    else:
        axes.sharex(grid[last, column])
        axes.tick_params(labelbottom=False)
    if column == 0 and row > 0:
        axes.set_ylabel(beside)
    elif column < row:
        axes.sharey(grid[row, 0])
        axes.tick_params(labelleft=False)


def plot_calibration(y: Any, probabilities: Any, n_bins: int = 10, axes: Any = None) -> Any:
    """Observed against predicted frequencies of y ∈ {0, 1}, with two standard errors.

    Honest predictions lie on the line. `probabilities` of y = 1 are an array, or a dict of arrays by name.
    """
    axes = axes if axes is not None else new_axes(width=4.6, height=4.4)
    axes.plot([0, 1], [0, 1], color="0.8", zorder=0)
    for name, probability in by_name(probabilities).items():
        curve = calibration_curve(y, probability, n_bins)
        error = 2 * np.sqrt(curve.observed * (1 - curve.observed) / curve.size)
        label = f"{name} (error {curve.error:.3f})".strip()
        axes.errorbar(curve.predicted, curve.observed, yerr=error, fmt="o-", ms=4, lw=1.2, label=label)
    axes.set(xlabel="predicted probability", ylabel="observed frequency", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return finish(axes)


def draw_marginal(axes: Any, posterior: Gaussian, i: int, colour: str) -> None:
    """The density of one coefficient over four standard deviations to each side."""
    mean, sd = posterior.mean[i], np.sqrt(posterior.variance[i])
    line = np.linspace(mean - 4 * sd, mean + 4 * sd, 200)
    axes.plot(line, stats.norm.pdf(line, mean, sd), color=colour)


def draw_ellipses(axes: Any, posterior: Gaussian, i: int, j: int, levels: Sequence[float], colour: str) -> None:
    """Contours of the joint density of two coefficients that hold `levels` of its mass."""
    pair = np.ix_([i, j], [i, j])
    circle = np.linalg.cholesky(posterior.covariance[pair]) @ np.stack([np.cos(ELLIPSE), np.sin(ELLIPSE)])
    for level in levels:
        x, y = posterior.mean[[i, j]][:, None] + np.sqrt(stats.chi2(2).ppf(level)) * circle
        axes.plot(x, y, color=colour, lw=1.2)


def places(names: list[str], coefficients: Sequence[Any] | None) -> list[int]:
    """Positions of coefficients that are given by name or position."""
    if coefficients is None:
        return list(range(min(len(names), 6)))
    unknown = [c for c in coefficients if c not in names and not (isinstance(c, int) and -len(names) <= c < len(names))]
    if unknown or not len(coefficients):
        raise ValueError(f"coefficients must be names or positions among {names}; got {list(coefficients)}.")
    return [names.index(c) if c in names else c % len(names) for c in coefficients]


def histories_of(fit: Any) -> list[Any]:
    """Histories of a result, of an estimator (one per class of several), or the history itself."""
    history = getattr(fit, "history", getattr(fit, "history_", fit))
    histories = history if isinstance(history, list) else [history]
    if not all(hasattr(each, "change") for each in histories):
        raise ValueError(f"fits must be results, fitted estimators or histories; got {type(fit).__name__}.")
    return histories


def posterior_of(fit: Any) -> Gaussian:
    """The Gaussian over one set of coefficients."""
    posterior = getattr(fit, "posterior", getattr(fit, "posterior_", fit))
    if not hasattr(posterior, "covariance") or np.ndim(posterior.mean) != 1:
        raise ValueError(
            f"models must have one Gaussian posterior over a vector of coefficients; got {type(fit).__name__}. "
            "Of several classes, give one: Gaussian(posterior_.shift[k], posterior_.precision[k])."
        )
    return posterior


def by_name(things: Any) -> dict[str, Any]:
    """A dict as it is, one thing under an empty name."""
    return things if isinstance(things, dict) else {"": things}


def new_axes(width: float = 6.4, height: float = 4.2) -> Any:
    """Axes of a figure of their own."""
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def pyplot() -> Any:
    """matplotlib, or what to install."""
    return imported("matplotlib.pyplot", "a picture")


def finish(axes: Any) -> Any:
    """No frame on top and at the right; a legend where there is something to tell apart."""
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    return axes
