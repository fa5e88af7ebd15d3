"""Whole fits beside those of other packages, as `python -m benchmarks peers` measured them.

`python -m docs.figures.peers < lines` keeps what the benchmark printed; the figure is drawn from that.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

KEPT = Path(__file__).with_suffix(".json")
LINE = re.compile(
    r"peers (?P<what>.+?): (?P<model>\w+) / (?P<other>[^;]+?) (?P<ratio>[\d.]+)(?: \(limit (?P<limit>[\d.]+)\))?; "
    r"(?P<ours>[\d.e+-]+) s against (?P<theirs>[\d.e+-]+) s"
)
OURS, THEIRS = "#1f6fb2", "#b3362b"


def read(lines: Iterable[str]) -> list[dict[str, Any]]:
    """What the lines of the benchmark say."""
    found = [match.groupdict() for line in lines if (match := LINE.match(line))]
    numbers = ("ratio", "limit", "ours", "theirs")
    return [{key: float(v) if v and key in numbers else v for key, v in each.items()} for each in found]


def label_of(pair: dict[str, Any]) -> str:
    """The model and its rows, and below it what it is compared with."""
    model = pair["model"].removesuffix("Classifier").removesuffix("Regressor")
    return f"{model}, {pair['what']}\n{pair['other']}"


def draw(output: Path) -> None:
    """Seconds of both on a line for each pair, with the ratio beside it."""
    pairs = json.loads(KEPT.read_text(encoding="utf-8"))[::-1]
    figure, axes = plt.subplots(figsize=(8.2, 0.38 * len(pairs) + 1.1), constrained_layout=True)
    for place, pair in enumerate(pairs):
        axes.plot([pair["ours"], pair["theirs"]], [place] * 2, color="0.75", linewidth=1.2, zorder=1)
        axes.plot(pair["theirs"], place, "o", color="white", markeredgecolor=THEIRS, markersize=6)
        axes.plot(pair["ours"], place, "o", color=OURS, markersize=6)
        axes.annotate(
            f"{pair['ratio']:.2f}", (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=9
        )
    labels = [label_of(pair) for pair in pairs]
    axes.set_yticks(range(len(pairs)), labels, fontsize=7.5)
    axes.set_xscale("log")
    axes.set_xlabel("seconds of a whole fit: ours (filled) and theirs; on the right ours / theirs")
    axes.margins(y=0.04)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    KEPT.write_text(json.dumps(read(sys.stdin), indent=1) + "\n", encoding="utf-8")
