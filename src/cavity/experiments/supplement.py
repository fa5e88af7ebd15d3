"""The supplement's experiment: logistic regression in K = 20 blocks, tilted moments by sampling.

One cell is one data set, drawn anew, on which every method makes the same number of sweeps. All visits of one method
cost the same: S draws by Hamiltonian Monte Carlo, or a tenth of its transitions, warm-up included, for the natural
gradient and for damped moment matching beside it. Nested EP shows where they would all go without noise.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cavity
from cavity.experiments.pictures import axes_in_a_row, save
from cavity.experiments.reference import nuts_reference
from cavity.experiments.runner import Claim, Experiment, Summary, Table

TITLE = "Logistic regression in blocks, with sampled moments"
N_BLOCKS = 20
N_CHAINS, N_WARMUP = 16, 5  # of the plain methods; with 400 draws that is 25 of each chain
FEW_CHAINS, FEW_WARMUP, STEP, DECAY_SWEEPS = 8, 1, 0.3, 4  # of the natural gradient
COLOURS = {
    "ADF": "C3",
    "EP": "C0",
    "SEP": "C1",
    "AEP": "C2",
    "DEP": "C4",
    "DEP, falling rate": "C6",
    "damped DEP": "C5",
    "natural gradient": "k",
}
NESTED = {"nested EP": cavity.ep(), "nested AEP": cavity.aep()}


def cells(quick: bool, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Ten data sets, or four small ones."""
    size = {"n": 1000, "dim": 6, "sweeps": 20, "draws": 400}
    if quick:
        size = {"n": 400, "dim": 3, "sweeps": 15, "draws": 160}
    return {f"seed-{s}": {"seed": s, **size} for s in range(1000 * seed, 1000 * seed + (4 if quick else 10))}


def methods(draws: int) -> dict[str, tuple[Any, cavity.Algorithm]]:
    """Factor and algorithm of each curve.

    Rates are the paper's constant one, except for the natural gradient, and for moment matching at its rate, with as
    few draws and with all: these show what is owed to the small steps alone.
    """
    logit = cavity.factors.logit()
    plain = cavity.factors.sampled(logit, draws, n_chains=N_CHAINS, n_warmup=N_WARMUP)
    few: dict[str, Any] = {"n_draws": draws // 10, "n_chains": FEW_CHAINS, "n_warmup": FEW_WARMUP}
    slower = cavity.robbins_monro(sweeps=DECAY_SWEEPS)
    damped = cavity.robbins_monro(sweeps=DECAY_SWEEPS, scale=STEP)
    return {
        "ADF": (plain, cavity.adf()),
        "EP": (plain, cavity.ep(rate=1.0)),
        "SEP": (plain, cavity.sep(rate=1.0)),
        "AEP": (plain, cavity.aep(rate=1.0)),
        "DEP": (plain, cavity.parallel_ep(rate=1.0)),
        "DEP, falling rate": (plain, cavity.parallel_ep(rate=slower)),
        "damped DEP": (cavity.factors.sampled(logit, **few), cavity.parallel_ep(rate=damped)),
        "natural gradient": (cavity.factors.sampled(logit, step=STEP, **few), cavity.parallel_ep(rate=slower)),
    }


def compute(parameters: dict[str, Any]) -> dict[str, Any]:
    """KL(p ‖ q) after every sweep of every method on one data set."""
    seed, dim, sweeps = (parameters[name] for name in ("seed", "dim", "sweeps"))
    rows = draw_data(parameters["n"], dim, seed)
    reference, prior = nuts_reference("logit", *rows, 1.0), cavity.Gaussian.isotropic(dim)
    exact = reference.posterior
    blocks = cavity.factors.in_blocks(rows, N_BLOCKS, seed)
    paths = {}
    for name, (factor, algorithm) in methods(parameters["draws"]).items():
        paths[name] = path_of(exact, factor, prior, blocks, algorithm, max_sweeps=sweeps, seed=seed)
    limits = {}
    nested = cavity.factors.nested(cavity.factors.logit())
    for name, algorithm in NESTED.items():
        limits[name] = path_of(exact, nested, prior, blocks, algorithm, tol=1e-4, seed=seed)["kl"][-1]
    return {"paths": paths, "limits": limits, "floor": reference.floor, "rhat": reference.rhat}


def draw_data(n: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """x ~ N(0, I), θ ~ N(0, I), labels by the logistic model."""
    rng = np.random.default_rng([seed, 20])
    features, theta = rng.normal(size=(n, dim)), rng.normal(size=dim)
    return features, np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-features @ theta)), 1.0, -1.0)


def path_of(exact: Any, factor: Any, prior: Any, blocks: Any, algorithm: cavity.Algorithm, **settings: Any) -> Any:
    """KL, seconds and transitions after each sweep, and how the chains mixed in the last."""
    kl: list[float] = []
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cavity.ConvergenceWarning)  # noise never settles
        warnings.simplefilter("ignore", cavity.CollapseWarning)  # ADF is there to show it
        record = lambda sweep: kl.append(float(exact.kl(sweep.posterior)))
        result = cavity.fit(factor, prior, blocks, algorithm, callback=record, evidence=False, **settings)
    path = {"kl": kl, "seconds": time.perf_counter() - start, "skipped": result.n_skipped}
    if result.sampling is not None:
        path["transitions"] = np.cumsum(result.sampling.transitions).tolist()
        path["r_hat"], path["ess"] = float(result.sampling.r_hat[-1]), float(result.sampling.ess[-1])
    return path


def collect(done: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> Summary:
    """Medians over data sets, and what they say."""
    results = [result for _, result in done.values()]
    parameters = next(iter(done.values()))[0]
    curves = {name: np.array([result["paths"][name]["kl"] for result in results]) for name in COLOURS}
    first = {name: results[0]["paths"][name] for name in COLOURS}
    late = {name: float(np.median(curve[:, -5:])) for name, curve in curves.items()}
    limits = {name: float(np.median([result["limits"][name] for result in results])) for name in NESTED}
    effort = {name: int(path["transitions"][-1]) for name, path in first.items()}
    figures = {
        "median": {name: np.median(curve, 0).tolist() for name, curve in curves.items()},
        "low": {name: np.quantile(curve, 0.25, axis=0).tolist() for name, curve in curves.items()},
        "high": {name: np.quantile(curve, 0.75, axis=0).tolist() for name, curve in curves.items()},
        "transitions": {name: path["transitions"] for name, path in first.items()},
        "late": late,
        "limits": limits,
        "worst r_hat": max(result["paths"][name]["r_hat"] for result in results for name in COLOURS),
        "smallest ess": min(result["paths"][name]["ess"] for result in results for name in COLOURS),
    }
    notes = notes_of(results, parameters, figures)
    sweeps = parameters["sweeps"]
    columns = ["KL(p ‖ q)", "transitions", "seconds, with compilation", "visits skipped"]
    each = {
        name: [
            f"{late[name]:.3f}",
            f"{effort[name]:,}",
            f"{np.median([result['paths'][name]['seconds'] for result in results]):.1f}",
            f"{np.mean([result['paths'][name]['skipped'] for result in results]) / (N_BLOCKS * sweeps):.1%}",
        ]
        for name in COLOURS
    }
    tables = [Table("At the end, by method", columns, each)]
    return Summary(figures, claims(late, limits, curves["ADF"], effort), notes, tables)


def notes_of(results: list[dict[str, Any]], parameters: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    """What a reader of the table should know."""
    floor = float(np.median([result["floor"] for result in results]))
    n, dim, sweeps, draws = (parameters[name] for name in ("n", "dim", "sweeps", "draws"))
    return [
        f"N = {n:,}, D = {dim}, K = {N_BLOCKS} blocks, prior N(0, I), {len(results)} data sets, {sweeps} sweeps.",
        f"{draws} draws at each visit; {draws // 10} for the natural gradient and damped DEP. KL is the median over "
        "data sets and the last five sweeps.",
        "KL against a Gaussian with the moments of 20,000 draws of NUTS, worst R-hat "
        f"{max(result['rhat'] for result in results):.4f}; {floor:.1g} nats cannot be told from zero.",
        f"In the last sweeps the worst R-hat was {figures['worst r_hat']:.3f}, the smallest effective number of draws "
        f"{figures['smallest ess']:.0f}.",
    ]


def claims(late: dict[str, float], limits: dict[str, float], adf: np.ndarray, effort: dict[str, int]) -> list[Claim]:
    """The supplement's, and ours."""
    return [*claims_of_paper(late, adf), *claims_of_ours(late, limits, effort["natural gradient"] / effort["EP"])]


def said(late: dict[str, float], *names: str) -> str:
    """Where some methods end."""
    return ", ".join(f"{name} {late[name]:.2f}" for name in names)


def claims_of_paper(late: dict[str, float], adf: np.ndarray) -> list[Claim]:
    """What the supplement says of the methods."""
    climbs = np.median(adf, 0)
    alike = lambda a, b: abs(np.log(late[a] / late[b])) < np.log(1.5)
    return [
        Claim(
            "AEP is as good as DEP",
            "AEP = DEP ≈ 0.9",
            said(late, "AEP", "DEP"),
            "within a factor of 1.5",
            bool(alike("AEP", "DEP")),
            "the level is that of the draws' noise",
        ),
        Claim(
            "SEP and EP are near",
            "SEP and EP ≈ 1–2",
            said(late, "SEP", "EP"),
            "at most twice AEP",
            bool(max(late["SEP"], late["EP"]) <= 2 * late["AEP"]),
        ),
        Claim(
            "ADF climbs",
            "ADF climbs",
            f"from {climbs[0]:.2f} after one pass to {climbs[-1]:.1f} after {len(climbs)}",
            "three times its first pass, and twice EP",
            bool(climbs[-1] > 3 * climbs[0] and late["ADF"] > 2 * late["EP"]),
        ),
    ]


def claims_of_ours(late: dict[str, float], limits: dict[str, float], share: float) -> list[Claim]:
    """What we say of the natural gradient, which makes that share of EP's transitions, and of EP inside the blocks."""
    natural = late["natural gradient"]
    return [
        Claim(
            "The natural gradient with a tenth of the transitions is no worse than EP with all",
            "",
            f"{said(late, 'natural gradient', 'EP')}, with {share:.2f} of the transitions",
            "at most EP, with at most 0.1 of the transitions",
            bool(natural <= late["EP"] and share <= 0.101),
            "its rate decreases, EP's does not: see the next line",
        ),
        Claim(
            "The natural gradient is no worse than moment matching with the same draws and the same rate",
            "",
            said(late, "natural gradient", "damped DEP"),
            "at most damped DEP",
            bool(natural <= late["damped DEP"]),
        ),
        Claim(
            "Moment matching with all draws, at a falling rate",
            "",
            said(late, "DEP, falling rate"),
            remark="for comparison: ten times the transitions of the natural gradient",
        ),
        Claim(
            "Without noise blocks lose next to nothing, tied or not",
            "",
            ", ".join(f"{name} {value:.4f}" for name, value in limits.items()),
            "at most a tenth of EP and DEP",
            bool(max(limits.values()) < 0.1 * min(late["EP"], late["DEP"])),
        ),
    ]


def draw(figures: dict[str, Any], path: Path) -> None:
    """KL against transitions, median and quartiles."""
    figure, axes = axes_in_a_row(1, width=7.5, height=4.8)
    for name, colour in COLOURS.items():
        effort = np.array(figures["transitions"][name]) / 1000
        axes.loglog(effort, figures["median"][name], color=colour, marker="o", markersize=3, label=name)
        axes.fill_between(effort, figures["low"][name], figures["high"][name], color=colour, alpha=0.12, linewidth=0)
    limit = figures["limits"]["nested EP"]
    axes.axhline(limit, color="0.5", linestyle=":", label="nested EP, no noise")
    axes.set(xlabel="transitions of the sampler, thousands", ylabel="KL(p ‖ q), nats", title=TITLE)
    axes.legend(frameon=False, ncols=2)
    save(figure, path)


SETTINGS = {
    "n_blocks": N_BLOCKS,
    "n_chains": N_CHAINS,
    "n_warmup": N_WARMUP,
    "few_chains": FEW_CHAINS,
    "few_warmup": FEW_WARMUP,
    "step": STEP,
    "decay_sweeps": DECAY_SWEEPS,
    "revision": 2,
}
NAME = f"Supplement: {TITLE[0].lower()}{TITLE[1:]}"
SUPPLEMENT = Experiment("supplement", NAME, SETTINGS, cells, compute, collect, draw)
