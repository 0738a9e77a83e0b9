"""The arguments of a user's function, checked before it runs; and the name by which a trial finds a function."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task, Workload
from torchstone.plugins import registry

PY = registry.load("models", "py")
TEXT = """import torch

def load(model_path, device, hidden=8, *, depth=1):
    return torch.nn.Linear(4, int(hidden)), torch.zeros(2, 4)

def open_to_all(**anything):
    return torch.nn.Linear(4, int(anything["hidden"])), torch.zeros(2, 4)

def plain():
    return torch.nn.Linear(4, 3), torch.zeros(2, 4)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(TEXT)
    return path


def test_options_are_the_functions_arguments(file):
    card = PY.card(f"{file}:load", {"model_path": "weights.pt", "hidden": "5"})
    assert card.family == "custom"
    assert {k: v for k, v in card.fixed.items() if k.startswith("argument")} == {
        "argument_model_path": "weights.pt", "argument_hidden": "5",
    }  # fmt: skip
    workload = Workload(Task.INFER, f"py:{file}:load", "example", "sample", None, card.fixed)
    assert PY.load(f"{file}:load", workload, {}).module.out_features == 5, "and `device` was the CPU"
    other = PY.card(f"{file}:open_to_all", {"hidden": 6, "family": "vision"})
    assert other.family == "vision"
    assert "argument_family" not in other.fixed


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        ("load", {}, "load needs model_path: --option model_path=…"),
        ("load", {"model_path": "a", "hiden": 3}, "unknown option of py:.*'hiden'. Did you mean 'hidden'"),
        ("plain", {"hidden": 3}, "unknown option of py:.*'hidden'. Known: none"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(file, function, options, says):
    with pytest.raises(UsageError, match=says):
        PY.card(f"{file}:{function}", options)


def of_module(name: str, file: Path | None, **changes: Any) -> Any:
    module = ModuleType(name)
    if file is not None:
        module.__file__ = str(file)
    exec(compile(TEXT, str(file), "exec"), module.__dict__)
    sys.modules[name] = module
    for attribute, value in changes.items():
        setattr(module.plain, attribute, value)
    return module.plain


def test_a_function_of_a_script_is_found_by_its_file(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", None)
    assert PY.spelled(of_module("mine", file)) == f"{file}:plain"


def test_a_function_of_a_package_is_found_by_its_module():
    from torchstone.config.recipe_files import recipe_names

    assert PY.spelled(recipe_names) == "torchstone.config.recipe_files:recipe_names"


def test_what_a_fresh_process_cannot_import_is_refused_with_the_reason(file, monkeypatch):
    def nested() -> None: ...

    class Holder:
        def method(self) -> None: ...

    with pytest.raises(UsageError, match="a lambda has no name to import; each trial is a fresh process"):
        PY.spelled(lambda: None)
    with pytest.raises(UsageError, match="nested is defined inside test_what_a_fresh_process"):
        PY.spelled(nested)
    with pytest.raises(UsageError, match="method is defined inside"):
        PY.spelled(Holder.method)
    with pytest.raises(UsageError, match="is no function of a file"):
        PY.spelled(3)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(UsageError, match=r"defined in a notebook .* torchstone\.measure, torchstone\.Diagnostics"):
        PY.spelled(of_module("__main__", None))
    monkeypatch.setitem(sys.modules, "mine", None)
    renamed = of_module("mine", file, __qualname__="other")
    assert PY.spelled(renamed) == f"{file}:plain", "its name in the module is what can be imported"
    del sys.modules["mine"].plain
    with pytest.raises(UsageError, match="other is not in mine, where it says it is"):
        PY.spelled(renamed)


MADE = """from functools import partial
import torch
from torch.nn import *

class Maker:
    def __call__(self, hidden=8):
        return torch.nn.Linear(4, int(hidden)), torch.zeros(2, 4)

def build(hidden, depth=1):
    return torch.nn.Linear(4, int(hidden)), torch.zeros(2, 4)

narrow = partial(build, 2)
made = Maker()
for name in ("one", "two"):
    globals()[f"load_{name}"] = partial(build, hidden=5)
short = lambda: build(6)

def build_other(a): ...
build_other = made

def __getattr__(name):
    if name == "late":
        return made
    raise AttributeError(name)
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "made.py"
    path.write_text(MADE)
    return path


def loaded(word: str, options: Any) -> Any:
    card = PY.card(word, options)
    return PY.load(word, Workload(Task.INFER, f"py:{word}", "example", "sample", None, card.fixed), {}).module


@pytest.mark.parametrize(
    ("name", "options", "width"),
    [
        ("narrow", {}, 2), ("made", {"hidden": 3}, 3), ("load_two", {}, 5), ("load_one", {"hidden": 4}, 4),
        ("short", {}, 6), ("late", {}, 8), ("build_other", {}, 8),
    ],
)  # fmt: skip
def test_what_the_import_has_counts(made, name, options, width):
    assert loaded(f"{made}:{name}", options).out_features == width


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("load_three", {}, r"unknown function 'load_three'. Did you mean 'load_two'.* Known: .*\(in .*made.py\)"),
        ("name", {}, "name is str, not a function"),
        ("narrow", {"hiden": 3}, "unknown option of py:.*'hiden'. Known: depth"),
        ("build", {}, "build needs hidden: --option hidden=…"),
    ],
)
def test_what_it_has_not_is_told_in_one_line_by_what_it_has(made, name, options, says):
    with pytest.raises(UsageError, match=says) as refused:
        loaded(f"{made}:{name}", options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "from elsewhere import *\n", "import sys\nsys.modules[__name__] = object()\n",
        "import sys\nsetattr(sys.modules[__name__], 'lo' + 'ad', print)\n", "import other\nother.add(1, 'load')\n",
        "def make():\n    global load\n    load = print\nmake()\n", "for load in (print,): pass\n",
        "def __getattr__(name): return print\n", "exec('load = print')\n", "if (load := print): pass\n",
        "try:\n    pass\nfinally:\n    from lib import load\n", "match 3:\n    case load: pass\n",
    ],
)  # fmt: skip
def test_the_text_says_no_only_where_it_can_be_sure(tmp_path, text):
    (tmp_path / "mine.py").write_text(text)
    PY.card(f"{tmp_path}/mine.py:load", {})
    (tmp_path / "mine.py").write_text("import torch\ndef laod(): ...\nif __name__ == '__main__': laod()\n")
    with pytest.raises(UsageError, match="unknown function 'load'"):
        PY.card(f"{tmp_path}/mine.py:load", {})


def test_a_partial_or_an_object_is_spelled_by_its_name(made, monkeypatch):
    module = ModuleType("made_of_test")
    module.__file__ = str(made)
    monkeypatch.setitem(sys.modules, "made_of_test", module)
    exec(compile(MADE, str(made), "exec"), module.__dict__)
    for name in ("narrow", "made", "load_two", "short"):
        assert PY.spelled(vars(module)[name]) == f"{made}:{name}"
