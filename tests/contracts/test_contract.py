"""The declared contract: a factor with the members of the protocol, and no other, is a factor for every algorithm."""

import ast
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference import contract
from tests.registry import ALGORITHMS, assert_trees_close, thinned

pytestmark = pytest.mark.filterwarnings("ignore::cavity.ConvergenceWarning", "ignore::cavity.CollapseWarning")

MEMBERS = sorted(name for name in vars(contract.Factor) if not name.startswith("_"))
N = 40  # rows: single ones are scanned, fives are not
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, 2))
NOISY = X @ [0.8, -0.5] + 0.7 * RNG.normal(size=N)
SIGNS = np.where(NOISY > 0, 1.0, -1.0)
PRIOR = cavity.Gaussian.from_mean([0.3, -0.2], [[1.0, 0.3], [0.3, 0.8]])
GROUPS = np.arange(N) % 3
KNOBS = {name: a if a.groups is None else replace(a, groups=GROUPS) for name, a in ALGORITHMS.items()} | {
    "daep-auto": cavity.daep(groups="auto", n_sites=3),
    "sep-literal": cavity.sep(rate=1.0),
    "sep-replace": cavity.sep(batch_size=5, replace=True),
}


def marginal(q, x):
    """Mean and variance of xᵀθ."""
    return x @ q.mean, x @ q.covariance @ x


def estimate(self, cavity, datum, power):
    """λ̂ = (proj[c pᵅ] − c)/α by the definition, equations (11) and (15)."""
    value = self.log_mean(cavity, datum, power)
    if power == 0:
        return jax.grad(lambda m: self.log_mean(m.from_moments(), datum, 0))(cavity.moments()), value
    tilted = lambda eta: eta.log_partition() + power * self.log_mean(eta, datum, power)
    return (1 / power) * (jax.grad(tilted)(cavity).from_moments() - cavity), value


def by_the_contract(log_mean, **fields):
    """A class with the members of the protocol and no base: all that the engine may ask for."""

    def proper_parts(self, q, of):
        good = q.is_proper()
        return jax.tree.map(lambda _: good, q)

    members = {
        "check": lambda self, prior, data: tuple(np.asarray(part, dtype=np.float64) for part in data),
        "log_mean": log_mean,
        "estimate": estimate,
        "proper_parts": proper_parts,
        "smooth": lambda self: self,
        "simplify": lambda self, prior, data: (prior, data, None),
        "sums": lambda self, prior, data, algorithm: None,
    }
    assert sorted(members) == MEMBERS
    return cavity.factors.pytree(type("Mine", (), {**members, "__annotations__": fields}))


def gaussian_log_mean(self, q, datum, power):
    (x, y), s = datum, self.noise_variance
    mean, variance = marginal(q, x)
    spread = variance / s if power == 0 else jnp.log1p(power * variance / s) / power
    return -0.5 * (jnp.log(2 * jnp.pi * s) + spread + (y - mean) ** 2 / (s + power * variance))


def probit_log_mean(self, q, datum, power):
    mean, variance = marginal(q, datum[0])
    return jax.scipy.stats.norm.logcdf(datum[1] * mean / jnp.sqrt(1 + variance))  # at power 1


GAUSSIAN = by_the_contract(gaussian_log_mean, noise_variance=float)(0.5)
PROBIT = by_the_contract(probit_log_mean)()
MODELS = {
    "gaussian": (GAUSSIAN, cavity.factors.gaussian(0.5), (X, NOISY)),
    "probit": (PROBIT, cavity.factors.probit(), (X, SIGNS)),
}
PAIRS = [(m, a) for m in MODELS for a in KNOBS if m == "gaussian" or KNOBS[a].power == 1]
QUICK = [("gaussian", a) for a in ("vmp", "averaged-vmp", "power-ep", "stochastic-power-ep")]
QUICK += [("probit", a) for a in ("adf", "ep", "parallel-ep", "aep", "sep-batch", "daep", "daep-auto")]


def fit(factor, data, algorithm, **options):
    number = {"max_sweeps": 1} if algorithm.n_sites == 0 else {"max_sweeps": 5}
    return cavity.fit(factor, PRIOR, data, algorithm, **({"tol": 0.0} | number | options))


def test_the_protocol_has_members():
    assert {"check", "estimate", "log_mean"} < {*MEMBERS}
    assert isinstance(GAUSSIAN, contract.Factor)
    assert not isinstance(GAUSSIAN, cavity.factors.Factor)


@pytest.mark.parametrize(("model", "name"), thinned(PAIRS, lambda *pair: pair in QUICK))
def test_a_factor_by_the_contract_is_the_librarys(model, name):
    """The same sweeps, row by row and by automatic differentiation: posterior, evidence, history, groups."""
    mine, theirs, data = MODELS[model]
    ours, wanted = (fit(factor, data, KNOBS[name]) for factor in (mine, theirs))
    assert_trees_close(ours.posterior, wanted.posterior, rtol=1e-7)
    np.testing.assert_allclose(ours.log_evidence, wanted.log_evidence, rtol=1e-7)
    np.testing.assert_allclose(ours.history.entropy, wanted.history.entropy, rtol=1e-6)
    np.testing.assert_array_equal(ours.history.skipped, wanted.history.skipped)
    if ours.groups is not None:
        np.testing.assert_array_equal(ours.groups, wanted.groups)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", thinned(["ep", "aep", "daep"], lambda name: name == "aep"))
def test_it_can_be_asked_after_a_fit(name):
    """Gradients of its evidence, evidences of another, linear response."""
    mine, theirs, data = MODELS["gaussian"]
    options = {"keep_data": True, "tol": 1e-10, "max_sweeps": 200}
    ours, wanted = (fit(factor, data, KNOBS[name], **options) for factor in (mine, theirs))
    (by_mine, by_prior), (by_theirs, wanted_by_prior) = ours.evidence_gradient(), wanted.evidence_gradient()
    np.testing.assert_allclose(jax.tree.leaves(by_mine), jax.tree.leaves(by_theirs), rtol=1e-6)
    assert_trees_close(by_prior, wanted_by_prior, rtol=1e-6)
    others = ours.evidence_with(type(GAUSSIAN)(0.6)), wanted.evidence_with(cavity.factors.gaussian(0.6))
    np.testing.assert_allclose(*others, rtol=1e-8)
    if name == "aep":
        answers = [result.linear_response(lambda q: q.mean) for result in (ours, wanted)]
        np.testing.assert_allclose(answers[0].own, answers[1].own, rtol=1e-8)
        np.testing.assert_allclose(answers[0].added, answers[1].added, atol=1e-8)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("instead", [None, 3.0], ids=["none", "a number"])
def test_what_is_missing_is_named(name, instead):
    """A factor that lacks a member, or has a number in its place, is refused before anything is computed."""
    members = {key: value for key, value in vars(type(GAUSSIAN)).items() if key in MEMBERS and key != name}
    if instead is not None:
        members[name] = instead
    lacking = cavity.factors.pytree(type("Lacking", (), {**members, "__annotations__": {"noise_variance": float}}))
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        fit(lacking(0.5), (X, NOISY), cavity.aep())


def test_a_class_is_not_a_factor():
    with pytest.raises(ValueError, match="factor must be a factor"):
        fit(type(GAUSSIAN), (X, NOISY), cavity.aep())


# -- what the engine asks --------------------------------------------------------------------------------------------

ASKED = set()
ENGINE = Path(contract.__file__).parent
CHECKS = ("check_factor", "missing_member")  # these ask whether there is a member, and not it


class Recording:
    """A factor that notes the names of what code of the engine asks it for; factors may ask themselves anything."""

    def __init__(self, inner):
        self.__dict__["inner"] = inner

    def __getattr__(self, name):
        if name.startswith("__"):  # Python's own questions
            raise AttributeError(name)
        code = sys._getframe(1).f_code
        if Path(code.co_filename).parent == ENGINE and code.co_name not in CHECKS:
            ASKED.add(name)
        return getattr(self.__dict__["inner"], name)

    def __repr__(self):
        return "Recording"


jax.tree_util.register_pytree_node(Recording, lambda node: ((node.inner,), None), lambda _, parts: Recording(*parts))

RECORDED = {
    "general": (GAUSSIAN, PRIOR, (X, NOISY)),
    "host": (cavity.factors.probit(), PRIOR, (X, SIGNS)),
    "fewer-rows": (cavity.factors.probit(), cavity.Gaussian.isotropic(N + 5), (RNG.normal(size=(N, N + 5)), SIGNS)),
    "mixture": (
        cavity.factors.gaussian_mixture(),
        {
            "weights": cavity.Dirichlet([1.0, 1.0]),
            "components": cavity.NormalGamma.from_parameters([[-1.0, 0.0], [1.0, 0.0]], *np.ones((3, 2)) * 2),
        },
        X,
    ),
    "network": (
        cavity.factors.network([2, 3, 1], "sin"),
        cavity.factors.network([2, 3, 1], "sin").prior(),
        (X, NOISY),
    ),
    "blocks": (cavity.factors.nested(cavity.factors.probit()), PRIOR, cavity.factors.in_blocks((X, SIGNS), 3)),
}
WITHOUT_POWERS, WITHOUT_QUESTIONS = {"blocks"}, {"blocks", "network"}


def asked_by(model, algorithm):
    """Names that a fit with everything asks a factor for: weights, evidence, going on, gradients, another factor."""
    ASKED.clear()
    factor, prior, data = RECORDED[model]
    weights = np.where(np.arange(len(jax.tree.leaves(data)[0])) % 5, 1.5, 0.0)
    given = {"max_sweeps": 2, "tol": 0.0, "weights": weights}
    recording = Recording(factor)
    result = cavity.fit(recording, prior, data, algorithm, evidence="history", keep_data=True, **given)
    cavity.fit(recording, prior, data, algorithm, start=result, **given)
    quadrature = model in ("host", "fewer-rows") and algorithm.power != 1  # derivatives of which take minutes
    if model not in WITHOUT_QUESTIONS and algorithm.n_sites != 0 and not quadrature:
        result.evidence_with(recording)
        result.evidence_gradient()
        if model != "fewer-rows" and algorithm.n_sites == 1:
            result.linear_response(lambda q: jnp.concatenate([*map(jnp.ravel, jax.tree.leaves(q.moments()))]))
    return {*ASKED}


QUICK_RECORDED = [
    ("general", "ep"),
    ("general", "aep"),
    ("host", "aep"),
    ("host", "daep-auto"),
    ("network", "sep-batch"),
]
CASES = [(m, a) for m in RECORDED for a in KNOBS if not (m in WITHOUT_POWERS and KNOBS[a].power != 1)]
CASES = [(m, a) for m, a in CASES if not (m == "blocks" and KNOBS[a].groups is not None)]  # those are of rows


@pytest.mark.parametrize(("model", "name"), thinned(CASES, lambda *case: case in QUICK_RECORDED))
def test_the_engine_asks_for_members_only(model, name):
    """All that the engine asks of a factor is declared."""
    asked = asked_by(model, KNOBS[name])
    assert asked <= {*MEMBERS}
    assert {"check", "simplify", "sums"} <= asked


def test_questions_are_recorded():
    """The test's own test: what the engine asks is noted, what others ask is not."""
    ASKED.clear()
    recording = Recording(cavity.factors.logit())
    assert recording.likelihood is not None
    assert not ASKED
    exec(compile("recording.likelihood", str(ENGINE / "walk.py"), "exec"), {"recording": recording})
    assert {"likelihood"} == ASKED


def test_all_members_are_asked_for():
    """Nothing is declared that the engine has no use for."""
    assert asked_by("general", cavity.aep()) == {*MEMBERS}


def attributes_of_factors(source):
    """Names of attributes that code reads of anything called `factor`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            value = node.value
            called = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
            if called == "factor":
                yield node.attr


def test_the_code_of_the_engine_says_the_same():
    """Read from the source, so that no path is left out."""
    assert [*attributes_of_factors("self.factor.kernel(factor.log_mean)")] == ["kernel", "log_mean"]
    asked = {name for file in ENGINE.glob("*.py") for name in attributes_of_factors(file.read_text())}
    assert asked == {*MEMBERS}
