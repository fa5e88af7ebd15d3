"""The command line: argument parsing only."""

import argparse
import sys
from pathlib import Path
from typing import Any

EXPERIMENT_IDS = (
    "fig2a",
    "fig2b",
    "fig2c",
    "table1",
    "fig3",
    "table2",
    "memory",
    "supplement",
)  # known without importing what they need


def main(argv: list[str] | None = None) -> int:
    """Run `cavity …`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="cavity", description="Bayesian learning by expectation propagation.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="five algorithms on breast-cancer data: a table and a figure")
    demo.add_argument("--output", type=Path, default=Path("cavity-demo.png"), help="where the figure goes")
    demo.add_argument("--seed", type=int, default=0)
    demo.set_defaults(run=run_demo, extra="demo")
    again = commands.add_parser("reproduce", help="an experiment of the paper: results, a figure and a report")
    again.add_argument("id", choices=[*EXPERIMENT_IDS, "all"], help="which one")
    again.add_argument("--quick", action="store_true", help="small versions, a few minutes in all")
    again.add_argument("--seed", type=int, default=0, help="of the first data set")
    again.add_argument("--output", type=Path, default=Path("cavity-reproduction"), help="directory of the results")
    again.set_defaults(run=run_reproduce, extra="all")
    compare = commands.add_parser("compare", help="EP, its relatives and VI on real and synthetic classification")
    compare.add_argument("--quick", action="store_true", help="a few small problems")
    compare.add_argument("--seed", type=int, default=0, help="of the first repetition")
    compare.add_argument("--output", type=Path, default=Path("cavity-reproduction"), help="directory of the results")
    compare.set_defaults(run=run_compare, extra="all")
    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except ImportError as error:
        print(
            f"cavity {arguments.command} needs {error.name}: pip install 'cavity[{arguments.extra}]'", file=sys.stderr
        )
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Interrupted: what is finished was kept, and the same command goes on from there.", file=sys.stderr)
    return 1


def run_demo(arguments: argparse.Namespace) -> int:
    """cavity demo."""
    from cavity.experiments import demo

    print(demo.run(arguments.seed, arguments.output))
    print(f"figure: {arguments.output}")
    return 0


def run_reproduce(arguments: argparse.Namespace) -> int:
    """cavity reproduce ID."""
    from cavity.experiments.catalogue import EXPERIMENTS

    return run_experiments(
        list(EXPERIMENTS.values()) if arguments.id == "all" else [EXPERIMENTS[arguments.id]], arguments
    )


def run_compare(arguments: argparse.Namespace) -> int:
    """cavity compare."""
    from cavity.experiments.compare import COMPARE

    return run_experiments([COMPARE], arguments)


def run_experiments(experiments: list[Any], arguments: argparse.Namespace) -> int:
    """One after the other, and the report of all that is there, whatever happens on the way."""
    from cavity.datasets import DatasetError
    from cavity.experiments.report import write_report
    from cavity.experiments.runner import reproduce

    status = 0
    try:
        for experiment in experiments:
            try:
                summary = reproduce(experiment, arguments.output, quick=arguments.quick, seed=arguments.seed)
            except DatasetError as error:  # a data set that is not there is no reason to leave out the others
                print(f"\n{experiment.title}: left out. {error}", file=sys.stderr)
                status = 1
                continue
            print(f"\n{experiment.title}")
            for claim in summary.claims:
                print(f"  {claim.what}: {claim.ours}{in_words(claim)}")
    finally:
        if arguments.output.exists():
            print(f"report: {write_report(arguments.output)}")
    return status


def in_words(claim: Any) -> str:
    """What a claim is held against."""
    paper = f"; paper: {claim.paper}" if claim.paper else ""
    bar = f"; must be: {claim.bar}" if claim.bar else ""
    return paper + bar + {True: " - holds", False: " - DOES NOT HOLD", None: ""}[claim.holds]
