"""What import-linter (pyproject.toml) cannot say of docs/architecture.md, held by reading the source."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from over import over

from torchstone import extend

SOURCE = Path(__file__).parents[2] / "src" / "torchstone"
FAMILIES = {
    "devices", "telemetry", "models", "data", "tasks", "searchers", "launchers", "checks", "exporters", "importers",
    "clusters", "runtimes",
}  # fmt: skip
HEAVY = {
    "torch", "transformers", "numpy", "pyarrow", "safetensors", "PIL", "scipy", "sklearn", "pandas", "h5py", "datasets",
    "psycopg", "onnxruntime", "onnx", "openvino", "executorch", "peft", "torchao",
}  # fmt: skip
NAMELESS = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"}

FILES = {path.relative_to(SOURCE).with_suffix(""): path for path in sorted(SOURCE.rglob("*.py"))}
MODULES = {".".join(("torchstone", *name.parts)).removesuffix(".__init__"): path for name, path in FILES.items()}
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def family(module: str) -> str | None:
    """The family of plug-ins that a module belongs to."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["plugins"] and len(parts) > 3 and parts[2] in FAMILIES else None


def plugin_of(module: str) -> str | None:
    """The plug-in that a module is, or is a part of; None for what a family shares, and outside of the families."""
    parts = module.split(".")
    return ".".join(parts[:4]) if family(module) is not None and not parts[3].startswith("_") else None


def is_ground(module: str) -> bool:
    """Whether it is what the plug-ins of a family share, or a part of a plug-in: imported inside functions."""
    return family(module) is not None and plugin_of(module) != module


PLUGINS = [m for m in MODULES if plugin_of(m) == m]


def imported(module: str) -> Iterator[str]:
    """Every module of ours that `module` imports, anywhere in its file."""
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                if target in MODULES:
                    yield target
                elif node.module in MODULES and not alias.name.startswith("__"):
                    yield str(node.module)


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported: functions and TYPE_CHECKING blocks left out."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        for part in ("body", "orelse", "finalbody", "handlers"):
            inner = getattr(node, part, [])
            yield from at_import([s for h in inner for s in (h.body if isinstance(h, ast.ExceptHandler) else [h])])


def heavy_at_top(module: str) -> Iterator[str]:
    for node in at_import(TREES[module].body):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in names if name.split(".")[0] in HEAVY)


def functions(module: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(TREES[module]) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


@over("module", MODULES)
def test_a_plugin_is_reached_through_the_registry_by_name(module: str) -> None:
    wrong = [t for t in imported(module) if family(t) is not None and not may_see(module, t)]
    assert not wrong, f"{module} may not import {wrong}"


def may_see(module: str, other: str) -> bool:
    """Whether `other` is what the family of `module` shares, or a part of the plug-in that `module` belongs to."""
    return is_ground(other) and family(module) == family(other) and plugin_of(other) in (None, plugin_of(module))


def test_no_cycles() -> None:
    graph = {module: set(imported(module)) - {module} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@over("module", MODULES)
def test_nothing_grows_too_big(module: str) -> None:
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= 800, f"{module} has {lines} lines: it is asking to be two"


def test_a_plugin_has_to_write_five_methods_at_most() -> None:
    bases = [one for one in vars(extend).values() if inspect.isabstract(one)]
    assert len(bases) > 5
    assert not [base.__name__ for base in bases if len(base.__abstractmethods__ & vars(base).keys()) > 5]


def test_no_module_without_a_meaning() -> None:
    assert not [m for m in MODULES if m.rpartition(".")[2].strip("_") in NAMELESS]


IN_PROGRAMS = "torchstone.execution.program.hooks."  # in somebody else's process, which they end after its window


@over("module", [m for m in MODULES if layer(m) not in ("cli", "__main__") and not m.startswith(IN_PROGRAMS)])
def test_nothing_below_the_cli_prints_or_exits(module: str) -> None:
    calls = [ast.unparse(n.func) for n in ast.walk(TREES[module]) if isinstance(n, ast.Call)]
    raised = [ast.unparse(n.exc) for n in ast.walk(TREES[module]) if isinstance(n, ast.Raise) and n.exc]
    assert not {"print", "sys.exit", "exit", "quit", "SystemExit"} & {*calls, *raised}


@over("module", [m for m in PLUGINS if family(m) != "checks"])
def test_a_plugin_says_that_it_is_one(module: str) -> None:
    named = [n.target for n in TREES[module].body if isinstance(n, ast.AnnAssign)]
    assert "PLUGIN" in [ast.unparse(target) for target in named], "end it with `PLUGIN: <Base> = <Class>()`"


# The ground that a family's plug-ins share is imported inside their functions, and may import what it likes. So may
# integrations, which their frameworks' users import.
@over("module", [m for m in MODULES if layer(m) != "integrations" and (family(m) is None or not is_ground(m))])
def test_no_heavy_library_at_module_top(module: str) -> None:
    assert not list(heavy_at_top(module))


TEXTS = {"message", "advice", "why", "headline"}  # attributes that are made for readers
CUTS = {"startswith", "endswith", "split", "rsplit", "partition", "rpartition", "index", "find", "removeprefix",
        "removesuffix"}  # fmt: skip


def decided_by_text(tree: ast.Module) -> Iterator[str]:
    """Where a text for readers is compared, searched or cut."""
    for node in ast.walk(tree):
        read: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            read = [node.func.value] if node.func.attr in CUTS else []
            read = node.args if ast.unparse(node.func.value) == "re" else read
        elif isinstance(node, ast.Compare) and not all(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
            read = [node.left, *node.comparators]
        yield from (ast.unparse(node) for one in read if isinstance(one, ast.Attribute) and one.attr in TEXTS)


@over("module", [m for m in MODULES if layer(m) != "cli"])
def test_no_code_decides_by_a_text(module: str) -> None:
    assert not list(decided_by_text(TREES[module]))


def test_code_that_decides_by_a_text_is_noticed() -> None:
    for code in ("a.message.startswith('x')", "re.search('x', a.advice)", "a.why.split('; ')", "a.message == 'x'"):
        assert list(decided_by_text(ast.parse(code))), code


def test_the_controller_never_imports_torch() -> None:
    code = f"""
import contextlib, importlib, io, runpy, sys
for module in {["torchstone.cli", *PLUGINS]!r}:
    importlib.import_module(module)
sys.argv = ["torchstone", "--help"]
with contextlib.redirect_stdout(io.StringIO()) as shown:
    try:
        runpy.run_module("torchstone", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        assert not end.code, end.code
assert "run" in shown.getvalue()
print(*sorted({HEAVY!r} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
