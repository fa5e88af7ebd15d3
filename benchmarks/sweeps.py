"""Sweeps of generalised linear models against NumPy's two products, for every likelihood with a rule on the host."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import cavity
from benchmarks.timing import in_turn, of_products, of_sweep

SHAPES = {(200_000, 100): 1.5, (1_000_000, 20): 3.0}  # and the limit there,
OF_STUDENT = {(200_000, 100): 2.0}  # and that of Student's t, where it is another
ALGORITHMS = {"AEP": cavity.aep(), "parallel EP": cavity.parallel_ep()}


def binomial(y: Any, a: Any) -> Any:
    """A user's likelihood: counts out of totals."""
    count, total = y
    return count * a - total * np.logaddexp(0.0, a)


FACTORS = {
    "probit": cavity.factors.probit(),
    "logit": cavity.factors.logit(),
    "Poisson": cavity.factors.poisson(),
    "binomial": cavity.factors.glm(binomial),
    "Student-t": cavity.factors.student_t(4.0, 0.5),
}


def lines() -> Iterator[str]:
    """One line per shape and likelihood."""
    for shape, usual in SHAPES.items():
        for name, factor in FACTORS.items():
            limit = OF_STUDENT.get(shape, usual) if name == "Student-t" else usual
            yield line(name, factor, shape, limit)


def line(name: str, factor: Any, shape: tuple[int, int], limit: float) -> str:
    """A sweep of each algorithm in the time of the products."""
    data = observations(name, *shape)
    sweeps = {key: of_sweep(factor, data, algorithm, count=2) for key, algorithm in ALGORITHMS.items()}
    *times, products = in_turn({**sweeps, "NumPy": of_products(data[0])}, rounds=3).values()
    told = [f"{key} {seconds / products:.2f}" for key, seconds in zip(sweeps, times, strict=True)]
    return (
        f"sweep / NumPy (X.T @ X, X @ S), {name} at {shape[0]:,} × {shape[1]}: {', '.join(told)} (limit {limit}); "
        f"NumPy {1e3 * products:.0f} ms"
    )


def observations(name: str, n: int, dim: int) -> Any:
    """Gaussian inputs and observations from the model."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n, dim))
    activation = features @ rng.normal(size=dim) / np.sqrt(dim)
    noise = {"probit": rng.normal, "logit": rng.logistic}.get(name)
    if noise is not None:
        return features, np.where(activation + noise(size=n) > 0, 1.0, -1.0)
    if name == "Poisson":
        return features, rng.poisson(np.exp(0.5 * activation)).astype(float)
    if name == "Student-t":
        return features, activation + 0.5 * rng.standard_t(4, size=n)
    total = rng.integers(1, 10, n)
    return features, (rng.binomial(total, 1 / (1 + np.exp(-activation))).astype(float), total.astype(float))
