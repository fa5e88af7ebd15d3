"""Layers, from linalg to cli: each imports only from those before it."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import cavity

ROOT = Path(cavity.__file__).parent
LAYERS = [
    "_array",
    "_precision",
    "_checks",
    "_pytree",
    "_tree",
    "_warnings",
    "linalg",
    "special",
    "quadrature",
    "families",
    "inference",
    "engine",
    "factors",
    "estimators",
    "diagnostics",
    "datasets",
    "experiments",
    "cli",
]


def imported_layers(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module] if node.module != "cavity" else [f"cavity.{alias.name}" for alias in node.names]
        yield from (module.split(".")[1] for module in modules if module.startswith("cavity."))


def test_imports_point_one_way():
    files = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    assert len(files) > 25
    for path in files:
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for used in imported_layers(path):
            assert LAYERS.index(used) <= LAYERS.index(layer), f"{path.name} of {layer} imports {used}"


def test_inference_knows_no_concrete_family():
    for path in (ROOT / "inference").glob("*.py"):
        used = {line.split()[1] for line in path.read_text().splitlines() if line.startswith("from cavity.families")}
        assert used <= {"cavity.families.base", "cavity.families.product"}, path.name


def test_importing_cavity_does_not_start_jax():
    code = "import cavity, jax; print(bool(jax._src.xla_bridge._backends), jax.config.jax_enable_x64)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.split() == ["False", "False"]


def test_benchmarks_and_figures_find_what_they_use():
    for module in ("benchmarks.__main__", "docs.figures.__main__"):
        assert callable(importlib.import_module(module).main)
