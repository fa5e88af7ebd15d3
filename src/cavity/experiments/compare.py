"""EP against variational inference, and what lies between: when to use which.

The paper leaves it open. Here are its classification sets, and synthetic ones in which one thing changes at a time:
rows per coefficient, how far apart clusters of inputs are, and how many labels are coin flips.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cavity
from cavity.datasets import load, random_splits, synthetic_probit
from cavity.experiments.pictures import axes_in_a_row, line_style, save
from cavity.experiments.probit_methods import log_predictive, standardised
from cavity.experiments.reference import nuts_reference
from cavity.experiments.runner import Claim, Experiment, Summary, Table
from cavity.experiments.table1 import SETS

PRIOR_VARIANCE = 1.0
N_FEATURES, N_ROWS, N_TEST = 10, 300, 2000
METHODS = {
    "ADF": cavity.adf(),
    "SEP": cavity.sep(),
    "AEP": cavity.aep(),
    "DSEP": cavity.dsep(groups="auto", batch_size=10),
    "EP": cavity.ep(),
    "power EP 0.5": cavity.power_ep(0.5),
    "VI": cavity.vmp(),
    "EP, diagonal": cavity.ep(),
    "VI, diagonal": cavity.vmp(),
}
TRIFLE = 0.001  # nats: differences below it are not counted
SWEEPS = {
    "rows": ("n_rows", (20, 50, 100, 300, 1000, 3000)),
    "separation of clusters": ("separation", (0.0, 1.0, 3.0, 10.0)),
    "share of random labels": ("label_noise", (0.1, 0.3, 0.6)),  # none: that is 300 rows, above
}

QUICK = {"rows": (300,), "separation of clusters": (3.0, 10.0), "share of random labels": (0.3,)}


def cells(quick: bool, seed: int) -> dict[str, dict[str, Any]]:
    """One per problem and repetition, all methods."""
    repetitions = [1000 * seed + i for i in range(1 if quick else 5)]
    draws = 4000 if quick else 20_000
    parts: dict[str, dict[str, Any]] = {}
    for name in () if quick else SETS:
        parts |= {f"set-{name}-{s}": {"set": name, "seed": s, "n_draws": draws} for s in repetitions}
    for sweep, (_, values) in SWEEPS.items():
        short = sweep.split()[0]
        for value in [v for v in values if v in QUICK[sweep]] if quick else values:
            parts |= {
                f"{short}-{value:g}-{s}": {"sweep": sweep, "value": value, "seed": s, "n_draws": draws}
                for s in repetitions
            }
    return parts


def problem(cell: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows for training and for the test, labels ±1."""
    if "set" in cell:
        data = load(cell["set"])
        train, test = next(iter(random_splits(len(data.y), 1, 0.1, seed=1 + cell["seed"])))
        X, y = standardised(data.X, train), 2.0 * data.y - 1
        return X[train], y[train], X[test], y[test]
    settings: dict[str, Any] = {"n_rows": N_ROWS, "n_components": 1, "separation": 3.0}
    settings[SWEEPS[cell["sweep"]][0]] = cell["value"]
    if cell["sweep"] == "separation of clusters":
        settings["n_components"] = 5
    n = settings.pop("n_rows")
    made = synthetic_probit(n + N_TEST, N_FEATURES, seed=cell["seed"], **settings)
    return made.X[:n], made.y[:n], made.X[n:], made.y[n:]


def compute(cell: dict[str, Any]) -> dict[str, Any]:
    """Every method on one problem."""
    X, y, X_test, y_test = problem(cell)
    reference = nuts_reference("probit", X, y, PRIOR_VARIANCE, cell["n_draws"])
    results: dict[str, Any] = {"floor": reference.floor, "rhat": reference.rhat, "shape": X.shape}
    for name in METHODS:
        fit(name, X, y, max_sweeps=2)  # to compile
        start = time.perf_counter()
        result = fit(name, X, y)
        seconds = time.perf_counter() - start
        q = as_full(result.posterior)
        results[name] = {
            "kl": reference.kl(q),
            "log_likelihood": float(np.mean(log_predictive(q, X_test, y_test))),
            "seconds": seconds,
            "site_bytes": result.site_bytes,
            "converged": result.converged,
        }
    return results


def fit(name: str, X: np.ndarray, y: np.ndarray, max_sweeps: int | None = None) -> cavity.Result:
    """One method; those with "diagonal" in their name are of mean field: coefficients are independent under q."""
    family = cavity.DiagonalGaussian if name.endswith("diagonal") else cavity.Gaussian
    prior = family.isotropic(X.shape[1], PRIOR_VARIANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # whether it converged is in the result
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # of ADF's second sweep, made to compile
        return cavity.fit(cavity.factors.probit(), prior, (X, y), METHODS[name], max_sweeps=max_sweeps, evidence=False)


def as_full(q: Any) -> cavity.Gaussian:
    """A Gaussian with a covariance matrix."""
    return q if isinstance(q, cavity.Gaussian) else cavity.Gaussian.from_mean(q.mean, np.diag(q.variance))


def collect(done: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> Summary:
    """Medians over repetitions for each problem; differences from EP are taken before the median."""
    table: dict[str, list[dict[str, Any]]] = {}
    for cell, result in done.values():
        table.setdefault(cell.get("set") or f"{cell['sweep']}: {cell['value']:g}", []).append(result)
    middle: dict[str, Any] = {label: medians(results) for label, results in table.items()}
    claims = [
        verdict(table, "VI", "EP"),
        verdict(table, "VI, diagonal", "EP, diagonal"),
        verdict(table, "SEP", "EP"),
        verdict(table, "SEP", "VI"),
    ]
    notes = [
        f"Probit regression, prior variance {PRIOR_VARIANCE:g}, medians over {len(done) // len(middle)} repetitions; "
        f"synthetic problems have {N_FEATURES} coefficients and {N_ROWS} rows unless they are what changes.",
        "KL against a Gaussian with the moments of NUTS, worst R-hat "
        f"{max(result['rhat'] for _, result in done.values()):.3f}; the floor is its error, which all "
        "methods share. It sees two moments of a posterior and no more. One method is called nearer if it is so in "
        f"every repetition, and by {TRIFLE:g} nats in the median.",
        "* not converged within the default number of sweeps in at least half of the repetitions; ADF makes one pass.",
    ]
    return Summary({"table": middle}, claims, notes, tables_of(middle))


def medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Over the repetitions of one problem."""
    row: dict[str, Any] = {"floor": float(np.median([result["floor"] for result in results]))}
    for name in METHODS:
        row[name] = {key: float(np.median([result[name][key] for result in results])) for key in results[0][name]}
        gaps = [result[name]["log_likelihood"] - result["EP"]["log_likelihood"] for result in results]
        row[name]["less EP's"] = float(np.median(gaps))
    return row


def verdict(table: dict[str, list[dict[str, Any]]], one: str, other: str) -> Claim:
    """On how many problems one method is nearer than another in every repetition, by more than a trifle."""
    gaps = [np.array([result[one]["kl"] - result[other]["kl"] for result in results]) for results in table.values()]
    nearer = sum(np.max(gap) < 0 and np.median(gap) < -TRIFLE for gap in gaps)
    further = sum(np.min(gap) > 0 and np.median(gap) > TRIFLE for gap in gaps)
    ours = f"{one} nearer on {nearer} of {len(gaps)} problems, {other} on {further}, neither on the others"
    return Claim(f"{one} or {other}: which is nearer to the posterior, in every repetition", "", ours)


def tables_of(middle: dict[str, Any]) -> list[Table]:
    """One for each thing that is measured."""
    shown = {
        "KL(p ‖ q), nats": ("kl", "{:.4f}"),
        "Test log-likelihood": ("log_likelihood", "{:.4f}"),
        "Test log-likelihood less EP's, on the same rows": ("less EP's", "{:+.4f}"),
        "Seconds, without compilation": ("seconds", "{:.2f}"),
        "Bytes of sites": ("site_bytes", "{:,.0f}"),
    }
    return [
        Table(
            title,
            [*METHODS, *(["floor"] if key == "kl" else [])],
            {
                label: [form.format(row[name][key]) + unsettled(name, row[name]) for name in METHODS]
                + ([form.format(row["floor"])] if key == "kl" else [])
                for label, row in middle.items()
            },
        )
        for title, (key, form) in shown.items()
    ]


def unsettled(name: str, found: dict[str, Any]) -> str:
    """A mark for fits that did not converge; one pass of ADF is not meant to."""
    return "" if name == "ADF" or found["converged"] else "*"


def draw(figures: dict[str, Any], path: Path) -> None:
    """KL and test log-likelihood (less EP's) along each sweep; SEP is drawn last and dashed, for it lies on AEP."""
    figure, grid = axes_in_a_row(3, width=4.4, height=6.5, rows=2)
    for column, (sweep, (_, values)) in enumerate(SWEEPS.items()):
        rows = [(v, figures["table"][key]) for v in values if (key := f"{sweep}: {v:g}") in figures["table"]]
        at = [v for v, _ in rows]
        for name in sorted(METHODS, key=lambda name: name == "SEP"):
            style = line_style(name) | ({"ls": "--"} if name == "SEP" else {})
            kl = [row[name]["kl"] for _, row in rows]
            gap = [row[name]["less EP's"] for _, row in rows]
            grid[0][column].semilogy(at, kl, marker="o", ms=3, label=name, **style)
            grid[1][column].plot(at, gap, marker="o", ms=3, **style)
        grid[0][column].semilogy(at, [row["floor"] for _, row in rows], color="0.6", lw=0.8, ls=":")
        grid[1][column].set_xlabel(f"rows, for {N_FEATURES} coefficients" if sweep == "rows" else sweep)
        if sweep == "rows":
            for axes in (grid[0][column], grid[1][column]):
                axes.set_xscale("log")
    grid[0][0].set_ylabel("KL(p ‖ q), nats")
    grid[1][0].set_ylabel("test log-likelihood less EP's")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    save(figure, path)


SETTINGS = {
    "prior_variance": PRIOR_VARIANCE,
    "n_features": N_FEATURES,
    "n_rows": N_ROWS,
    "n_test": N_TEST,
    "methods": {name: repr(algorithm) for name, algorithm in METHODS.items()},
    "revision": 1,
}
COMPARE = Experiment("compare", "EP against variational inference", SETTINGS, cells, compute, collect, draw)
