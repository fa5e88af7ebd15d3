"""Experiments: cells that are computed one by one and kept, so that a run can be interrupted and goes on.

An experiment is a few functions. Its cells are independent pieces of work, each with parameters and a result that go
into one JSON file; a cell whose file is there, with the same parameters and settings, is not computed again.
"""

import json
import os
import platform
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import cavity


class Claim(NamedTuple):
    """One statement of the paper, or of ours, beside what was found."""

    what: str
    paper: str  # what the paper has; empty if it says nothing
    ours: str
    bar: str = ""  # what must be so for it to hold
    holds: bool | None = None  # None where there is no bar
    remark: str = ""


class Table(NamedTuple):
    """Numbers side by side, as they are to be read."""

    title: str
    columns: list[str]
    rows: dict[str, list[str]]


class Summary(NamedTuple):
    """What is made of all cells."""

    figures: dict[str, Any]  # all that the picture needs, in numbers
    claims: list[Claim]
    notes: list[str]  # settings that a reader should know
    tables: list[Table] = []  # noqa: RUF012 - never changed


class Experiment(NamedTuple):
    """One figure or table of the paper."""

    id: str
    title: str
    settings: dict[str, Any]  # what decides a result besides the parameters of its cell
    cells: Callable[[bool, int], dict[str, dict[str, Any]]]  # (quick, seed) -> parameters by key
    compute: Callable[[dict[str, Any]], dict[str, Any]]  # parameters -> result
    collect: Callable[[dict[str, tuple[dict[str, Any], dict[str, Any]]]], Summary]  # (parameters, result) by key
    draw: Callable[[dict[str, Any], Path], None]  # (figures, where)


def reproduce(experiment: Experiment, output: Path, *, quick: bool = False, seed: int = 0) -> Summary:
    """Compute what is missing; write results.json and figure.png into a directory of the experiment's own."""
    folder = folder_of(experiment, output, quick)
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    done, computed_with = {}, []
    cells = experiment.cells(quick, seed)
    with threadpool_limits(1, user_api="blas"), interruptible():  # threads of BLAS would wait for those of XLA
        for key in (bar := tqdm(cells, desc=experiment.id, unit="cell")):
            bar.set_postfix_str(key)
            kept = cell(experiment, folder / "cells" / f"{key}.json", cells[key])
            done[key] = cells[key], kept["result"]
            if kept["with"] not in computed_with:
                computed_with.append(kept["with"])
    summary = experiment.collect(done)
    about = {
        "title": experiment.title,
        "quick": quick,
        "seed": seed,
        "settings": experiment.settings,
        "with": computed_with,
    }
    write_json(folder / "results.json", {**about, **as_json(summary)})
    experiment.draw(summary.figures, folder / "figure.png")
    return summary


class Interrupted(BaseException):
    """The user wants to stop. A fit answers KeyboardInterrupt with what it has; that must not pass for a result."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, an interrupt ends all; outside it is a KeyboardInterrupt as ever."""
    other = threading.current_thread() is not threading.main_thread()  # receives no signals
    if other or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for jobs in the background
        yield
        return

    def stop(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


def folder_of(experiment: Experiment, output: Path, quick: bool) -> Path:
    """Quick results never mix with full ones."""
    return output / (f"{experiment.id}-quick" if quick else experiment.id)


def cell(experiment: Experiment, path: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    """A result with all about it, from its file or computed now. Other versions of libraries do not undo a result."""
    about = plain({"parameters": parameters, "settings": experiment.settings})
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if {key: kept.get(key) for key in about} == about:
            return kept
    kept = {**about, "result": plain(experiment.compute(about["parameters"])), "with": versions()}
    write_json(path, kept)
    return kept


def versions() -> dict[str, str]:
    """What a result may depend on."""
    return {"cavity": cavity.__version__, "jax": jax.__version__, "numpy": np.__version__, "cpu": platform.machine()}


def as_json(summary: Summary) -> dict[str, Any]:
    """A summary as plain numbers and words."""
    claims, tables = ([each._asdict() for each in part] for part in (summary.claims, summary.tables))
    return {"claims": claims, "tables": tables, "notes": summary.notes, "figures": plain(summary.figures)}


def plain(value: Any) -> Any:
    """Dicts, lists and numbers of Python, as they are after a round trip through JSON."""
    convert = lambda leaf: leaf.tolist() if isinstance(leaf, np.ndarray | np.generic) else str(leaf)
    return json.loads(json.dumps(value, default=convert))


def write_json(path: Path, value: Any) -> None:
    """All or nothing."""
    text = json.dumps(plain(value), indent=1)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)
