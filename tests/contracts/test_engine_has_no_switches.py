"""`step` and `pull` take arrays and numbers: no algorithm name reaches them, and none of their code asks for one."""

import ast
import inspect
from functools import partial
from typing import get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.inference import named
from cavity.inference.kernel import Model, init
from cavity.inference.pull import pull
from cavity.inference.step import Batch, step
from tests.registry import FACTORS

NAMES = {name for name, value in vars(named).items() if inspect.isfunction(value)}


def arguments_of(function):
    """One call of `step` or `pull`: everything but the factor and the power."""
    case = FACTORS["probit"]
    model = Model(case.factor, case.prior, case.data, jnp.ones(12), jnp.zeros(12, int), jnp.array([12.0]))
    state, batch = init(model, own=False), Batch(jnp.arange(3), jnp.array(0))
    if function is pull:
        return {
            "q": state.q,
            "site": 0.0 * state.q,
            "datum": jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], case.data),
            "present": jnp.array(1.0),
        }
    given = {"state": state, "batch": batch, "data": model.data, "weight": model.weight, "count": model.counts}
    return given | {"rate": jnp.array(0.5)}


@pytest.mark.parametrize("function", [step, pull])
def test_they_take_arrays_and_numbers_and_nothing_by_default(function):
    parameters = inspect.signature(function).parameters
    with jax.enable_x64(True):
        arguments = arguments_of(function)
    assert set(parameters) == {*arguments, "factor", "power"}
    assert all(parameter.default is inspect.Parameter.empty for parameter in parameters.values())
    for hint in get_type_hints(function).values():
        assert not {bool, str} & {hint, *get_args(hint)}
    leaves = jax.tree.leaves(arguments)
    assert all(isinstance(leaf, jax.Array | np.ndarray) and leaf.dtype.kind in "fi" for leaf in leaves)


@pytest.mark.parametrize("power", [1.0, 0])
@pytest.mark.parametrize("function", [step, pull])
def test_they_run_with_everything_but_factor_and_power_traced(function, power):
    # A truth value or a name among the arguments would have to be concrete to choose a branch.
    with jax.enable_x64(True):
        run = partial(function, factor=FACTORS["probit"].factor, power=power)
        arguments = arguments_of(function)
        jaxpr = jax.make_jaxpr(lambda given: run(**given))(arguments)
        assert len(jaxpr.in_avals) == len(jax.tree.leaves(arguments))
        result = jax.jit(lambda given: run(**given))(arguments)
    if function is pull:
        assert bool(result.valid)
    else:
        assert float(result[1].weight) == 3
        assert bool(result[0].q.is_proper())


@pytest.mark.parametrize("function", [step, pull])
def test_their_code_names_no_algorithm_no_truth_value_and_compares_no_string(function):
    tree = ast.parse(inspect.getsource(function))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & NAMES - {"step", "pull"}
    comparisons = [part for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)]
    assert not [part for part in comparisons if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    truths = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, bool)]
    assert not truths
