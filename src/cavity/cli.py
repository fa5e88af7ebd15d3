"""The command line: argument parsing only."""

import argparse
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    """Run `cavity …`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="cavity", description="Bayesian learning by expectation propagation.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="five algorithms on breast-cancer data: a table and a figure")
    demo.add_argument("--output", type=Path, default=Path("cavity-demo.png"), help="where the figure goes")
    demo.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    try:
        from cavity.experiments import demo as demonstration

        print(demonstration.run(arguments.seed, arguments.output))
    except ImportError as error:
        print(f"cavity demo needs {error.name}: pip install 'cavity[demo]'", file=sys.stderr)
        return 1
    print(f"figure: {arguments.output}")
    return 0
