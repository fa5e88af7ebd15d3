"""EP's sites and work arrays at N = 200,000, D = 20, by XLA's own analysis of the compiled sweep."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.timing import probit_data
from cavity.inference import memory
from cavity.inference.driver import on_device, one_sweep
from cavity.inference.problem import Problem

N, DIM, LIMIT = 200_000, 20, 20.0


def lines() -> Iterator[str]:
    """Megabytes beyond one copy of X."""
    algorithm, data = cavity.ep(), probit_data(N, DIM)
    with jax.enable_x64(True):
        problem = Problem.of(cavity.factors.probit(), cavity.Gaussian.isotropic(DIM), data, algorithm, None, 0)
        state = problem.kernel.init(problem.model, own=True)
        plan = memory.plan(np.random.default_rng(0), problem.slots, 1, replace=False)
        rates = np.ones(len(plan.rows))
        mode = problem.kernel.mode(problem.model, problem.weight, plan, rates)
        lowered = one_sweep.lower(problem.kernel, state, problem.model, on_device(plan), jnp.asarray(rates), 1.0, mode)
        analysis = lowered.compile().memory_analysis()
    total = analysis.argument_size_in_bytes + analysis.output_size_in_bytes + analysis.temp_size_in_bytes
    beyond = (total - data[0].nbytes) / 1e6
    sites = sum(leaf.nbytes for leaf in jax.tree.leaves(state.sites)) / 1e6
    as_counted = N * (DIM + DIM * DIM) * 8 / 1e6
    yield (
        f"EP at {N:,} × {DIM}: {beyond:.1f} MB of arguments, results and work arrays beyond X (limit {LIMIT:.0f}); "
        f"sites {sites:.1f} MB as stored, {as_counted:.0f} MB as full Gaussians"
    )
