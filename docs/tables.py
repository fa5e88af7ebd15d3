"""Writes the tables of committed results into the pages that speak of them: `python -m docs.tables`."""

import json
import re
from pathlib import Path
from typing import Any

from cavity.experiments.catalogue import EXPERIMENTS

DOCS = Path(__file__).parent
PAGES = {"reproduction.md": tuple(EXPERIMENTS), "comparison.md": ("compare",)}
HOLDS = {True: "yes", False: "no", None: ""}
TABLE = re.compile(r"(?:^\|.*\n)+", flags=re.MULTILINE)


def results_of(name: str) -> dict[str, Any]:
    """What a full run of an experiment found."""
    return json.loads((DOCS / "reproduction" / name / "results.json").read_text(encoding="utf-8"))


def tables_of(results: dict[str, Any]) -> list[list[list[str]]]:
    """Rows of cells, head first: the claims, then the tables."""
    claims = [[c["what"], c["paper"], c["ours"], c["bar"], HOLDS[c["holds"]]] for c in results["claims"]]
    others = [[["", *t["columns"]], *[[label, *row] for label, row in t["rows"].items()]] for t in results["tables"]]
    return [[["claim", "paper", "here", "must be", "holds"], *claims], *others]


def section(page: str, name: str) -> tuple[int, int]:
    """Where the text on an experiment begins and ends: from the line that names its command to the next heading."""
    begin = page.index("## What was found") + 1
    if f"`cavity reproduce {name}`\n" in page[begin:]:
        begin = page.index(f"`cavity reproduce {name}`\n", begin)
    end = re.compile(r"^##", flags=re.MULTILINE).search(page, begin)
    return begin, end.start() if end else len(page)


def in_markdown(table: list[list[str]]) -> str:
    """A table as the pages have it."""
    head, *rows = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([head, "|" + "---|" * len(table[0]), *rows, ""])


def renewed(page: str, name: str) -> str:
    """The page, with the tables of an experiment replaced one by one."""
    begin, end = section(page, name)
    tables = tables_of(results_of(name))
    found = TABLE.findall(page[begin:end])
    if len(found) != len(tables):
        raise ValueError(f"{name}: the page has {len(found)} tables, the results {len(tables)}")
    new = iter(tables)
    return page[:begin] + TABLE.sub(lambda _: in_markdown(next(new)), page[begin:end]) + page[end:]


def main() -> None:
    """All pages."""
    for file, names in PAGES.items():
        page = (DOCS / file).read_text(encoding="utf-8")
        for name in names:
            page = renewed(page, name)
        (DOCS / file).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
