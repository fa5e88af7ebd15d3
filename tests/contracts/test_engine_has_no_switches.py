"""`update` and `pull` take arrays and numbers: no algorithm name reaches them, and none of their code asks for one."""

import ast
import inspect
from functools import partial
from typing import get_args, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference import guard, memory, named, order, scan, traced, walk
from cavity.inference import pull as pulls
from cavity.inference import update as updates
from cavity.inference.contract import Found, Setting
from cavity.inference.guard import advance
from cavity.inference.pull import pull
from cavity.inference.update import update, update_own
from tests.registry import FACTORS, assert_trees_close
from tests.steps import first, visit, walk_of

NAMES = {name for name, value in vars(named).items() if inspect.isfunction(value)}
FUNCTIONS = [update, update_own, pull, advance]
CASE = FACTORS["probit"]


def found_of(walk, state):
    """What the first three rows ask for."""
    view, rows = walk.view(state, 0, 1.0), walk.rows(0, state)
    return Found(*jax.tree.map(np.asarray, tuple(walk.estimates(view, rows, np.arange(3), Setting(1.0)))))


def arguments_of(function):
    """One call of a function: everything but the factor and the power, and what `advance` is told of the step."""
    shared, own = (walk_of(CASE.factor, CASE.prior, CASE.data, named()) for named in (cavity.aep, cavity.ep))
    state, rate = first(shared), np.array(0.5)
    if function is pull:
        datum = jax.tree.map(lambda leaf: np.asarray(leaf[0]), CASE.data)
        return {"q": state.q, "site": 0.0 * state.q, "datum": datum, "present": np.array(1.0)}
    if function is update_own:
        return {"q": state.q, "found": found_of(own, first(own)), "rate": rate}
    found = found_of(shared, state)
    if function is advance:
        return {"q": state.q, "move": found.total, "rate": rate}
    stacked = jax.tree.map(lambda leaf: leaf[None], found)
    return {"state": state, "slot": np.array([0]), "found": stacked, "rate": rate, "counts": shared.slots.counts}


LEFT_OUT = {pull: {"factor", "power"}, advance: {"safe"}}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_take_arrays_and_numbers_and_nothing_by_default(function):
    parameters, arguments = inspect.signature(function).parameters, arguments_of(function)
    assert set(parameters) == {*arguments, *LEFT_OUT.get(function, ())}
    by_default = {name for name, parameter in parameters.items() if parameter.default is not inspect.Parameter.empty}
    assert by_default == ({"safe"} if function is advance else set())  # whether to look at q: see below
    for hint in get_type_hints(function).values():
        assert not {bool, str} & {hint, *get_args(hint)}
    if "found" in arguments:
        arguments["found"] = arguments["found"]._replace(safe=None)  # the same
    leaves = jax.tree.leaves(arguments)
    assert all(isinstance(leaf, jax.Array | np.ndarray) and leaf.dtype.kind in "fi" for leaf in leaves)


@pytest.mark.parametrize("power", [1.0, 0])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_run_with_everything_but_factor_and_power_traced(function, power):
    # A truth value or a name among the arguments would have to be concrete to choose a branch.
    run = partial(pull, factor=CASE.factor, power=power) if function is pull else function
    arguments = arguments_of(function)
    with jax.enable_x64(True):
        jaxpr = jax.make_jaxpr(lambda given: run(**given))(arguments)
        assert len(jaxpr.in_avals) == len(jax.tree.leaves(arguments))
        result = jax.jit(lambda given: run(**given))(arguments)
    if function is pull:
        assert bool(result.valid)
        return
    q = result[0].q if function is update else result[0]
    assert bool(jax.tree.map(np.asarray, q).is_proper())
    assert_trees_close(result, run(**arguments_of(function)), rtol=1e-13)  # and the host does the same
    if function is update:
        assert float(result[0].filed_weight[0]) == 3


def test_what_is_known_to_be_safe_changes_no_number():
    # the one truth value among arguments is a fact about the rows, and saves a look at q
    steps = walk_of(CASE.factor, CASE.prior, CASE.data, cavity.aep())
    wanted = visit(steps, first(steps), range(3), 0.5)[0]
    for safe in (True, False):
        given = arguments_of(update)
        given["found"] = given["found"]._replace(safe=np.array([safe]))
        state, cut = update(**given)
        assert not cut
        assert_trees_close(state, wanted, rtol=0, atol=0)
        given = arguments_of(advance)
        assert_trees_close(advance(**given, safe=safe), advance(**given), rtol=0, atol=0)
        with jax.enable_x64(True):
            traced = jax.jit(lambda safe, given: advance(**given, safe=safe))(jnp.asarray(safe), given)
        assert_trees_close(traced, advance(**given), rtol=1e-15)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_their_code_names_no_algorithm_no_truth_value_and_compares_no_string(function):
    tree = ast.parse(inspect.getsource(function))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & NAMES
    comparisons = [part for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)]
    assert not [part for part in comparisons if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if function is advance:  # which asks whether q is proper, and says whether the step was cut
        return
    truths = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, bool)]
    assert not truths
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp | ast.Match)]


@pytest.mark.parametrize("module", [updates, pulls, guard, memory, order, walk, scan, traced])
def test_no_algorithm_reaches_the_modules_that_walk_and_update(module):
    nodes = list(ast.walk(ast.parse(inspect.getsource(module))))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {name.name for node in imports for name in node.names} | {
        getattr(node, "module", "") for node in imports
    }
    assert not imported & ({"named", "cavity.inference.named", "Algorithm"} | NAMES)
