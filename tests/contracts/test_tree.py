"""Trees on the host are those of JAX: the same leaves in the same order, the same structure, the same map."""

import collections
import dataclasses
import importlib
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import cavity
from cavity import _tree
from cavity._pytree import AfterImport, pytree


class Pair(NamedTuple):
    first: Any
    second: Any


@pytree
class Line:
    slope: Any
    name: str = dataclasses.field(metadata={"static": True})
    offset: Any


@pytree
class Twin:
    slope: Any
    name: str = dataclasses.field(metadata={"static": True})
    offset: Any


TREES = {
    "leaf": 1.0,
    "array": np.arange(3),
    "none": None,
    "tuple": (1, (2, 3), ()),
    "list": [1, [2.0, "three"]],
    "dict": {"b": 1, "a": {"d": 2, "c": 3}},
    "named tuple": Pair(1, Pair(None, 2)),
    "class": Line(1, "up", (2, 3)),
    "class in containers": {"q": [Line(Pair(1, 2), "up", None)], "p": (cavity.Gaussian.isotropic(2),)},
    "family": cavity.Gaussian.isotropic(2),
    "product": cavity.Product({"b": cavity.Gaussian.isotropic(1), "a": cavity.DiagonalGaussian.isotropic(2)}),
    "ordered dict": collections.OrderedDict(b=1, a=(2, 3)),
    "empty": [{}, (), [], collections.OrderedDict(), None],
    "default dict": collections.defaultdict(int, b=1, a=2),
    "known to JAX alone": jax.tree_util.Partial(max, 1, key=2),
    "arrays of JAX": (jax.numpy.zeros(2), np.float64(1.0)),
    "other objects": [object(), int, slice(1), {1, 2}],
}


@pytest.mark.parametrize("name", TREES)
def test_leaves_and_map_are_those_of_jax(name):
    tree = TREES[name]
    ours, theirs = _tree.leaves(tree), jax.tree.leaves(tree)
    assert len(ours) == len(theirs)
    assert all(a is b for a, b in zip(ours, theirs, strict=True))
    count, count_by_jax = iter(range(100)), iter(range(100))
    got, wanted = _tree.map(lambda _: next(count), tree), jax.tree.map(lambda _: next(count_by_jax), tree)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    assert jax.tree.leaves(got) == jax.tree.leaves(wanted)
    if isinstance(tree, dict):
        assert list(got) == list(wanted)


@pytest.mark.parametrize("name", TREES)
def test_structure_and_leaves_make_the_tree_again(name):
    tree = TREES[name]
    again = _tree.unflatten(_tree.structure(tree), _tree.leaves(tree))
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    assert all(a is b for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True))
    for wrong in ([*_tree.leaves(tree), 1], _tree.leaves(tree)[:-1]):
        if len(wrong) != len(_tree.leaves(tree)):
            with pytest.raises(ValueError, match="as many leaves"):
                _tree.unflatten(_tree.structure(tree), wrong)


def test_structures_are_equal_where_those_of_jax_are():
    trees = [*TREES.values(), Line(1, "down", (2, 3)), Twin(1, "up", (2, 3)), Pair(1, 2), (1, 2), [1, 2], {"a": 1}]
    for left in trees:
        for right in trees:
            same = jax.tree.structure(left) == jax.tree.structure(right)
            assert (_tree.structure(left) == _tree.structure(right)) == same
    assert len({_tree.structure(tree) for tree in trees}) == len({jax.tree.structure(tree) for tree in trees})


def test_a_leaf_may_be_told():
    is_pair = lambda node: isinstance(node, Pair)
    tree = {"b": Pair(1, 2), "a": [3, Pair(4, 5)]}
    assert _tree.leaves(tree, is_leaf=is_pair) == jax.tree.leaves(tree, is_leaf=is_pair)
    assert _tree.map(str, tree, is_leaf=is_pair) == jax.tree.map(str, tree, is_leaf=is_pair)
    assert _tree.structure(tree, is_leaf=is_pair) == _tree.structure({"b": 0, "a": [0, 0]})


def test_others_may_hold_subtrees_where_the_first_has_leaves():
    add = lambda a, b: (a, b)
    first, second = {"a": 1, "b": (2,)}, {"b": ([3, 4],), "a": None}
    assert _tree.map(add, first, second) == jax.tree.map(add, first, second)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 2), [1, 2]),
        ((1, 2), (1, 2, 3)),
        ({"a": 1}, {"b": 1}),
        (None, 1),
        (Line(1, "up", 2), Line(1, "down", 2)),
        (Line(1, "up", 2), Twin(1, "up", 2)),
        ((1,), 1),
    ],
)
def test_trees_that_differ_are_not_mapped(left, right):
    with pytest.raises(ValueError, match="same structure"):
        _tree.map(lambda a, b: a, left, right)
    with pytest.raises(ValueError, match=r"."):
        jax.tree.map(lambda a, b: a, left, right)


ORDERS = {
    "JAX first": "import jax; import cavity; q = cavity.Gaussian.isotropic(2)",
    "JAX last": "import cavity; q = cavity.Gaussian.isotropic(2); import jax",
    "JAX between": "from cavity._pytree import pytree; import jax; import cavity; q = cavity.Gaussian.isotropic(2)",
    "part of JAX": "import cavity; q = cavity.Gaussian.isotropic(2); import jax.numpy as jnp; import jax",
    "in a thread": "import cavity, threading; q = cavity.Gaussian.isotropic(2)\n"
    "t = threading.Thread(target=__import__, args=('jax',)); t.start(); t.join(); import jax",
    "asked for before": "import cavity; from importlib.util import find_spec; find_spec('jax'); find_spec('no')\n"
    "q = cavity.Gaussian.isotropic(2); import jax",
    "reloaded": "import cavity, importlib; q = cavity.Gaussian.isotropic(2); import jax; importlib.reload(jax)",
    "by a read": "import cavity; q = cavity.Gaussian.isotropic(2); cavity.Gamma(1.0, 2.0).mean; import jax",
}
CHECK = """
import sys
assert len(jax.tree.leaves(q)) == 2, jax.tree.leaves(q)
assert isinstance(jax.jit(lambda q: 2.0 * q)(q), cavity.Gaussian)
assert jax.tree_util.tree_flatten_with_path(q)[0][0][0][0].name == "shift"
assert not any(type(finder).__name__ == "AfterImport" for finder in sys.meta_path)
assert jax.__spec__.loader.get_source("jax") and jax.__loader__ is jax.__spec__.loader
"""


@pytest.mark.parametrize("order", ORDERS)
def test_jax_knows_classes_in_whatever_order_it_is_imported(order):
    code = f"{ORDERS[order]}\n{CHECK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A module that waits before it is done, a finder that watches it, and the calls the finder made."""
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(0.05); done = True")
    (tmp_path / "broken_at_first.py").write_text("import builtins; assert hasattr(builtins, 'mended')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return []


def test_a_finder_calls_once_the_module_is_whole(watched):
    finder = AfterImport("slow_to_import", lambda: watched.append(sys.modules["slow_to_import"].done))
    sys.meta_path.insert(0, finder)
    load = lambda: importlib.import_module("slow_to_import")
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    importlib.reload(load())
    assert watched == [True]
    assert finder not in sys.meta_path


def test_a_finder_waits_for_a_module_that_fails(watched, monkeypatch):
    finder = AfterImport("broken_at_first", lambda: watched.append(1))
    sys.meta_path.insert(0, finder)
    with pytest.raises(AssertionError):
        importlib.import_module("broken_at_first")
    assert finder in sys.meta_path
    monkeypatch.setattr("builtins.mended", True, raising=False)
    importlib.import_module("broken_at_first")
    assert watched == [1]
    assert finder not in sys.meta_path
