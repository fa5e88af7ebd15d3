"""Importing the library and working with Gaussians needs no JAX, and nothing else that takes long to import."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "scipy", "sklearn", "pandas", "matplotlib", "numba")
READS = """
import pickle, numpy as np
for kind, spread in ((cavity.Gaussian, np.diag([2.0, 1.0, 0.5])), (cavity.DiagonalGaussian, np.array([2.0, 1.0, 0.5]))):
    p, q = kind.isotropic(3, 2.0), kind.from_mean([1.0, 0.0, -1.0], spread)
    both = cavity.Product({"a": p, "b": (q,)})
    other = cavity.families.as_family({"a": q, "b": (p,)})
    for left, right, theta in ((p, q, np.ones((4, 3))), (both, other, {"a": np.ones((4, 3)), "b": (np.ones((4, 3)),)})):
        left.log_partition(), left.entropy(), left.is_proper(), left.event_shape()
        left.kl(right), left.distance(right), left + right - 0.5 * right, repr(left)
        left.moments().from_moments(), left.log_prob(theta), left.sample(0, (4,)), left.sample(np.random.default_rng(0))
        cavity.families.dot(left, right)
        pickle.loads(pickle.dumps(left)).log_partition()
    one = np.ones(3)
    both.log_weight({"a": one, "b": (one,)}), p.statistics(one), p.log_base(one), p.log_weight(one)
    q.mean, q.variance, q.covariance, both["a"].mean
    try:
        p + kind.isotropic(2)
    except ValueError as error:
        assert "same kind and shape" in str(error)
cavity.ep(), cavity.sep(batch_size=5), cavity.robbins_monro(), dir(cavity), dir(cavity.factors), dir(cavity.families)
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_cavity_imports_nothing_heavy():
    code = "import cavity, sys; print(*(name for name in sys.modules if '.' not in name))"
    assert not {*run(code)} & {*HEAVY}


@pytest.mark.parametrize("blocked", [False, True])
def test_gaussians_need_no_jax(blocked):
    block = "import sys; sys.modules['jax'] = None\n" if blocked else ""
    loaded = run(f"{block}import cavity, sys\n{READS}\nprint(*(name for name in sys.modules if sys.modules[name]))")
    assert not {*loaded} & {"jax", "jaxlib", "sklearn", "pandas"}


def test_reads_of_numpy_compile_nothing_where_jax_is_loaded():
    count = (
        "import jax; made = []; jax.monitoring.register_event_duration_secs_listener(lambda *a, **k: made.append(a))"
    )
    assert run(f"{count}\nimport cavity\n{READS}\nprint(len(made))") == ["0"]


def test_names_are_listed_before_they_are_loaded():
    code = "import cavity; print(*dir(cavity))\nprint('|', *cavity.__all__)\nprint('|', *dir(cavity.factors))"
    shown, public, factors = " ".join(run(code)).split("|")
    assert {*public.split()} <= {*shown.split()}
    assert {"ProbitClassifier", "diagnostics", "datasets", "fit", "Gamma"} <= {*public.split()}
    assert {"probit", "glm", "network", "Factor"} <= {*factors.split()}


NAMES = """
import importlib, cavity
for package in (cavity, cavity.families, cavity.factors):
    for name in package.__all__:
        value = getattr(package, name)
        assert not hasattr(value, '__path__') or package is cavity, name
from cavity import *
assert glm_of() is cavity.factors.glm and Gamma is cavity.families.Gamma and diagnostics.score and datasets.load
"""


def test_every_public_name_is_found():
    assert run(f"def glm_of():\n    from cavity.factors import glm\n    return glm\n{NAMES}") == []


@pytest.mark.parametrize("missing", ["sklearn", "pandas"])
def test_what_needs_scikit_learn_says_so(missing):
    code = f"""
import sys; sys.modules['{missing}'] = None
import cavity
from cavity import *
assert fit and 'ProbitClassifier' not in globals() and 'ProbitClassifier' in dir(cavity)
try:
    cavity.ProbitClassifier
except ModuleNotFoundError as error:
    print(error)
try:
    cavity.Nothing
except AttributeError:
    print('none')
"""
    assert run(code) == f"cavity.ProbitClassifier needs {missing}: pip install 'cavity[sklearn]' none".split()
