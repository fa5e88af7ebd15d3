"""`step` and `pull` take arrays and numbers: no algorithm name reaches them, and none of their code asks for one."""

import ast
import inspect

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


def test_everything_given_to_a_step_is_an_array_or_a_number():
    case = FACTORS["probit"]
    with jax.enable_x64(True):
        model = Model(case.factor, case.prior, case.data, jnp.ones(12), jnp.zeros(12, int), jnp.array([12.0]))
        state, batch = init(model, own=False), Batch(jnp.arange(3), jnp.array(0))
        arguments = (state, batch, model.data, model.weight, model.counts)
        assert all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(arguments))
        run = jax.jit(step, static_argnames="power")  # fails if any other argument is not an array
        new, info = run(*arguments, factor=case.factor, power=1.0, rate=jnp.array(0.5))
        assert float(info.weight) == 3
        assert bool(new.q.is_proper())
        pulled = jax.jit(pull, static_argnames="power")(
            case.factor, state.q, 0.0 * state.q, jax.tree.map(lambda leaf: leaf[0], case.data), power=1.0
        )
        assert bool(pulled.valid)


@pytest.mark.parametrize("function", [step, pull])
def test_their_code_names_no_algorithm_and_compares_no_string(function):
    tree = ast.parse(inspect.getsource(function))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & NAMES - {"step", "pull"}
    comparisons = [part for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)]
    assert not [part for part in comparisons if isinstance(part, ast.Constant) and isinstance(part.value, str)]
