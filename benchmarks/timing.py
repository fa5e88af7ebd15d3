"""Best of several, after a warm-up."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import cavity
from cavity.inference import memory
from cavity.inference.driver import close_sweep, on_device, one_sweep
from cavity.inference.measure import measure
from cavity.inference.problem import Problem


def interleaved(functions: dict[str, Callable[[], Any]], repeats: int = 7) -> dict[str, float]:
    """Seconds of each function, the best of `repeats` rounds in which all take turns."""
    for function in functions.values():
        jax.block_until_ready(function())
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def probit_data(n: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian inputs and labels from the model."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, dim))
    return features, np.where(features @ rng.normal(size=dim) / np.sqrt(dim) + rng.normal(size=n) > 0, 1.0, -1.0)


def sweep(data: tuple[np.ndarray, np.ndarray], algorithm: cavity.Algorithm) -> Callable[[], Any]:
    """One sweep of the probit model from the state after a first sweep, as `fit` runs it."""
    prior = cavity.Gaussian.isotropic(data[0].shape[1])
    with jax.enable_x64(True):
        problem = Problem.of(cavity.factors.probit(), prior, data, algorithm, None, 0)
        plan = memory.plan(np.random.default_rng(0), problem.slots, algorithm.batch_size, algorithm.replace)
        rates = np.ones(len(plan.rows))
        mode = problem.kernel.mode(problem.model, problem.weight, plan, rates)
        arguments = problem.model, on_device(plan), jax.numpy.asarray(rates)
        state = problem.kernel.init(problem.model, problem.slots.own)

    def run(state: Any) -> Any:
        with jax.enable_x64(True):
            model = problem.model
            end, _ = one_sweep(problem.kernel, state, *arguments, algorithm.power, mode)
            end, _ = close_sweep(model.prior, model.counts, state, end, 1.0, average=algorithm.settles)
            return end, measure(state.q, state.q, state.q, end.q)

    warm = jax.block_until_ready(run(state))[0]
    return lambda: run(warm)
