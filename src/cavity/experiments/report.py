"""One page with all results in a directory: the paper's numbers beside ours."""

import base64
import html
import json
from pathlib import Path
from typing import Any

from cavity.experiments.catalogue import EXPERIMENTS

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
img { max-width: 100%; }
.yes { color: #17702f; } .no { color: #b3261e; font-weight: 600; } .none { color: #777; }
.note { color: #555; }
"""
VERDICTS = {True: ("yes", "holds"), False: ("no", "does not hold"), None: ("none", "–")}


def write_report(output: Path) -> Path:
    """report.html, from every results.json found below: the paper's experiments in its order, then others."""
    names = list(EXPERIMENTS)
    place = lambda name: names.index(name) if name in names else len(names)
    found = sorted(
        output.glob("*/results.json"), key=lambda path: (place(path.parent.name.removesuffix("-quick")), path)
    )
    sections = [section(path.parent, json.loads(path.read_text(encoding="utf-8"))) for path in found]
    page = (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>cavity: the paper's experiments</title><style>{STYLE}</style>"
        "<h1>The paper's experiments</h1><p class='note'>Li, Hernández-Lobato &amp; Turner (2015), “Stochastic "
        "Expectation Propagation”. Tables set what the paper has beside what was found here; “must be” is what decides "
        "whether a line holds.</p>" + "".join(sections) + "</html>"
    )
    path = output / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def section(folder: Path, results: dict[str, Any]) -> str:
    """One experiment."""
    rows = "".join(row(claim) for claim in results["claims"])
    made = "; ".join(", ".join(f"{name} {value}" for name, value in each.items()) for each in results["with"])
    notes = [*results["notes"], f"Seed {results['seed']}, {made}."]
    quick = " (quick: too small for conclusions)" if results["quick"] else ""
    return (
        f"<h2 id='{html.escape(folder.name)}'>{html.escape(results['title'])}{quick}</h2>{picture(folder)}"
        + "".join(f"<p class='note'>{html.escape(note)}</p>" for note in notes)
        + f"<table><tr><th>what</th><th>paper</th><th>here</th><th>must be</th><th></th><th></th></tr>{rows}</table>"
        + "".join(table(each) for each in results["tables"])
    )


def table(content: dict[str, Any]) -> str:
    """Numbers side by side."""
    line = lambda tag, cells: "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
    rows = "".join(line("td", [name, *cells]) for name, cells in content["rows"].items())
    return f"<h3>{html.escape(content['title'])}</h3><table>{line('th', ['', *content['columns']])}{rows}</table>"


def row(claim: dict[str, Any]) -> str:
    """One claim."""
    kind, verdict = VERDICTS[claim["holds"]]
    cells = [html.escape(claim[name]) for name in ("what", "paper", "ours", "bar")]
    return (
        "<tr>"
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + f"<td class='{kind}'>{verdict}</td><td class='note'>{html.escape(claim['remark'])}</td></tr>"
    )


def picture(folder: Path) -> str:
    """The figure inside the page, so that it can be sent as one file."""
    path = folder / "figure.png"
    if not path.exists():
        return ""
    encoded = base64.b64encode(path.read_bytes()).decode()
    return f"<img alt='{html.escape(folder.name)}' src='data:image/png;base64,{encoded}'>"
