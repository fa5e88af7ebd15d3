"""Table 2: neural networks by probabilistic backpropagation on five regression sets; and the same beyond the paper."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import cavity
from cavity.datasets import load, random_splits
from cavity.experiments.pictures import axes_in_a_row, save
from cavity.experiments.runner import Claim, Experiment, Summary, Table

UNITS = {"kin8nm": 50, "naval": 50, "power": 50, "protein": 100, "wine_red": 50}
N_SPLITS = {"kin8nm": 20, "naval": 20, "power": 20, "protein": 5, "wine_red": 20}
METHODS = ("ADF", "SEP", "EP")
# options of `NetworkRegressor`, the paper's methods first; all else is its default
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"{name}, 40": {"algorithm": name.lower(), "n_epochs": 40, "warm_up": 0} for name in METHODS},
    "EP after a warm-up, 40": {"algorithm": "ep", "n_epochs": 40},
}
# mean and standard error of RMSE and test log-likelihood, for ADF, SEP and EP
PAPER = {
    "kin8nm": ((0.098, 0.0007), (0.088, 0.0009), (0.089, 0.0006), (0.896, 0.006), (1.013, 0.011), (1.005, 0.007)),
    "naval": ((0.006, 0.0), (0.002, 0.0), (0.004, 0.0), (3.731, 0.006), (4.590, 0.014), (4.207, 0.011)),
    "power": ((4.124, 0.0345), (4.165, 0.0336), (4.191, 0.0349), (-2.837, 0.009), (-2.846, 0.008), (-2.852, 0.008)),
    "protein": ((4.727, 0.0112), (4.670, 0.0109), (4.748, 0.0137), (-2.973, 0.003), (-2.961, 0.003), (-2.979, 0.003)),
    "wine_red": ((0.635, 0.0079), (0.650, 0.0082), (0.637, 0.0076), (-0.968, 0.014), (-0.976, 0.013), (-0.958, 0.011)),
}
HALF_DIGIT = 0.0005  # of what the paper prints
DEFAULT = "EP after a warm-up, 40"
GOALS = {"kin8nm": 1.10, "naval": 5.0, "power": -2.82, "protein": -2.90, "wine_red": -0.94}


def cells(quick: bool, seed: int) -> dict[str, dict[str, Any]]:
    """One per set and variant, all splits."""
    sets, variants = (("wine_red",), list(VARIANTS)[:4]) if quick else (tuple(UNITS), list(VARIANTS))
    return {
        f"{name}-{variant.replace(' ', '-').replace(',', '')}": {
            "set": name,
            "variant": variant,
            "options": {**VARIANTS[variant], **({"n_epochs": 10} if quick else {})},
            "n_splits": 3 if quick else N_SPLITS[name],
            "seed": seed,
        }
        for variant in variants
        for name in sets
    }


def compute(cell: dict[str, Any]) -> dict[str, Any]:
    """RMSE, log-likelihood and coverage of every split, several splits at a time."""
    data, units = load(cell["set"]), UNITS[cell["set"]]

    def one(number: int, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
        model = cavity.NetworkRegressor((units,), **cell["options"], random_state=cell["seed"] + number)
        return scores_of(model.fit(data.X[train], data.y[train]), data.X[test], data.y[test])

    splits = list(random_splits(len(data.y), cell["n_splits"]))
    with ThreadPoolExecutor(os.cpu_count()) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # of ADF
        found = list(pool.map(one, range(len(splits)), *zip(*splits, strict=True)))
    return {name: [scores[name] for scores in found] for name in found[0]}


def scores_of(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """What is said of a fitted network."""
    mean, sd = model.predict(X, return_std=True)
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "log_likelihood": float(np.mean(model.log_predictive(X, y))),
        "coverage": float(np.mean(np.abs(y - mean) < 1.6448536269514722 * sd)),
        "site_bytes": model.site_bytes_,
    }


def collect(done: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> Summary:
    """Means and standard errors over splits, beside the paper's."""
    table: dict[str, dict[str, Any]] = {}
    for cell, result in done.values():
        table.setdefault(cell["set"], {})[cell["variant"]] = {
            **{name: spread(result[name]) for name in ("rmse", "log_likelihood", "coverage")},
            "megabytes": result["site_bytes"][0] / 1e6,
        }
    claims = [claim for name, row in table.items() for claim in claims_of(name, row)]
    notes = [
        "Means ± standard errors over the splits of Hernández-Lobato & Adams (2015), a tenth of the rows for the test. "
        "One hidden layer of 50 units, 100 for protein; a row at a time. Log-likelihoods are of the target in its own "
        "units.",
        "Coverage is the share of test targets in the central 90 % of the predictive distribution, taken as Gaussian.",
    ]
    return Summary({"table": table, "paper": PAPER}, claims, notes, tables_of(table))


def spread(values: Any) -> tuple[float, float]:
    """Mean and standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def claims_of(name: str, row: dict[str, Any]) -> list[Claim]:
    """The paper's six numbers of a set, at its number of epochs, and what ours comes to by default."""
    claims = []
    for place, (score, better) in enumerate((("rmse", -1), ("log_likelihood", 1))):
        for i, method in enumerate(METHODS):
            (paper, paper_se), (ours, se) = PAPER[name][3 * place + i], row[f"{method}, 40"][score]
            margin = 2 * np.hypot(se, paper_se) + HALF_DIGIT
            claims.append(
                Claim(
                    f"{name}, {method}, {'RMSE' if score == 'rmse' else 'log-likelihood'}",
                    f"{paper:.3f} ± {paper_se:.4f}",
                    f"{ours:.4f} ± {se:.4f}",
                    "within two combined standard errors and half the last digit, or better",
                    bool(better * (ours - paper) >= -margin),
                )
            )
    (ours, se), (covered, _) = (row[DEFAULT][key] for key in ("log_likelihood", "coverage"))
    bar = f"at least {GOALS[name]:g}"
    claims.append(
        Claim(f"{name}, {DEFAULT}, log-likelihood", "", f"{ours:.3f} ± {se:.4f}", bar, bool(ours >= GOALS[name]))
    )
    bar = "between 0.86 and 0.94"
    claims.append(Claim(f"{name}, {DEFAULT}, coverage of 90 %", "", f"{covered:.3f}", bar, 0.86 <= covered <= 0.94))
    return claims


def tables_of(table: dict[str, dict[str, Any]]) -> list[Table]:
    """All methods and numbers of epochs."""
    columns = list(next(iter(table.values())))
    shown = {"RMSE": "rmse", "Test log-likelihood": "log_likelihood", "Coverage of 90 % intervals": "coverage"}
    tables = [
        Table(
            title,
            columns,
            {name: ["{:.4f} ± {:.4f}".format(*row[key][score]) for key in columns] for name, row in table.items()},
        )
        for title, score in shown.items()
    ]
    sizes = {name: [f"{row[key]['megabytes']:.3g}" for key in columns] for name, row in table.items()}
    return [*tables, Table("Megabytes of sites", columns, sizes)]


def draw(figures: dict[str, Any], path: Path) -> None:
    """Test log-likelihood of each set, less the paper's EP: the paper's and ours."""
    sets = list(figures["table"])
    figure, panels = axes_in_a_row(len(sets))
    for axes, name in zip(np.atleast_1d(panels), sets, strict=True):
        row = figures["table"][name]
        for i, (method, colour) in enumerate(zip(METHODS, ("C3", "C0", "k"), strict=True)):
            mean, se = figures["paper"][name][3 + i]
            axes.errorbar([i - 0.2], [mean], [se], fmt="s", ms=5, color=colour, mfc="none", label=f"{method}, paper")
            keys = [key for key in row if key.startswith((f"{method},", f"{method} "))]
            for k, key in enumerate(keys):
                mean, se = row[key]["log_likelihood"]
                axes.errorbar([i + 0.12 * k], [mean], [se], fmt="o^D"[k], ms=5, color=colour, label=key)
        axes.set_title(name)
        axes.set_xticks(range(len(METHODS)), METHODS)
    np.atleast_1d(panels)[0].set_ylabel("test log-likelihood")
    np.atleast_1d(panels)[-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, path)


SETTINGS = {"units": UNITS, "revision": 1}
TABLE2 = Experiment("table2", "Table 2: networks on five regression sets", SETTINGS, cells, compute, collect, draw)
