"""The pages on the experiments say what the committed results say."""

import json
import re
from pathlib import Path

import pytest

from cavity.experiments.catalogue import EXPERIMENTS
from cavity.experiments.compare import COMPARE
from cavity.experiments.runner import plain

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"reproduction.md": tuple(EXPERIMENTS), "comparison.md": ("compare",)}
NAMES = [name for names in PAGES.values() for name in names]
CLAIMS = ["claim", "paper", "here", "must be", "holds"]


def results_of(name):
    return json.loads((DOCS / "reproduction" / name / "results.json").read_text(encoding="utf-8"))


def section(name):
    """The text on an experiment: from the line that names its command to the next heading."""
    page = next(page for page, names in PAGES.items() if name in names)
    found = (DOCS / page).read_text(encoding="utf-8").split("## What was found")[1]
    if page == "reproduction.md":
        found = found.split(f"`cavity reproduce {name}`\n")[1]
    return re.split(r"^##", found, flags=re.MULTILINE)[0]


def tables_in(text):
    """Rows of cells, head first, for each table."""
    blocks = re.findall(r"(?:^\|.*\n)+", text + "\n", flags=re.MULTILINE)
    rows = lambda block: [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return [[row for row in rows(block) if set("".join(row)) - set("-: ")] for block in blocks]


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_of_the_results(name):
    results, tables = results_of(name), tables_in(section(name))
    claims = [row for head, *rows in tables if head == CLAIMS for row in rows]
    word = {True: "yes", False: "no", None: ""}
    assert claims == [[c["what"], c["paper"], c["ours"], c["bar"], word[c["holds"]]] for c in results["claims"]]
    others = [table for table in tables if table[0] != CLAIMS]
    kept = [[["", *t["columns"]], *[[label, *row] for label, row in t["rows"].items()]] for t in results["tables"]]
    assert others == kept


@pytest.mark.parametrize("name", NAMES)
def test_results_are_of_the_full_run(name):
    results = results_of(name)
    assert not results["quick"]
    assert results["claims"]
    assert results["settings"] == plain({**EXPERIMENTS, "compare": COMPARE}[name].settings)
    assert (DOCS / "reproduction" / name / "figure.png").exists()
