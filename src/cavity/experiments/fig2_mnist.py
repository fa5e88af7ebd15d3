"""Figure 2, panel (c): odd against even digits of MNIST by probit regression, test log-likelihood over iterations."""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cavity
from cavity.datasets import load
from cavity.experiments.pictures import axes_in_a_row, line_style, save
from cavity.experiments.runner import Claim, Experiment, Summary

PRIOR_VARIANCE = 1.0
ITERATIONS = (10, 40, 100, 200, 500)  # of the paper
SINGLY = 40  # sweeps with one row at a time; in batches of a hundred after that
BATCH = 100
TOL = 1e-3  # posterior standard deviations
IN_BATCHES = ("DSEP, K = 10",)  # from the start: going from group to group costs a factorisation at each visit
METHODS = ("EP", "DSEP, K = 10", "SEP", "literal SEP", "ADF")
DATA_GB = 70_000 * 785 * 8 / 1e9  # all rows in double precision
ENOUGH = 0.002  # test log-likelihood between methods that end the same


class Digits(NamedTuple):
    """Pixels in [0, 1] with a column of ones, ±1 for odd and even, and the digits."""

    X: np.ndarray
    y: np.ndarray
    digit: np.ndarray


def digits(images: np.ndarray, labels: np.ndarray) -> Digits:
    """As the model wants them."""
    features = np.column_stack([images / 255.0, np.ones(len(images))])
    return Digits(features, np.where(labels % 2 == 1, 1.0, -1.0), labels.astype(int))


def make(seed: int, per_digit: int | None) -> tuple[Digits, Digits]:
    """So many of each digit, drawn at random (all of them for None), and the test set."""
    data = load("mnist")
    images, labels = data.X[: data.n_train], data.y[: data.n_train]
    if per_digit is not None:
        rng = np.random.default_rng(seed)
        chosen = [rng.choice(np.flatnonzero(labels == digit), per_digit, replace=False) for digit in range(10)]
        images, labels = images[np.concatenate(chosen)], labels[np.concatenate(chosen)]
    return digits(images, labels), digits(data.X[data.n_train :], data.y[data.n_train :])


def algorithm(method: str, train: Digits, batch_size: int) -> cavity.Algorithm:
    """The method, with batches of this size."""
    return {
        "EP": lambda: cavity.ep(batch_size),
        "DSEP, K = 10": lambda: cavity.dsep(10, train.digit, batch_size),
        "SEP": lambda: cavity.sep(batch_size),
        "literal SEP": lambda: cavity.sep(batch_size, rate=1.0),
        "ADF": lambda: cavity.adf(batch_size),
    }[method]()


def cells(quick: bool, seed: int) -> dict[str, dict[str, Any]]:
    """One per method and subset, and SEP on all 60,000."""
    seeds = [1000 * seed + i for i in range(1 if quick else 5)]
    size = (
        {"per_digit": 30, "iterations": ITERATIONS[:2], "singly": 2}
        if quick
        else {
            "per_digit": 1000,
            "iterations": ITERATIONS,
            "singly": SINGLY,
        }
    )
    parts = {
        f"{method.replace(' ', '').replace(',', '-')}-seed{s}": {
            "method": method,
            "seed": s,
            **size,
            "singly": 0 if method in IN_BATCHES else size["singly"],
        }
        for s in seeds
        for method in METHODS
    }
    if not quick:
        parts["SEP-all"] = {"method": "SEP", "seed": seeds[0], "per_digit": None, "iterations": [10], "singly": 0}
    return parts


def compute(cell: dict[str, Any]) -> dict[str, Any]:
    """One cell; that of all rows in a process of its own, whose memory is that of this fit alone."""
    if cell["per_digit"] is not None:
        return compute_here(cell)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(compute_here, cell).result()


def compute_here(cell: dict[str, Any]) -> dict[str, Any]:
    """Test log-likelihood after each of the first 20 sweeps and every tenth, until the last or until q has settled."""
    train, test = make(cell["seed"], cell["per_digit"])
    at: list[int] = []
    value: list[float] = []
    last = max(cell["iterations"])

    def look(sweep: Any, before: int) -> None:
        number = before + sweep.number
        if number <= 20 or number % 10 == 0 or number in cell["iterations"]:
            at.append(number)
            value.append(log_likelihood(sweep.posterior, test))

    start = time.perf_counter()
    result = run(cell, train, last, look)
    seconds = time.perf_counter() - start
    if not at or at[-1] != result.sweeps:
        at.append(result.sweeps)
        value.append(log_likelihood(result.fit.posterior, test))
    return {
        "iteration": at,
        "log_likelihood": value,
        "sweeps": result.sweeps,
        "converged": result.fit.converged,
        "site_bytes": result.fit.site_bytes,
        "rows": len(train.y),
        "seconds": seconds,
        "peak_memory": peak_memory(),
    }


def peak_memory() -> float | None:
    """Bytes that this process has held at most, data and libraries included; None where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024.0 * int(line.split()[1])


class Run(NamedTuple):
    """The last fit of a run, and the sweeps of all."""

    fit: cavity.Result
    sweeps: int


def run(cell: dict[str, Any], train: Digits, last: int, look: Any) -> Run:
    """Sweeps one row at a time, then in batches. ADF goes on from its posterior, the others from their sites."""
    prior: Any = cavity.Gaussian.isotropic(train.X.shape[1], PRIOR_VARIANCE)
    parts = [(1, min(cell["singly"], last)), (BATCH, last - min(cell["singly"], last))]
    fit, done = None, 0
    for batch_size, sweeps in parts:
        if sweeps == 0 or (fit is not None and fit.converged and cell["method"] not in ("literal SEP", "ADF")):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cavity.ConvergenceWarning)
            warnings.simplefilter("ignore", cavity.CollapseWarning)
            fit = cavity.fit(
                cavity.factors.probit(),
                prior,
                (train.X, train.y),
                algorithm(cell["method"], train, batch_size),
                max_sweeps=sweeps,
                tol=0.0 if cell["method"] in ("literal SEP", "ADF") else TOL,
                seed=cell["seed"],
                callback=partial(look, before=done),
                evidence=False,
                start=None if cell["method"] == "ADF" else fit,
            )
        done += fit.n_sweeps
        prior = fit.posterior if cell["method"] == "ADF" else prior
    assert fit is not None
    return Run(fit, done)


def log_likelihood(q: cavity.Gaussian, test: Digits) -> float:
    """Mean of log Φ(y m / √(1 + v)) over the test rows."""
    from scipy.special import log_ndtr

    variance = np.einsum("ni,ni->n", test.X @ np.asarray(q.covariance), test.X)
    return float(np.mean(log_ndtr(test.y * (test.X @ q.mean) / np.sqrt(1 + variance))))


PAPER = {
    "EP": "≈ −0.283",
    "DSEP, K = 10": "≈ −0.283",
    "SEP": "",
    "literal SEP": "rises from −0.301 to −0.287",
    "ADF": "falls to −0.292",
}


PAPER_POINTS = {  # (iteration, test log-likelihood) read off the figure
    "EP": ((10, -0.283), (500, -0.283)),
    "literal SEP": ((10, -0.301), (500, -0.287)),
    "ADF": ((500, -0.292),),
}


def collect(done: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> Summary:
    """Values at the paper's iterations: means over subsets."""
    table: dict[str, dict[int, list[float]]] = {}
    for cell, result in done.values():
        if cell["per_digit"] is not None:
            for iteration in cell["iterations"]:
                table.setdefault(cell["method"], {}).setdefault(iteration, []).append(value_at(result, iteration))
    curves = {
        method: {
            str(k): [float(np.mean(v)), float(np.std(v, ddof=1) / len(v) ** 0.5) if len(v) > 1 else 0.0]
            for k, v in row.items()
        }
        for method, row in table.items()
    }
    sites = {cell["method"]: result["site_bytes"] for cell, result in done.values() if cell["per_digit"] is not None}
    rows, size = next((r["rows"], c) for c, r in done.values() if c["method"] == "EP")
    claims = [*curve_claims(table), *memory_claims(sites, rows)]
    for cell, result in done.values():
        if cell["per_digit"] is None:
            value, seconds, held = result["log_likelihood"][-1], result["seconds"], result["site_bytes"] / 1e6
            found = f"{value:.4f} in {seconds:.0f} s, {held:.1f} MB of sites"
            if result["peak_memory"] is not None:
                found += f"; {result['peak_memory'] / 1e9:.1f} GB for the whole process, {DATA_GB:.1f} of them pixels"
            claims.append(Claim(f"SEP on all {result['rows']:,} rows, {result['sweeps']} sweeps", "", found))
    notes = [
        f"{rows:,} training rows, {len(table['EP'][min(size['iterations'])])} random subsets, 10,000 test rows, pixels "
        f"in [0, 1], prior variance {PRIOR_VARIANCE:g}; one row at a time for the first {size['singly']} sweeps, then "
        f"{BATCH}; DSEP in batches of {BATCH} throughout.",
        "Methods that settle are not run on: their last value stands for all later iterations. Literal SEP hovers at a "
        f"level that depends on the batch, so part of its change after {size['singly']} sweeps is that of the batch.",
        "Seconds of the fit to all rows include compilation and the looks at the test set.",
    ]
    return Summary({"curves": curves}, claims, notes)


def value_at(result: dict[str, Any], iteration: int) -> float:
    """At an iteration, or the last before it."""
    place = np.searchsorted(result["iteration"], iteration, side="right") - 1
    return result["log_likelihood"][place]


def curve_claims(table: dict[str, dict[int, list[float]]]) -> list[Claim]:
    """Where each method is at the end, and how it got there."""
    claims, first, last = [], min(table["EP"]), max(table["EP"])
    at = {method: {k: float(np.mean(v)) for k, v in row.items()} for method, row in table.items()}
    ep = at["EP"][last]
    near = f"at most {ENOUGH} from EP at the end, or above it"
    bars: dict[str, tuple[str, Any]] = {
        "DSEP, K = 10": (near, lambda row: row[last] >= ep - ENOUGH),
        "SEP": (near, lambda row: row[last] >= ep - ENOUGH),
        "literal SEP": ("rising, below EP", lambda row: row[first] < row[last] < ep),
        "ADF": ("falling, below EP", lambda row: row[last] < min(row[first], ep)),
    }
    for method, row in at.items():
        bar, judge = bars.get(method, ("", None))
        shown = ", ".join(f"{value:.4f} ({k})" for k, value in row.items())
        what = f"{method}: test log-likelihood (at iteration)"
        claims.append(Claim(what, PAPER[method], shown, bar, bool(judge(row)) if judge else None))
    return claims


def memory_claims(sites: dict[str, int], rows: int) -> list[Claim]:
    """EP's memory as the paper counts it, a D × D site for each row, and as it is stored here."""
    counted = rows * 785 * 786 / 2 * 8 / 1e9
    kept = f"{sites['EP'] / 1e3:.0f} kB, two numbers for each row; {counted:.1f} GB if each had a matrix"
    share = f"{sites['DSEP, K = 10'] / 1e6:.0f} MB, {100 * 10 / rows:.2g} % of a matrix for each row"
    return [
        Claim("EP: memory of the sites", "", kept),
        Claim("DSEP, K = 10: memory of the sites", "0.001 % of full EP's", share, remark="10 matrices for all rows"),
    ]


def draw(figures: dict[str, Any], path: Path) -> None:
    """Test log-likelihood at the paper's iterations."""
    figure, axes = axes_in_a_row(1, width=6.5)
    for method, row in figures["curves"].items():
        at = [int(k) for k in row]
        mean, se = np.array(list(row.values())).T
        axes.errorbar(at, mean, se, marker="o", ms=3, label=method, **line_style(method))
    for method, points in PAPER_POINTS.items():
        where = {"marker": "s", "ms": 5, "ls": "none", "mfc": "none"}
        label = f"paper's {method.removeprefix('literal ')}"
        axes.plot(*zip(*points, strict=True), color=line_style(method)["color"], label=label, **where)
    axes.set_xscale("log")
    axes.set_xticks(at, [str(k) for k in at])
    axes.minorticks_off()
    axes.set(xlabel="iteration", ylabel="test log-likelihood", title="Figure 2(c): MNIST, odd against even")
    axes.legend(frameon=False)
    save(figure, path)


SETTINGS = {"prior_variance": PRIOR_VARIANCE, "batch": BATCH, "tol": TOL, "revision": 1}
FIG2C = Experiment("fig2c", "Figure 2(c): MNIST, odd against even digits", SETTINGS, cells, compute, collect, draw)
