"""Every family, factor and algorithm the shared tests run over. A new one adds one entry and inherits the suite."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import families
from cavity.families import ExpFamily

Lead = tuple[int, ...]


def spd(rng: np.random.Generator, lead: Lead, dim: int) -> np.ndarray:
    """Well-conditioned symmetric positive definite matrices."""
    root = rng.normal(size=(*lead, dim, dim))
    return root @ np.swapaxes(root, -1, -2) / dim + np.eye(dim)


# Families


@dataclasses.dataclass(frozen=True)
class FamilyCase:
    """How to draw a random member, with leading axes, and the frozen scipy distribution of one without."""

    draw: Callable[[np.random.Generator, Lead], ExpFamily]
    scipy: Callable[[Any], Any] | None = None
    redundant: int = 0  # antisymmetric directions of symmetric matrix leaves, in which A is constant
    any_finite: bool = False  # whether every finite η is proper


def _product(rng: np.random.Generator, lead: Lead) -> ExpFamily:
    names = ("gaussian", "gamma", "categorical")
    return families.Product({name: FAMILIES[name].draw(rng, lead) for name in names})


def _wishart(rng: np.random.Generator, lead: Lead) -> ExpFamily:
    return families.Wishart(rng.uniform(1.5, 6.0, lead), spd(rng, lead, 2))


def _normal_wishart(rng: np.random.Generator, lead: Lead) -> ExpFamily:
    mean, count, df = rng.normal(size=(*lead, 2)), rng.uniform(0.5, 3.0, lead), rng.uniform(3.5, 6.0, lead)
    return families.NormalWishart.from_parameters(mean, count, df, spd(rng, lead, 2))


def _normal_gamma(rng: np.random.Generator, lead: Lead) -> ExpFamily:
    mean, count, shape = rng.normal(size=(*lead, 2)), rng.uniform(0.5, 3.0, lead), rng.uniform(1.5, 6.0, lead)
    return families.NormalGamma.from_parameters(mean, count, shape, rng.uniform(0.5, 2.0, lead))


FAMILIES = {
    "gaussian": FamilyCase(
        lambda rng, lead: families.Gaussian(rng.normal(size=(*lead, 2)), spd(rng, lead, 2)),
        lambda q: stats.multivariate_normal(
            np.linalg.solve(q.precision, q.shift), np.linalg.inv(q.precision), allow_singular=False
        ),
        redundant=1,
    ),
    "diagonal-gaussian": FamilyCase(
        lambda rng, lead: families.DiagonalGaussian(rng.normal(size=(*lead, 2)), rng.uniform(0.5, 3.0, (*lead, 2))),
        lambda q: stats.multivariate_normal(q.shift / q.precision, np.diag(1 / q.precision)),
    ),
    "gamma": FamilyCase(
        lambda rng, lead: families.Gamma(rng.uniform(0.3, 5.0, lead), rng.uniform(0.5, 2.0, lead)),
        lambda q: stats.gamma(q.shape, scale=1 / q.rate),
    ),
    "beta": FamilyCase(
        lambda rng, lead: families.Beta(rng.uniform(0.3, 5.0, lead), rng.uniform(0.3, 5.0, lead)),
        lambda q: stats.beta(q.alpha, q.beta),
    ),
    "dirichlet": FamilyCase(
        lambda rng, lead: families.Dirichlet(rng.uniform(0.3, 5.0, (*lead, 3))),
        lambda q: stats.dirichlet(q.concentration),
    ),
    "bernoulli": FamilyCase(
        lambda rng, lead: families.Bernoulli(rng.normal(size=lead)),
        lambda q: stats.bernoulli(1 / (1 + np.exp(-q.logit))),
        any_finite=True,
    ),
    "categorical": FamilyCase(
        lambda rng, lead: families.Categorical(rng.normal(size=(*lead, 2))),
        lambda q: stats.rv_discrete(values=(np.arange(3), np.exp([*q.logits, 0]) / np.exp([*q.logits, 0]).sum())),
        any_finite=True,
    ),
    "wishart": FamilyCase(
        _wishart,
        lambda q: stats.wishart(float(q.df), np.linalg.inv(q.rate)),
        redundant=1,
    ),
    "normal-wishart": FamilyCase(_normal_wishart, redundant=1),
    "normal-gamma": FamilyCase(_normal_gamma),
    "product": FamilyCase(_product, redundant=1),
}


def member(name: str, seed: int = 0, lead: Lead = (2,)) -> Any:
    """A fixed random member of a family: two independent copies, unless asked otherwise."""
    return FAMILIES[name].draw(np.random.default_rng(seed), lead)


def leaves(tree: Any) -> list[np.ndarray]:
    """The numbers in a pytree as NumPy, which keeps float64 outside the precision scope."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def assert_trees_close(got: Any, wanted: Any, rtol: float, atol: float | None = None) -> None:
    """Every leaf equal within tolerance; the absolute one is by default that share of the largest number."""
    for left, right in zip(leaves(got), leaves(wanted), strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol * np.abs(right).max() if atol is None else atol)


def copy(tree: Any, index: int) -> Any:
    """One of the independent copies of a member, or of its θ."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


@functools.cache
def draws(name: str) -> Any:
    """10,000 draws of `member(name)`, shared by all tests because samplers are slow to compile."""
    return member(name).sample(jax.random.key(7), (10_000,))


# Factors


@dataclasses.dataclass(frozen=True)
class FactorCase:
    """A factor with a prior and a few data, small enough to be compiled and checked by brute force."""

    factor: Any
    prior: Any
    data: Any
    exact: Callable[[Any, Any, np.ndarray], Any] | None = None  # the posterior of a conjugate model


def _glm(factor: Any, observe: Callable[..., np.ndarray], prior: Any = None, exact: Any = None) -> FactorCase:
    rng = np.random.default_rng(5)
    features = rng.normal(size=(12, 2))
    activation = features @ np.array([0.8, -0.5])
    prior = prior or families.Gaussian.from_mean([0.3, -0.2], [[1.0, 0.3], [0.3, 0.8]])
    return FactorCase(factor, prior, (features, observe(rng, activation)), exact)


def _signs(rng: np.random.Generator, activation: np.ndarray) -> np.ndarray:
    return np.where(activation + rng.normal(size=len(activation)) > 0, 1.0, -1.0)


def _noisy(rng: np.random.Generator, activation: np.ndarray) -> np.ndarray:
    return activation + 0.7 * rng.normal(size=len(activation))


def _least_squares(prior: Any, data: Any, weight: np.ndarray) -> Any:
    features, y = data
    return prior + families.Gaussian(2 * features.T @ (weight * y), 2 * features.T @ (weight[:, None] * features))


def _added(natural: Callable[[Any], Any]) -> Callable[[Any, Any, np.ndarray], Any]:
    """The exact posterior of a conjugate model: the prior plus what each datum says, weight times."""
    return lambda prior, data, weight: sum((w * natural(x) for w, x in zip(weight, data, strict=True)), start=prior)


_RNG = np.random.default_rng(6)


def thinned(cases, quick):
    """All cases, of which `make test` runs the quick ones: each compiles programs of its own, which takes seconds."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*row, marks=() if quick(*row) else pytest.mark.slow) for row in rows]


FACTORS = {
    "gaussian": _glm(cavity.factors.gaussian(0.5), _noisy, exact=_least_squares),
    "probit": _glm(cavity.factors.probit(), _signs),
    "probit-diagonal": _glm(
        cavity.factors.probit(), _signs, families.DiagonalGaussian.from_mean([0.3, -0.2], [1.0, 0.8])
    ),
    "logit": _glm(cavity.factors.logit(), _signs),
    "poisson": _glm(cavity.factors.poisson(), lambda rng, a: rng.poisson(np.exp(a)).astype(float)),
    "student-t": _glm(cavity.factors.student_t(4.0, 0.7), _noisy),
    "clutter": FactorCase(
        cavity.factors.clutter(weight=0.3), families.Gaussian.isotropic(2, 4.0), _RNG.normal(1.0, 1.5, size=(12, 2))
    ),
    "mixture": FactorCase(
        cavity.factors.mixture([0.4, 0.6], 0.5),
        families.Gaussian.from_mean([[-1.0, 0.3], [1.0, -0.2]], np.stack([np.eye(2), 2 * np.eye(2)])),
        _RNG.normal(size=(12, 2)),
    ),
    "poisson-gamma": FactorCase(
        cavity.factors.poisson_rate(),
        families.Gamma(2.0, 1.5),
        _RNG.poisson(2.5, size=12).astype(float),
        _added(lambda x: families.Gamma(x, 1.0)),
    ),
    "bernoulli-beta": FactorCase(
        cavity.factors.bernoulli(),
        families.Beta(1.5, 2.0),
        (_RNG.uniform(size=12) < 0.7).astype(float),
        _added(lambda x: families.Beta(x, 1 - x)),
    ),
    "categorical-dirichlet": FactorCase(
        cavity.factors.categorical(),
        families.Dirichlet([1.0, 2.0, 0.5]),
        _RNG.integers(3, size=12).astype(float),
        _added(lambda x: families.Dirichlet(np.eye(3)[int(x)])),
    ),
    "gaussian-normal-wishart": FactorCase(
        cavity.factors.gaussian_mean_precision(),
        families.NormalWishart.from_parameters(np.zeros(2), 1.0, 4.0, np.eye(2)),
        _RNG.normal(size=(12, 2)),
        _added(lambda x: families.NormalWishart(x, 1.0, 1.0, np.outer(x, x))),
    ),
}

# Algorithms

GROUPS = np.arange(12) % 3

ALGORITHMS = {
    "adf": cavity.adf(),
    "ep": cavity.ep(),
    "parallel-ep": cavity.parallel_ep(),
    "power-ep": cavity.power_ep(0.5),
    "vmp": cavity.vmp(),
    "aep": cavity.aep(),
    "averaged-vmp": cavity.averaged_vmp(),
    "sep": cavity.sep(),
    "sep-batch": cavity.sep(batch_size=5),
    "stochastic-power-ep": cavity.sep(batch_size=5, power=0.5),
    "svi": cavity.svi(batch_size=5),
    "dsep": cavity.dsep(groups=GROUPS),
    "daep": cavity.daep(groups=GROUPS),
}

DETERMINISTIC = ["adf", "ep", "parallel-ep", "power-ep", "vmp", "aep", "averaged-vmp", "daep"]
