"""What needs no JAX, and nothing else that takes long to import: the library, Gaussians, linear models and mixtures."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "scipy", "sklearn", "pandas", "matplotlib", "numba", "tqdm")
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


REFUSED = """
import sys
class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {packages}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Refusal())
import cavity
def told(call):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
    else:
        print('nothing')
"""
LINEAR = """
import pickle
import numpy as np
from scipy import sparse
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = X @ [1.0, -0.5, 0.2] + rng.normal(size=60)
name, options = {case!r}
targets = {targets}
first = {{'classes': np.unique(targets)}} if 'Classifier' in name else {{}}
model = getattr(cavity, name)(**options)
for X in (X, sparse.csr_array(X)):
    model.fit(X, targets)
    again = pickle.loads(pickle.dumps(model))
    for read in ('predict', *(['predict_proba', 'predict_log_proba', 'decision_function'] * bool(first))):
        assert np.array_equal(getattr(again, read)(X), getattr(model, read)(X))
    model.sample_posterior(3, random_state=0), model.score(X, targets), repr(model)
    streamed = getattr(cavity, name)(**options).partial_fit(X, targets, **first).partial_fit(X, targets)
    assert pickle.loads(pickle.dumps(streamed)).posterior_.mean.shape == model.posterior_.mean.shape
told(model.summary)
print('|', *{{module.partition('.')[0] for module in sys.modules}})
"""
TARGETS = {
    "ProbitClassifier": "(y > 0)",
    "LogisticClassifier": "(y > 0)",
    "PoissonRegressor": "rng.poisson(np.exp(0.3 * y))",
    "GaussianRegressor": "y",
    "StudentTRegressor": "y",
}
CASES = [
    *((name, {}, targets) for name, targets in TARGETS.items()),
    ("ProbitClassifier", {"tol": 1e-4}, "np.digitize(y, [-0.5, 0.5])"),
    ("GaussianRegressor", {"prior_variance": "auto", "standardize": True, "noise_variance": 1.0}, "y"),
    ("ProbitClassifier", {"algorithm": "sep", "batch_size": 20, "tol": 1e-4}, "(y > 0)"),
]
SLOW_TO_IMPORT = {"pandas", "matplotlib", "tqdm", "jax"}


@pytest.mark.parametrize(("name", "options", "targets"), CASES)
def test_linear_models_need_numpy_scipy_and_scikit_learn_only(name, options, targets):
    code = LINEAR.format(case=(name, options), targets=targets)
    said, loaded = " ".join(run(REFUSED.format(packages=SLOW_TO_IMPORT) + code)).split("|")
    assert said.strip() == "summary() needs pandas: pip install 'cavity[pandas]'"
    assert not {*loaded.split()} & SLOW_TO_IMPORT
    assert "sklearn" in loaded.split()


MIXTURE = """
import pickle
import numpy as np
X = np.random.default_rng(0).normal(size=(60, 2)) + 4.0 * (np.arange(60) % 2)[:, None]
model = cavity.GaussianMixture(2, **{options!r}).fit(X)
again = pickle.loads(pickle.dumps(model))
for read in ('predict', 'predict_proba', 'score_samples', 'score'):
    assert np.array_equal(getattr(again, read)(X), getattr(model, read)(X))
again.sample(3, random_state=0), again.posterior_.interval('means'), again.partial_fit(X)
print(*{{module.partition('.')[0] for module in sys.modules}})
"""
MIXTURES = [
    {},
    {"covariance_type": "diag", "n_init": 2},
    {"covariance_type": "spherical", "algorithm": "ep"},
    {"algorithm": "aep"},
    {"algorithm": "sep", "batch_size": 20},
    {"algorithm": "vmp"},
    {"algorithm": "adf", "batch_size": 20, "linear_response": False},
]


@pytest.mark.parametrize("options", MIXTURES)
def test_mixtures_need_numpy_scipy_and_scikit_learn_only(options):
    code = "import warnings; warnings.simplefilter('ignore')" + REFUSED.format(packages=SLOW_TO_IMPORT)
    assert not {*run(code + MIXTURE.format(options=options))} & SLOW_TO_IMPORT


NETWORK = """
import pickle
import numpy as np
import warnings
warnings.simplefilter('ignore')
X = np.random.default_rng(0).normal(size=(60, 3))
y = X[:, 0] > 0 if 'Classifier' in {name!r} else X[:, 0]
model = cavity.{name}((5,), n_epochs=2).fit(X, y).partial_fit(X, y)
assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
print(*{{module.partition('.')[0] for module in sys.modules}})
"""


@pytest.mark.parametrize("name", ["NetworkRegressor", "NetworkClassifier"])
def test_networks_with_compiled_loops_need_no_jax(name):
    pytest.importorskip("numba")
    loaded = run(REFUSED.format(packages=SLOW_TO_IMPORT) + NETWORK.format(name=name))
    assert not {*loaded} & SLOW_TO_IMPORT
    assert "numba" in loaded


ESTIMATORS = {*TARGETS, "GaussianMixture", "NetworkRegressor", "NetworkClassifier"}


def test_estimators_are_there_without_pandas():
    code = "print(*cavity.__all__, '|', *dir(cavity), '|', *cavity.estimators.__all__, cavity.diagnostics.score)"
    public, shown, estimators = " ".join(run(REFUSED.format(packages={"pandas"}) + code)).split("|")
    assert ESTIMATORS | {"estimators", "diagnostics"} <= {*public.split()} & {*shown.split()}
    assert {*estimators.split()} >= ESTIMATORS


def test_what_needs_pandas_says_so():
    code = """
import numpy as np
X = np.random.default_rng(0).normal(size=(20, 1))
told(cavity.GaussianMixture(2, max_sweeps=2, evidence=False, linear_response=False).fit(X).posterior_.summary)
told(lambda: cavity.diagnostics.plot_coefficients(cavity.LogisticClassifier().fit(X, X[:, 0] > 0)))
"""
    code = "import warnings; warnings.simplefilter('ignore')" + REFUSED.format(packages={"pandas"}) + code
    assert run(code) == ["summary()", "needs", "pandas:", "pip", "install", "'cavity[pandas]'"] * 2


def test_what_needs_matplotlib_says_so():
    code = "told(lambda: cavity.diagnostics.plot_calibration([0, 1], {'model': [0.2, 0.7]}))"
    said = " ".join(run(REFUSED.format(packages={"matplotlib"}) + code))
    assert said == "a picture needs matplotlib: pip install 'cavity[demo]'"


def test_what_needs_scikit_learn_says_so():
    code = """
from cavity import *
assert fit and 'ProbitClassifier' not in globals() and 'ProbitClassifier' in dir(cavity)
for where in (cavity, cavity.estimators):
    told(lambda: where.ProbitClassifier)
try:
    cavity.Nothing
except AttributeError:
    print('none')
"""
    said = "{}.ProbitClassifier needs sklearn: pip install 'cavity[sklearn]'".format
    wanted = f"{said('cavity')} {said('cavity.estimators')} none".split()
    assert run("import sys; sys.modules['sklearn'] = None" + REFUSED.format(packages=set()) + code) == wanted
