"""Imports flow one way: figures -> sims -> a few core modules; theory stands on NumPy and SciPy.

Every source file is parsed; an import counts as lazy inside a function, and as absent under
``if TYPE_CHECKING``. Folders are named as they install: sims/ is tailmiss.sims.
"""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "tailmiss.sims": ROOT / "sims",
    "tailmiss.figures": ROOT / "figures",
    "tailmiss": ROOT / "tailmiss",
}
CORE = {
    f"tailmiss.{x}"
    for x in ["weights", "advantages", "estimate", "_rng", "_validate", "provenance"]
}
# modules that need torch: nobody else may load them except lazily
TORCH_LEAVES = (
    "tailmiss.torch",
    "tailmiss.figures.training",
    "tailmiss.sims.maze_transformer",
    "tailmiss.sims._maze_model",
    "tailmiss.sims._maze_tree",
)
SYMPY_LEAVES = (
    "tailmiss._theorem",
    "tailmiss.symbolic",
    "tailmiss.symbolic_redistribution",
    "tailmiss.reco_symbolic",
)
HEAVY = ("numba", "torch", "sympy", "pandas", "matplotlib", "scipy.stats")


class Use(NamedTuple):
    module: str
    imported: str
    lazy: bool

    def __str__(self):
        return f"{self.module} imports {self.imported}{' lazily' if self.lazy else ''}"


def sources():
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            yield ".".join([package, *path.relative_to(folder).with_suffix("").parts]), path


MODULES = {name.removesuffix(".__init__") for name, _ in sources()}


def imports_of(name, path):
    """What a file imports: modules of ours by their own name, others as written."""
    package = name.rpartition(".")[0]

    def visit(node, lazy):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Use(name.removesuffix(".__init__"), alias.name, lazy)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found = inner if inner in MODULES else base
                yield Use(name.removesuffix(".__init__"), found, lazy)
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    yield from visit(ast.parse(path.read_text()), False)


USES = sorted({use for name, path in sources() for use in imports_of(name, path)})


def under(name, *packages):
    return any(name == p or name.startswith(f"{p}.") for p in packages)


def layer(name):
    if name.startswith(("tailmiss.cli", "tailmiss._cli_", "tailmiss.report", "tailmiss.__main__")):
        return "cli"
    for package in ("figures", "sims", "torch"):
        if under(name, f"tailmiss.{package}"):
            return package
    return "theory"


def ours(name):
    return under(name, "tailmiss")


def external(name):
    return not ours(name) and name.split(".")[0] not in sys.stdlib_module_names


def assert_none(offending):
    assert not offending, "\n".join(map(str, offending))


def test_the_walk_sees_the_imports():
    assert len(USES) > 100
    assert Use("tailmiss.redistribution", "tailmiss.advantages", False) in USES
    assert Use("tailmiss.advantages", "scipy.stats", True) in USES
    assert any(u.module == "tailmiss.cli" and layer(u.imported) == "figures" for u in USES)


def test_theory_imports_only_theory_numpy_and_scipy():
    """pandas and pyarrow read rollout files, and only inside the functions that do."""
    allowed = ("numpy", "scipy")
    bad = []
    for use in USES:
        if layer(use.module) != "theory":
            continue
        if ours(use.imported):
            fine = layer(use.imported) == "theory"
        else:
            fine = (
                not external(use.imported)
                or under(use.imported, *allowed)
                or (use.lazy and under(use.imported, "pandas", "pyarrow"))
                or (use.module in SYMPY_LEAVES and under(use.imported, "sympy"))
            )
        if not fine:
            bad.append(use)
    assert_none(bad)


def test_weights_import_nothing():
    assert_none([u for u in USES if u.module == "tailmiss.weights"])


def test_simulators_use_no_closed_form_about_groups():
    """They count. Of the theory they may use weights, advantages and plain helpers only."""
    assert_none(
        [
            use
            for use in USES
            if layer(use.module) == "sims"
            and ours(use.imported)
            and not under(use.imported, "tailmiss.sims", *CORE)
            and not (under(use.module, *TORCH_LEAVES) and layer(use.imported) == "torch")
        ]
    )


def test_the_adapter_uses_weights_and_advantages_only():
    allowed = ("tailmiss.torch", "tailmiss.weights", "tailmiss.advantages", "tailmiss._validate")
    assert_none(
        [
            use
            for use in USES
            if layer(use.module) == "torch"
            and ours(use.imported)
            and not under(use.imported, *allowed)
        ]
    )


def test_nothing_imports_the_command_line_or_what_lies_above_it():
    rank = {"theory": 0, "torch": 0, "sims": 1, "figures": 2, "cli": 3}
    assert_none(
        [
            use
            for use in USES
            if ours(use.imported) and rank[layer(use.imported)] > rank[layer(use.module)]
        ]
    )


def test_the_command_line_loads_figures_and_simulators_lazily():
    assert_none(
        [
            use
            for use in USES
            if layer(use.module) == "cli"
            and layer(use.imported) in ("figures", "sims", "torch")
            and not use.lazy
        ]
    )


def test_torch_and_sympy_are_loaded_lazily_or_in_their_leaves():
    heavy = (*TORCH_LEAVES, *SYMPY_LEAVES, "torch", "trl", "transformers", "verl", "sympy")
    assert_none(
        [
            use
            for use in USES
            if under(use.imported, *heavy)
            and not use.lazy
            and not under(use.module, *TORCH_LEAVES, *SYMPY_LEAVES)
        ]
    )


def test_no_module_needs_itself_to_load():
    graph = {name: set() for name in MODULES}
    for use in USES:
        if not use.lazy and use.imported in MODULES and use.imported != use.module:
            graph[use.module].add(use.imported)
    # a package needs its modules and a module its package: the package is not a dependency
    for name in graph:
        graph[name] -= {parent for parent in MODULES if name.startswith(f"{parent}.")}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(graph)


@pytest.mark.parametrize("module", ["tailmiss", "tailmiss.montecarlo", "tailmiss.cli"])
def test_import_stays_light(module):
    code = f"import sys, {module}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert module in loaded
    assert not [x for x in loaded if under(x, *HEAVY, "tailmiss.sims", "tailmiss.figures")]
