"""How the pictures of the experiments look."""

from pathlib import Path
from typing import Any

COLOURS = {
    "ADF": "C3",
    "EP": "k",
    "AEP": "C2",
    "SEP": "C0",
    "literal": "C1",
    "DAEP": "C4",
    "DSEP": "C4",
    "NUTS": "0.5",
    "SVI": "C5",
    "VI": "C5",
    "power": "C6",
    "DEP": "C8",
}
SHADES = ("-", "--", "-.", ":", (0, (1, 1)))


def axes_in_a_row(n: int, width: float = 5.2, height: float = 4.2, rows: int = 1) -> Any:
    """A figure with axes side by side, in one row or several."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(rows, n, figsize=(width * n, height), layout="constrained")
    for each in figure.axes:
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def line_style(name: str) -> dict[str, Any]:
    """A colour for the algorithm, and dashes for its minibatch or its number of sites."""
    kind = next((kind for kind in COLOURS if name.startswith(kind)), "")
    number = int("".join(c for c in name if c.isdigit()) or 0)
    dashes = 3 if "diagonal" in name else {0: 0, 1: 0, 5: 1, 10: 2, 50: 3, 100: 4, 500: 1}.get(number, 0)
    return {"color": COLOURS.get(kind, "C7"), "ls": SHADES[dashes], "lw": 1.4}


def save(figure: Any, path: Path) -> None:
    """To a file, and out of memory."""
    from matplotlib import pyplot as plt

    figure.savefig(path, dpi=130)
    plt.close(figure)
