"""How far averaged EP's fixed point is from EP's, as the data grow: probit, D = 4."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import cavity

DIM, SEEDS = 4, 3
SIZES = [round(10**power) for power in np.arange(2.0, 5.1, 0.5)]
CENTRES, SPREAD = 5, 5.0  # of the mixture: how many, and the standard deviation they are drawn with
LABELS = {"gaussian": "inputs from one Gaussian", "mixture": "inputs from a mixture of five"}


def inputs(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """x ~ N(0, I), or around one of five centres with unit variance."""
    if kind == "gaussian":
        return rng.normal(size=(n, DIM))
    centres = SPREAD * rng.normal(size=(CENTRES, DIM))
    return centres[rng.integers(CENTRES, size=n)] + rng.normal(size=(n, DIM))


def posterior(data: tuple[np.ndarray, np.ndarray], algorithm: cavity.Algorithm) -> cavity.Gaussian:
    """The fixed point of an algorithm, far closer than anyone needs it."""
    settings = {"tol": 1e-8, "max_sweeps": 1000, "evidence": False}
    return cavity.fit(cavity.factors.probit(), cavity.Gaussian.isotropic(DIM), data, algorithm, **settings).posterior


def data(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """θ from the prior, inputs, and labels from the model."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=DIM)
    features = inputs(kind, rng, n)
    return features, np.where(features @ theta + rng.normal(size=n) > 0, 1.0, -1.0)


def divergence(kind: str, n: int, seed: int) -> float:
    """KL(EP ‖ AEP). A fixed point does not depend on the rate; at a quarter AEP does not cycle around it."""
    rows = data(kind, n, seed)
    return float(posterior(rows, cavity.ep()).kl(posterior(rows, cavity.aep(rate=0.25))))


def rounding(n: int) -> float:
    """|KL| between EP one datum at a time and EP on all at once, which share their fixed point."""
    rows = data("gaussian", n, 0)
    return abs(float(posterior(rows, cavity.ep()).kl(posterior(rows, cavity.parallel_ep()))))


def table() -> dict[str, Any]:
    """All measurements: for each kind of inputs and each size, one number per seed."""
    kinds = {kind: {n: [divergence(kind, n, seed) for seed in range(SEEDS)] for n in SIZES} for kind in LABELS}
    return {"kl": kinds, "rounding": {SIZES[-1]: rounding(SIZES[-1])}}


def draw(output: Path) -> None:
    """Measure, keep the numbers beside the figure, and draw it."""
    numbers = table()
    output.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    figure, axes = plt.subplots(figsize=(8.0, 4.8), layout="constrained")
    for (kind, label), colour, marker in zip(LABELS.items(), ("#1f6fb2", "#c8662b"), ("o", "s"), strict=True):
        values = np.array([numbers["kl"][kind][n] for n in SIZES])
        axes.loglog(SIZES, values, marker, color=colour, markersize=4.5, alpha=0.4, markeredgewidth=0)
        median = np.median(values, axis=1)
        axes.loglog(SIZES, median, marker + "-", color=colour, markersize=8, markeredgecolor="white", label=label)
    guide = np.array([SIZES[0], SIZES[-1]])
    axes.loglog(guide, 0.2 * DIM**3 / guide**2.0, "--", color="0.5", linewidth=1.1, label="0.2 D³/N²", zorder=0)
    axes.set(xlabel="number of data N", ylabel="KL(EP ‖ AEP), nats", title="Probit, D = 4: what one shared site costs")
    axes.legend(frameon=False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=150)
    plt.close(figure)
