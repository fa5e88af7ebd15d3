"""The pages on the experiments say what the committed results say."""

import json
from pathlib import Path

import pytest

from cavity.experiments.catalogue import EXPERIMENTS
from cavity.experiments.compare import COMPARE
from cavity.experiments.runner import plain

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {"reproduction.md": ("fig2a", "fig2b", "table1", "supplement"), "comparison.md": ("compare",)}


def results_of(name):
    return json.loads((DOCS / "reproduction" / name / "results.json").read_text(encoding="utf-8"))


def quoted(page):
    """Rows of the tables below "What was found", without heads and rules."""
    lines = (DOCS / page).read_text(encoding="utf-8").split("## What was found")[1].splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines if line.startswith("|")]
    rules = [i for i, row in enumerate(rows) if set("".join(row)) <= set("-: ")]
    return [row for i, row in enumerate(rows) if i not in rules and i + 1 not in rules]


def known(name):
    """What a row may say: a claim with the paper's number and ours, or a line of a table."""
    results = results_of(name)
    claims = {(claim["what"], claim["paper"], claim["ours"]) for claim in results["claims"]}
    lines = {(label, *cells) for table in results["tables"] for label, cells in table["rows"].items()}
    return claims | lines


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_results(page):
    rows = quoted(page)
    assert len(rows) > 10
    assert not set(rows) - set().union(*(known(name) for name in PAGES[page]))


@pytest.mark.parametrize("name", [name for names in PAGES.values() for name in names])
def test_results_are_of_the_full_run(name):
    results = results_of(name)
    assert not results["quick"]
    assert results["claims"]
    assert results["settings"] == plain({**EXPERIMENTS, "compare": COMPARE}[name].settings)
    assert (DOCS / "reproduction" / name / "figure.png").exists()
