"""Record fits, or compare fits with a record.

python -m tests.records save FILE      # run all cases; those that FILE has already are not run again
python -m tests.records compare FILE   # run all cases and print how far each number has moved
"""

import argparse
import re
from pathlib import Path

import jax
import numpy as np

from tests.records.cases import Arrays, cases


def load(path: Path) -> dict[str, Arrays]:
    """Arrays by case and name."""
    found: dict[str, Arrays] = {}
    if path.exists():
        with np.load(path) as file:
            for key in file.files:
                case, name = key.split("|")
                found.setdefault(case, {})[name] = file[key]
    return found


def save(path: Path, only: str) -> None:
    found = load(path)
    for case, run in cases().items():
        if case not in found and re.search(only, case):
            found[case] = run()
            jax.clear_caches()  # programs of a hundred fits are more memory maps than a process may have
            print(case, {name: array.size for name, array in found[case].items()}, flush=True)
            with path.open("wb") as file:
                np.savez_compressed(file, **{f"{c}|{n}": a for c, arrays in found.items() for n, a in arrays.items()})


def distance(new: np.ndarray, old: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    if new.shape != old.shape or not np.array_equal(np.isnan(new), np.isnan(old)):
        return np.inf
    return float(np.nanmax(np.abs(new - old), initial=0.0) / max(np.nanmax(np.abs(old), initial=0.0), 1e-300))


def compare(path: Path, only: str) -> None:
    """A line for each case: what moved after one sweep, at the end, and beside the spread over seeds."""
    old = load(path)
    for case, run in cases().items():
        if not re.search(only, case):
            continue
        new = run()
        jax.clear_caches()
        moved = {name: distance(new[name], array) for name, array in old[case].items() if not name.startswith("seed")}
        text = "  ".join(f"{name} {value:.1e}" for name, value in moved.items())
        seeds = sorted(name for name in old[case] if name.startswith("seed"))
        if seeds:
            names = sorted({name.split("/")[1] for name in seeds})
            for name in names:
                before, after = (np.stack([run[f"seed{i}/{name}"] for i in range(3)]) for run in (old[case], new))
                spread = np.sqrt(np.mean((before - before.mean(0)) ** 2) + 1e-300)
                gap = np.sqrt(np.mean((after.mean(0) - before.mean(0)) ** 2))
                text += f"  seeds/{name} moved by {gap / spread:.2f} of their spread"
        print(f"{case:45s} {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.records", description=__doc__)
    parser.add_argument("what", choices=["save", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="a regular expression for the names of cases")
    options = parser.parse_args()
    {"save": save, "compare": compare}[options.what](options.file, options.only)


if __name__ == "__main__":
    main()
