"""The paper's memory table: what a network's sites take by EP and by SEP; and SEP on rows as many as Year's.

Every fit runs in a process of its own, whose most resident bytes are those of Python, libraries, data and fit together.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cavity.experiments.pictures import axes_in_a_row, save
from cavity.experiments.runner import Claim, Experiment, Summary, Table

UNITS = {"kin8nm": 50, "naval": 50, "power": 50, "protein": 100, "wine_red": 50, "year": 100}
PAPER = {"kin8nm": 58, "naval": 147, "power": 37, "protein": 694, "wine_red": 14, "year": 65_107}  # saved by SEP
MEBI = 2**20  # what the paper calls a megabyte, by its number for Year
NEAR = 0.1  # of the paper's number
LIMIT = 2e9  # bytes, for SEP on Year in all
YEAR = (463_715, 90)  # training rows and features


def cells(quick: bool, seed: int) -> dict[str, dict[str, Any]]:
    """EP and SEP on each set; Year by SEP, with EP's refusal."""
    of = lambda name, algorithm, **more: {"set": name, "algorithm": algorithm, "n_epochs": 2, "seed": seed, **more}
    sets = ("wine_red",) if quick else tuple(name for name in UNITS if name != "year")
    small = {f"{name}-{algorithm}": of(name, algorithm) for name in sets for algorithm in ("sep", "ep")}
    rows = 2_000 if quick else YEAR[0]
    return {**small, "year-sep": of("year", "sep", rows=rows), "year-ep": of("year", "ep", rows=rows)}


def compute(cell: dict[str, Any]) -> dict[str, Any]:
    """A fit in a process of its own."""
    run = [sys.executable, "-m", "cavity.experiments.one_network", json.dumps({**cell, "units": UNITS[cell["set"]]})]
    return json.loads(subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


def collect(done: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> Summary:
    """What SEP saves, as stored and as the paper counts, and the whole of a fit."""
    found: dict[str, dict[str, Any]] = {}
    for cell, result in done.values():
        found.setdefault(cell["set"], {})[cell["algorithm"]] = result
    figures = {name: row_of(pair) for name, pair in found.items()}
    claims = [saving(name, row) for name, row in figures.items() if not scaled(found[name])]
    claims += year_claims(found["year"])
    notes = [
        "Saved is what EP's sites take beyond SEP's one, in units of 2^20 bytes, as the paper's. As the paper counts: "
        "two numbers of eight bytes for each weight and row, and one more for each row, which gives the paper's number "
        "for Year to the last digit. As stored: two more for the noise and two for the precision of the weights.",
        "Resident is the most that a process held, with Python, JAX, the data and, by EP, a warm-up.",
        f"Year is {found['year']['sep']['data']}. For EP on Year the bytes are those of the refusal.",
    ]
    return Summary({"sets": figures, "paper": PAPER}, claims, notes, [table_of(figures)])


def row_of(pair: dict[str, Any]) -> dict[str, float]:
    """Numbers of a set, in bytes."""
    sep, ep = pair["sep"], pair["ep"]
    return {
        "rows": ep["rows"],
        "weights": ep["n_weights"],
        "ep": ep["site_bytes"],
        "sep": sep["site_bytes"],
        "counted": 8 * ep["rows"] * (2 * ep["n_weights"] + 1),
        "ep_resident": ep["peak"] if ep["refusal"] is None else None,
        "sep_resident": sep["peak"],
    }


def scaled(pair: dict[str, Any]) -> bool:
    """Whether this is a small version of Year, to which the paper's number does not apply."""
    return pair["ep"]["n_features"] == YEAR[1] and pair["ep"]["rows"] != YEAR[0]


def saving(name: str, row: dict[str, float]) -> Claim:
    """Beside the paper's."""
    stored, counted = (row["ep"] - row["sep"]) / MEBI, (row["counted"] - row["sep"]) / MEBI
    holds = bool(abs(stored / PAPER[name] - 1) <= NEAR)
    ours = f"{stored:,.1f} MB stored, {counted:,.1f} MB as the paper counts"
    return Claim(f"{name}: saved by SEP", f"{PAPER[name]:,} MB", ours, "stored: within a tenth", holds)


def year_claims(pair: dict[str, Any]) -> list[Claim]:
    """SEP within its limit, EP refused before it begins."""
    sep, ep = pair["sep"], pair["ep"]
    peak = sep["peak"]
    what = f"year: SEP on {sep['rows']:,} × {sep['n_features']} rows, 100 units, the whole process"
    shown = "not known on this system" if peak is None else f"{peak / 1e9:.2f} GB, {sep['data_bytes'] / 1e9:.2f} data"
    claims = [Claim(what, "", shown, "below 2 GB", None if peak is None else peak < LIMIT)]
    said = ep["refusal"] or f"not refused: {ep['site_bytes'] / 1e9:.1f} GB fit into the memory of this machine"
    names_all = ep["refusal"] is not None and all(word in said for word in ("SEP", "site_dtype", "site_directory"))
    holds = names_all and ep["epochs"] == 0 if ep["refusal"] is not None else None
    bar = "before the first epoch, with the size and what to use instead"
    return [*claims, Claim("year: EP is refused", "", said, bar, holds)]


def table_of(figures: dict[str, dict[str, Any]]) -> Table:
    """All in megabytes of 2^20 bytes."""
    mega = lambda value: "" if value is None else f"{value / MEBI:,.4g}" if value < 1e9 else f"{value / MEBI:,.0f}"
    columns = ["rows", "weights", "EP's sites", "SEP's site", "saved, paper", "EP, resident", "SEP, resident"]
    rows = {
        name: [
            f"{row['rows']:,}",
            f"{row['weights']:,}",
            *(mega(row[key]) for key in ("ep", "sep")),
            f"{PAPER[name]:,}",
            *(mega(row[key]) for key in ("ep_resident", "sep_resident")),
        ]
        for name, row in figures.items()
    }
    return Table("Megabytes", columns, rows)


def draw(figures: dict[str, Any], path: Path) -> None:
    """Bytes of sites by EP and SEP, and the paper's, on a logarithmic scale."""
    sets = figures["sets"]
    figure, axes = axes_in_a_row(1, width=8)
    at = np.arange(len(sets))
    resident = [row["sep_resident"] or np.nan for row in sets.values()]
    bars = {
        "EP's sites": ([row["ep"] for row in sets.values()], "k"),
        "SEP's site": ([row["sep"] for row in sets.values()], "C0"),
        "whole process, SEP": (resident, "0.75"),
    }
    for place, (label, (values, colour)) in enumerate(bars.items()):
        axes.bar(at + 0.26 * (place - 1), np.array(values) / MEBI, 0.24, color=colour, label=label)
    paper = [figures["paper"][name] for name in sets]
    axes.plot(at - 0.26, paper, "s", ms=7, mfc="none", color="C3", label="saved, in the paper")
    axes.set_xticks(at, list(sets))
    axes.set(yscale="log", ylabel="megabytes", title="Memory of networks by EP and by SEP")
    axes.axhline(LIMIT / MEBI, color="0.4", lw=0.8, ls=":", label="2 GB")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, path)


SETTINGS = {"units": UNITS, "rows": YEAR, "revision": 1}
MEMORY = Experiment("memory", "Memory of networks by EP and by SEP", SETTINGS, cells, compute, collect, draw)
