"""The named algorithms as points: number of sites K × batch size M × power α, read off the algorithm objects."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

import cavity

ALGORITHMS = {  # name -> algorithm, where its label goes (points right and up), alignment
    "ADF": (cavity.adf(), (9, -17), "left"),
    "SEP": (cavity.sep(), (-10, 9), "center"),
    "SEP, batches": (cavity.sep(batch_size=100), (12, -3), "left"),
    "AEP": (cavity.aep(), (0, 11), "center"),
    "DSEP": (cavity.dsep(n_sites=5), (-12, 9), "center"),
    "DAEP": (cavity.daep(n_sites=5), (0, 11), "center"),
    "EP": (cavity.ep(), (-8, 9), "center"),
    "parallel EP": (cavity.parallel_ep(), (0, 11), "center"),
    "power EP": (cavity.power_ep(0.5), (-12, -3), "right"),
    "VMP": (cavity.vmp(), (-12, 8), "right"),
    "stochastic\npower EP": (cavity.sep(batch_size=100, power=0.5), (12, -8), "left"),
    "SVI": (cavity.svi(batch_size=100), (12, -3), "left"),
    "averaged VMP": (cavity.averaged_vmp(), (12, -3), "left"),
}
COLOURS = ["#b3362b", "#1f6fb2", "#7a52a0", "#2f7d4f"]  # K = 0, 1, groups, N
RIGHT, DEPTH, UP = np.array([2.6, 0.0]), np.array([1.15, 0.82]), np.array([0.0, 4.4])
FAINT = {"color": "0.72", "linewidth": 0.9, "zorder": 1}


def coordinates(algorithm: cavity.Algorithm) -> tuple[int, int, float]:
    """K as 0, 1, 2 (groups), 3 (N); M as 0 (one datum), 1 (a batch), 2 (all); and α."""
    n_sites = 3 if algorithm.n_sites == "all" else min(int(algorithm.n_sites), 2)
    batch = 2 if algorithm.batch_size is None else min(algorithm.batch_size - 1, 1)
    return n_sites, batch, algorithm.power


def project(n_sites: float, batch: float, power: float) -> np.ndarray:
    """Where a point of the cube lies on the page."""
    return n_sites * RIGHT + batch * DEPTH + power * UP


def line(axes: Axes, *points: tuple[float, float, float], **style: object) -> None:
    """A line through points of the cube."""
    axes.plot(*np.array([project(*point) for point in points]).T, **{**FAINT, **style})


def draw(output: Path) -> None:
    """The cube with every algorithm of `cavity.inference.named` on it."""
    figure, axes = plt.subplots(figsize=(9.6, 6.2), layout="constrained")
    draw_frame(axes)
    draw_scales(axes)
    draw_points(axes)
    axes.set_aspect("equal")
    axes.margins(0.02)
    axes.set_axis_off()
    figure.savefig(output, dpi=150)
    plt.close(figure)


def draw_frame(axes: Axes) -> None:
    """The edges, the plane of one shared site, and the lines along which algorithms become one another."""
    corners = [(0, 0), (3, 0), (3, 2), (0, 2), (0, 0)]
    for power in (0, 1):
        line(axes, *[(k, m, power) for k, m in corners])
    for k, m in corners[:4]:
        line(axes, (k, m, 0), (k, m, 1), linestyle="--" if (k, m) == (0, 2) else "-")
    plane = [project(1, m, power) for m, power in [(0, 0), (2, 0), (2, 1), (0, 1)]]
    axes.fill(*np.array(plane).T, color=COLOURS[1], alpha=0.09, linewidth=0, zorder=0)
    for k in (1, 2):
        for power in (0, 1):
            line(axes, (k, 0, power), (k, 2, power))
    line(axes, (0, 0, 1), (3, 0, 1), color="0.35", linewidth=1.6)  # ADF, SEP, DSEP, EP
    line(axes, (1, 2, 1), (3, 2, 1), color="0.35", linewidth=1.6)  # AEP, DAEP, parallel EP
    line(axes, (3, 0, 0), (3, 0, 1), color=COLOURS[3], linewidth=1.6)  # VMP, power EP, EP
    line(axes, (1, 1, 0), (1, 1, 1), color=COLOURS[1], linewidth=1.6)  # SVI, stochastic power EP, SEP
    line(axes, (1, 0, 1), (1, 2, 1), color=COLOURS[1], linewidth=1.6)  # SEP, AEP


def draw_scales(axes: Axes) -> None:
    """What the three directions mean."""
    scale = {"fontsize": 10.5, "color": "0.25"}
    sites = ["K = 0\nno site", "K = 1\none site for all", "1 < K < N\none site per group", "K = N\none site per datum"]
    for k, text in enumerate(sites):
        axes.annotate(text, project(k, 0, 0), (0, -15), textcoords="offset points", ha="center", va="top", **scale)
    for m, text in enumerate(["M = 1", "1 < M < N", "M = N"]):
        axes.annotate(text, project(3, m, 0), (20, -2), textcoords="offset points", ha="left", va="center", **scale)
    for power, text in {1: "α = 1\nEP", 0.5: "0 < α < 1\npower EP", 0: "α = 0\nvariational"}.items():
        axes.annotate(
            text, project(0, 0, power), (-24, 0), textcoords="offset points", ha="right", va="center", **scale
        )
    name = {"fontsize": 11.5, "color": "0.1", "weight": "bold"}
    middle = project(1.5, 0, 0)
    axes.annotate("number of sites", middle, (0, -56), textcoords="offset points", ha="center", va="top", **name)
    axes.annotate("batch size", project(3, 1, 0), (20, -20), textcoords="offset points", ha="left", va="center", **name)
    top = project(0, 0, 1)
    axes.annotate("power", top, (-24, 34), textcoords="offset points", ha="right", va="center", **name)


def draw_points(axes: Axes) -> None:
    """A labelled point for each algorithm, coloured by its number of sites."""
    for name, (algorithm, offset, alignment) in ALGORITHMS.items():
        place = coordinates(algorithm)
        colour = COLOURS[place[0]]
        x, y = project(*place)
        axes.plot(x, y, "o", markersize=9, color=colour, markeredgecolor="white", markeredgewidth=1.2, zorder=4)
        axes.annotate(
            name,
            (x, y),
            offset,
            textcoords="offset points",
            ha=alignment,
            va="baseline",
            fontsize=11.5,
            color=colour,
            weight="bold",
            zorder=5,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )
