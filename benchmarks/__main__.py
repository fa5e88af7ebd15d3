"""Print what docs/benchmarks.md reports. Both sides of every ratio run in turn, on the same threads."""

import argparse
import os
import platform

import jax
import numpy as np

from benchmarks import (
    averaged,
    batches,
    fields,
    latency,
    memory,
    mixture,
    network,
    network_batches,
    network_options,
    peers,
    sequential,
    sparse,
    sweeps,
    tracing,
)

PARTS = {
    "averaged": averaged,
    "sweeps": sweeps,
    "fields": fields,
    "sequential": sequential,
    "batches": batches,
    "peers": peers,
    "latency": latency,
    "tracing": tracing,
    "memory": memory,
    "sparse": sparse,
    "mixture": mixture,
    "network": network,
    "network_batches": network_batches,
    "network_options": network_options,
}


def main() -> None:
    """Run all parts, or those named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    chosen = parser.parse_args().parts or list(PARTS)
    print(f"{platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}, jax {jax.__version__}, float64")
    for name in chosen:
        for line in PARTS[name].lines():
            print(line, flush=True)


if __name__ == "__main__":
    main()
