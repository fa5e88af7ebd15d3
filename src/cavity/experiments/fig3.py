"""Figure 3: the means of a mixture of Gaussians, posteriors drawn as ellipses and their errors over time.

One cell is one method on one data set. All components of the prior are alike, and would stay so: every method begins
with the prior's covariances around the centres that k-means finds.
"""

from pathlib import Path
from typing import Any

import numpy as np

import cavity
from cavity.datasets import SyntheticMixture, synthetic_mixture
from cavity.experiments import traces
from cavity.experiments.pictures import axes_in_a_row, line_style, save
from cavity.experiments.reference import MixtureReference, aligned, mixture_reference
from cavity.experiments.runner import Claim, Experiment, Summary, Table

N_ROWS, N_COMPONENTS, DIM, NOISE = 200, 4, 2, 0.5  # of the paper
SEPARATION = 1.25  # of the true centres: 2.5 standard deviations of the noise, so that NUTS keeps to its labels
TOL = 1e-6  # posterior standard deviations, for methods that settle
LEVEL = 0.98  # of the ellipses
SETTLING = {"EP": cavity.ep(), "SEP": cavity.sep(), "AEP": cavity.aep()}
RESTLESS = {"literal SEP": cavity.sep(rate=1.0), "ADF": cavity.adf()}  # make all the sweeps that they are given
METHODS = {**SETTLING, **RESTLESS}
MEASURES = ("mean", "covariance", "average", "worst")
MEAN_BAR, COVARIANCE_BAR, ASSIGNED_BAR = 0.1, 1.25, 0.99
SHADES = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a")  # of the components
SETTINGS = {
    "rows": N_ROWS,
    "components": N_COMPONENTS,
    "dim": DIM,
    "noise": NOISE,
    "separation": SEPARATION,
    "tol": TOL,
    "revision": 1,
}
Done = dict[str, tuple[dict[str, Any], dict[str, Any]]]
Results = dict[str, list[dict[str, Any]]]  # by method, one for each data set


def cells(quick: bool, seed: int) -> dict[str, dict[str, Any]]:
    """One per method and data set."""
    size = {"sweeps": 40, "n_draws": 4000} if quick else {"sweeps": 200, "n_draws": 80_000}
    seeds = range(1000 * seed, 1000 * seed + (2 if quick else 10))
    return {f"{name.replace(' ', '')}-seed{s}": {"method": name, "seed": s, **size} for s in seeds for name in METHODS}


def make(seed: int) -> SyntheticMixture:
    """The paper's mixture, with centres that can be told apart."""
    return synthetic_mixture(N_ROWS, N_COMPONENTS, DIM, NOISE, SEPARATION, seed)


def centres_of(data: SyntheticMixture) -> np.ndarray:
    """Centres found by k-means, in the order of the true ones: the truth decides nothing but names."""
    from sklearn.cluster import KMeans

    found = KMeans(N_COMPONENTS, n_init=10, random_state=0).fit(data.X).cluster_centers_
    return aligned(found, data.centres)[0]


def compute(cell: dict[str, Any]) -> dict[str, Any]:
    """The errors of one method after every sweep, and where it ends."""
    data, name = make(cell["seed"]), cell["method"]
    centres = centres_of(data)
    reference = mixture_reference(data.X, centres, NOISE**2, cell["n_draws"])
    factor = cavity.factors.mixture(np.full(N_COMPONENTS, 1 / N_COMPONENTS), NOISE**2)
    seconds, path, result = run(name, factor, data.X, centres, cell["sweeps"])
    errors = [reference.errors(q) for q in path]
    rounded = lambda values: [float(f"{value:.6g}") for value in values]
    return {
        **{measure: rounded(each[measure] for each in errors) for measure in MEASURES},
        "seconds": rounded(seconds),
        "assigned": assignments(factor, result.posterior, data.X),
        "component": data.component,
        "posterior": {"mean": result.posterior.mean, "covariance": result.posterior.covariance},
        "site_bytes": result.site_bytes,
        "reference": about(reference),
    }


def run(name: str, factor: Any, points: np.ndarray, centres: np.ndarray, sweeps: int) -> Any:
    """The path of one method. ADF has no sites that could make up a start, and takes it for its prior."""
    unit = np.tile(np.eye(DIM), (N_COMPONENTS, 1, 1))
    start, prior = (cavity.Gaussian.from_mean(mean, unit) for mean in (centres, np.zeros_like(centres)))
    options: dict[str, Any] = {"max_sweeps": sweeps, "tol": 0.0 if name in RESTLESS else TOL}
    if name == "ADF":
        return traces.path_of_fit(factor, start, points, METHODS[name], **options)
    return traces.path_of_fit(factor, prior, points, METHODS[name], start=start, **options)


def assignments(factor: Any, q: cavity.Gaussian, points: np.ndarray) -> np.ndarray:
    """The most probable component of each point."""
    import jax

    with jax.enable_x64(True):
        return np.asarray(jax.vmap(lambda x: factor.responsibilities(q, x))(points)).argmax(axis=1)


def about(reference: MixtureReference) -> dict[str, float]:
    """All but the moments, and how large an error a posterior without any spread has."""
    nothing = float(np.mean(np.linalg.norm(reference.covariance, axis=(1, 2))))
    return {**dict(zip(reference._fields[2:], reference[2:], strict=True)), "norm": nothing}


def collect(done: Done) -> Summary:
    """Claims over all data sets, medians by method, and the posteriors of the first."""
    of = {name: [result for cell, result in done.values() if cell["method"] == name] for name in METHODS}
    first = next(iter(done.values()))[0]
    data = make(first["seed"])
    middle = lambda key: float(np.median([result["reference"][key] for result in of["EP"]]))
    shown = ("EP", "SEP", "ADF")
    figures = {
        "points": data.X,
        "centres": data.centres,
        "truth": data.component,
        "sweeps": first["sweeps"],
        "panels": {name: {"assigned": of[name][0]["assigned"], **of[name][0]["posterior"]} for name in shown},
        "curves": {name: medians(results) for name, results in of.items() if name != "AEP"},
        "floor": {"mean": middle("mean_floor"), "covariance": middle("covariance_floor")},
        "norm": middle("norm"),
    }
    notes = notes_on([result["reference"] for result in of["EP"]], first)
    return Summary(figures, claims(of), notes, [table(of, figures["floor"])])


def medians(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Over data sets, sweep by sweep; a method that has settled stays where it is."""
    longest = max(len(result["mean"]) for result in results)
    filled = lambda values: [*values, *[values[-1]] * (longest - len(values))]
    keys = ("seconds", "mean", "covariance")
    return {key: np.median([filled(result[key]) for result in results], axis=0) for key in keys}


def level(name: str, values: list[float]) -> float:
    """Where a method ends; for one that hovers, the middle of its second half."""
    return float(np.median(values[-(len(values) // 2) :])) if name == "literal SEP" else values[-1]


def alike(one: dict[str, Any], other: list[int]) -> float:
    """Share of the points with the same assignment."""
    return float(np.mean(np.equal(one["assigned"], other)))


def claims(of: Results) -> list[Claim]:
    """The paper's, and by how much they hold."""
    pairs = list(zip(of["SEP"], of["EP"], strict=True))
    ratios = [one["covariance"][-1] / other["covariance"][-1] for one, other in pairs]
    same = [alike(one, other["assigned"]) for one, other in pairs]
    return [
        mean_claim("SEP", of["SEP"], MEAN_BAR),
        Claim(
            "SEP: error of the covariances as a multiple of EP's",
            "nearly identical to EP",
            f"median {np.median(ratios):.2f}; of each data set {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
            f"median at most {COVARIANCE_BAR}",
            bool(np.median(ratios) <= COVARIANCE_BAR),
        ),
        Claim(
            "SEP: share of the points assigned as by EP",
            "nearly identical to EP",
            f"at least {min(same):.1%}",
            f"at least {ASSIGNED_BAR:.0%} on every data set",
            bool(min(same) >= ASSIGNED_BAR),
        ),
        collapse(of["ADF"]),
        *(mean_claim(name, of[name]) for name in ("EP", "literal SEP", "ADF")),
    ]


def mean_claim(name: str, results: list[dict[str, Any]], bar: float | None = None) -> Claim:
    """Errors of the means, the average over components and dimensions held to a bar where there is one."""
    average, worst = ([level(name, result[key]) for result in results] for key in ("average", "worst"))
    shown = f"largest {max(average):.3f}, median {np.median(average):.3f}; the worst of one coordinate {max(worst):.3f}"
    what = f"{name}: error of the means in posterior standard deviations, average over components and dimensions"
    claim = Claim(what, "good estimates of the means", shown)
    return claim if bar is None else claim._replace(bar=f"at most {bar} on every data set", holds=max(average) <= bar)


def collapse(results: list[dict[str, Any]]) -> Claim:
    """ADF counts the data until no spread is left; its error is then the size of the covariance itself."""
    early, late = ([result["covariance"][i] for result in results] for i in (0, -1))
    shares = [result["covariance"][-1] / result["reference"]["norm"] for result in results]
    return Claim(
        "ADF: error of the covariances, from the first sweep to the last",
        "collapses towards a point estimate",
        f"from {np.median(early):.4f} to {np.median(late):.4f}, {np.median(shares):.1%} of the covariance itself",
        "grows on every data set",
        bool(np.all(np.greater(late, early))),
    )


def table(of: Results, floor: dict[str, float]) -> Table:
    """Medians over data sets of where each method ends."""
    columns = ["F-norm of means", "F-norm of covariances", "error of means in sds, average", "worst"]
    columns += ["assigned as by EP", "as in truth", "sweeps", "seconds", "bytes of sites"]
    rows = {}
    for name, results in of.items():
        middle = lambda values: float(np.median(list(values)))
        ends = {key: middle(level(name, result[key]) for result in results) for key in MEASURES}
        rows[name] = [
            *(f"{ends[key]:.5f}" for key in MEASURES[:2]),
            *(f"{ends[key]:.3f}" for key in MEASURES[2:]),
            f"{np.mean([alike(*pair) for pair in zip(results, [r['assigned'] for r in of['EP']], strict=True)]):.1%}",
            f"{np.mean([alike(result, result['component']) for result in results]):.1%}",
            f"{middle(len(result['mean']) for result in results):g}",
            f"{middle(result['seconds'][-1] for result in results):.2g}",
            f"{results[0]['site_bytes']:,}",
        ]
    rows["reference, its own error"] = [f"{floor['mean']:.5f}", f"{floor['covariance']:.5f}", *[""] * 7]
    return Table("At the end, by method", columns, rows)


def notes_on(references: list[dict[str, float]], cell: dict[str, Any]) -> list[str]:
    """What a reader should know."""
    floor = {key: np.median([each[f"{key}_floor"] for each in references]) for key in ("mean", "covariance")}
    most = {key: max(each[key] for each in references) for key in ("rhat", "permuted")}
    return [
        f"N = {N_ROWS}, J = {N_COMPONENTS}, D = {DIM}, noise {NOISE:g}, prior N(0, I) for each mean; "
        f"{len(references)} data sets, whose centres are drawn until they are {SEPARATION:g} apart.",
        f"The reference is {cell['n_draws']:,} draws of NUTS in four chains with assignments summed out, begun at the "
        f"centres of k-means; worst R-hat {most['rhat']:.4f}, smallest effective size "
        f"{min(each['effective'] for each in references):,.0f}. Labels had to be put back in {most['permuted']:.2%} "
        "of the draws of a data set at most. The reference's own error, by standard errors, is "
        f"{floor['mean']:.1g} in F-norm of the means and {floor['covariance']:.1g} of the covariances.",
        f"EP, SEP and AEP stop when they have settled; literal SEP and ADF make {cell['sweeps']} sweeps. The level "
        "given for literal SEP is the median over the second half of its sweeps.",
        "Every method begins with the prior's covariances around the centres of k-means, without which all components "
        "would stay alike. For ADF, which has no sites, that is the prior: each mean is drawn to its centre and not to "
        "zero, with the weight of a quarter of a row.",
    ]


def draw(figures: dict[str, Any], path: Path) -> None:
    """(a) the truth and three posteriors of the first data set; (b) errors over seconds, and over sweeps."""
    figure, axes = axes_in_a_row(4, width=3.9, height=7.6, rows=2)
    truth = {"assigned": figures["truth"]}
    panels = {"(a) truth": truth, "EP": figures["panels"]["EP"], "SEP": figures["panels"]["SEP"]}
    panels[f"ADF, {figures['sweeps']} sweeps"] = figures["panels"]["ADF"]
    for each, (title, panel) in zip(axes[:, :2].flat, panels.items(), strict=True):
        draw_posterior(each, figures, panel)
        each.set_title(title)
    for row, key in enumerate(("mean", "covariance")):
        draw_errors(axes[row, 2:], figures, key)
    for column, unit, label in ((2, "seconds", "seconds, without compilation"), (3, "sweeps", "sweeps")):
        axes[0, column].set_title(f"(b) error over {unit}")
        axes[1, column].set_xlabel(label)
    for each, place in ((axes[1, 1], "left"), (axes[1, 3], "right")):
        handles, labels = each.get_legend_handles_labels()
        figure.legend(handles, labels, loc=f"outside lower {place}", ncols=len(labels), frameon=False)
    save(figure, path)


def draw_posterior(axes: Any, figures: dict[str, Any], panel: dict[str, Any]) -> None:
    """Points by assignment, true centres as crosses, and an ellipse around each posterior mean."""
    from matplotlib.patches import Ellipse

    points, centres = np.array(figures["points"]), np.array(figures["centres"])
    axes.scatter(*points.T, s=7, c=[SHADES[j] for j in panel["assigned"]], alpha=0.55, linewidths=0)
    axes.plot(*centres.T, "k+", ms=7, label="true centre")
    axes.plot([], "ko", fillstyle="none", label=f"{LEVEL:.0%} of the posterior")
    radius = np.sqrt(-2 * np.log(1 - LEVEL))  # of a Gaussian in the plane
    for mean, covariance in zip(panel.get("mean", ()), panel.get("covariance", ()), strict=True):
        values, vectors = np.linalg.eigh(covariance)
        width, height = 2 * radius * np.sqrt(values)
        angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
        axes.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, color="k", lw=1.3))
    axes.set_aspect("equal")


def draw_errors(axes: Any, figures: dict[str, Any], key: str) -> None:
    """F-norms over seconds and over sweeps; dotted, what the reference cannot tell from zero."""
    for name, curve in figures["curves"].items():
        axes[0].loglog(curve["seconds"], curve[key], **line_style(name))
        axes[1].loglog(range(1, len(curve[key]) + 1), curve[key], label=name, **line_style(name))
    for each in axes:
        each.axhline(figures["floor"][key], color="0.4", lw=1.0, ls=":", label="error of the reference")
    axes[0].set_ylabel(f"F-norm of {key}s")


TITLE = "Figure 3: mixture of Gaussians"
FIG3 = Experiment("fig3", TITLE, SETTINGS, cells, compute, collect, draw)
