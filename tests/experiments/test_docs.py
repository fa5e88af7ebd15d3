"""The pages on the experiments say what the committed results say."""

import shutil

import pytest

from cavity.experiments.catalogue import EXPERIMENTS
from cavity.experiments.compare import COMPARE
from cavity.experiments.report import write_report
from cavity.experiments.runner import plain
from docs.tables import DOCS, PAGES, TABLE, results_of, section, tables_of

ALL = {**EXPERIMENTS, "compare": COMPARE}
NAMES = [(page, name) for page, names in PAGES.items() for name in names]


def tables_in(text):
    """Rows of cells, head first, for each table."""
    rows = lambda block: [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return [[row for row in rows(block) if set("".join(row)) - set("-: ")] for block in TABLE.findall(text)]


@pytest.mark.parametrize(("page", "name"), NAMES)
def test_tables_are_those_of_the_results(page, name):
    text = (DOCS / page).read_text(encoding="utf-8")
    begin, end = section(text, name)
    assert tables_in(text[begin:end]) == tables_of(results_of(name))


@pytest.mark.parametrize("name", [name for _, name in NAMES])
def test_results_are_of_the_full_run(name):
    results = results_of(name)
    assert not results["quick"]
    assert results["claims"]
    assert results["settings"] == plain(ALL[name].settings)
    assert (DOCS / "reproduction" / name / "figure.png").exists()


@pytest.mark.parametrize("name", ALL)
def test_results_are_enough_for_the_figure(name, tmp_path):
    """Cells, which take hours, are not in the repository."""
    ALL[name].draw(results_of(name)["figures"], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_results_are_enough_for_the_report(tmp_path):
    for name in ALL:
        (tmp_path / name).mkdir()
        shutil.copy(DOCS / "reproduction" / name / "results.json", tmp_path / name)
    assert write_report(tmp_path).read_text(encoding="utf-8").count("<h2") == len(ALL)
