"""The Python in README.md and in the pages of docs/ runs, top to bottom, one namespace for each page.

A block without a language, after one of Python and the words "It prints", is what it prints.
"""

import re
from pathlib import Path

import pytest

from tests.registry import thinned

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\nIt prints\n\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if BLOCK.search(page.read_text())]
LONG = ("algorithms.md", "extending.md")  # to compile


def blocks(page: Path) -> list[tuple[str, str | None]]:
    """The code of each block and what it should print, if the page says.

    Code comes after as many empty lines as stand before it: tracebacks then give the page's lines.
    """
    text = page.read_text()
    return [("\n" * text.count("\n", 0, found.start(1)) + found[1], found[2]) for found in BLOCK.finditer(text)]


def test_pages_are_found() -> None:
    assert any(printed for _, printed in blocks(ROOT / "README.md"))
    assert {"README.md", "algorithms.md", "extending.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", thinned(PAGES, lambda page: page.name not in LONG), ids=[page.name for page in PAGES])
def test_code_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {"__name__": page.stem}
    for code, printed in blocks(page):
        capsys.readouterr()
        exec(compile(code, str(page), "exec"), namespace)
        if printed is not None:
            assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing


def test_the_index_lists_every_page_and_decision() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert pages <= set(re.findall(r"\]\((\w+\.md)\)", index))
    assert re.findall(r"^(\d+)\. \[.+\]\(decisions/(.+)\)$", index, re.MULTILINE) == [
        (str(int(path.name[:4])), path.name) for path in decisions
    ]


def test_contributing_names_every_package() -> None:
    packages = {path.parent.relative_to(ROOT / "src" / "cavity") for path in (ROOT / "src").rglob("__init__.py")}
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert not [name for package in packages for name in package.parts if f"`{name}/`" not in text]
