"""Layers, from linalg to cli: each imports only from those before it; no cycle; nothing heavy before it is needed."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import cavity

ROOT = Path(cavity.__file__).parent
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PUBLIC = {"cavity", "cavity.datasets", "cavity.diagnostics", "cavity.estimators", "cavity.factors", "cavity.families"}
LAYERS = [
    "_array",
    "_files",
    "_lazy",
    "_pytree",
    "_tree",
    "_kept",
    "_precision",
    "_checks",
    "_warnings",
    "linalg",
    "special",
    "quadrature",
    "families",
    "inference",
    "factors",
    "estimators",
    "diagnostics",
    "datasets",
    "experiments",
    "cli",
]


def imports_of(path):
    """Modules with the names that are taken from them; `import x` takes none."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def imported_layers(path):
    for module, name in imports_of(path):
        used = f"cavity.{name}" if module == "cavity" and name else module
        if used.startswith("cavity."):
            yield used.split(".")[1]


def test_imports_point_one_way():
    files = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]
    assert len(files) > 25
    for path in files:
        layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for used in imported_layers(path):
            assert LAYERS.index(used) <= LAYERS.index(layer), f"{path.name} of {layer} imports {used}"


def imported_modules(path, modules):
    """Modules of the package that a file imports, also inside functions and for type checkers alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)


def name_of(path):
    parts = ("cavity", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cycles():
    """Sets of modules that import each other, however far around."""
    files = {name_of(path): path for path in ROOT.rglob("*.py")}
    imports = {name: set(imported_modules(path, files)) for name, path in files.items()}
    reached = {name: reach(name, imports) for name in files}
    around = {name: frozenset(other for other in reached[name] if name in reached[other]) for name in files}
    return {group for name, group in around.items() if name in reached[name]}


def reach(start, imports):
    found, rest = set(), [start]
    while rest:
        for name in imports[rest.pop()] - found:
            found.add(name)
            rest.append(name)
    return found


def test_no_modules_import_each_other():
    assert cycles() == set()


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


def attributes_of_cavity(path):
    """What is used as `cavity.name`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cavity":
            yield "cavity", node.attr


def test_benchmarks_use_public_names_only():
    """So that the same files measure two versions of the library, whatever became of the inside of it."""
    files = sorted(BENCHMARKS.glob("*.py"))
    assert len(files) > 10
    for path in files:
        for module, name in [*imports_of(path), *attributes_of_cavity(path)]:
            if module.split(".")[0] == "cavity":
                assert module in PUBLIC, f"{path.name} imports {module}"
                public = [None, *importlib.import_module(module).__all__]
                assert name in public, f"{path.name} uses {name} of {module}"
