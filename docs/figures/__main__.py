"""Draw every figure, or those named on the command line, next to this file."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from docs.figures import calibration, clustering, cube, fixed_points, pairs, peers

FIGURES = {
    "calibration": calibration.draw,
    "clustering_density": clustering.draw_density,
    "clustering_evidence": clustering.draw_evidence,
    "clustering_means": clustering.draw_means,
    "cube": cube.draw,
    "fixed_points": fixed_points.draw,
    "pairs": pairs.draw,
    "peers": peers.draw,
}


def main() -> None:
    """Write the figures and say where."""
    parser = argparse.ArgumentParser(prog="python -m docs.figures", description=__doc__)
    parser.add_argument("figures", nargs="*", choices=[*FIGURES, []], help="default: all")
    for name in parser.parse_args().figures or FIGURES:
        output = Path(__file__).with_name(f"{name}.png")
        FIGURES[name](output)
        print(output.name)


if __name__ == "__main__":
    main()
