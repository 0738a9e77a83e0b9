"""The arguments of a user's function, checked before it runs; and the name by which a trial finds a function."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchstone import registry
from torchstone.errors import UsageError
from torchstone.terms.case import Task, Workload

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
    from torchstone.config.recipes import recipe_names

    assert PY.spelled(recipe_names) == "torchstone.config.recipes:recipe_names"


def test_what_a_fresh_process_cannot_import_is_refused_with_the_reason(file, monkeypatch):
    def nested() -> None: ...

    class Holder:
        def method(self) -> None: ...

    with pytest.raises(UsageError, match="a lambda, which has no name to import; each trial is a fresh process"):
        PY.spelled(lambda: None)
    with pytest.raises(UsageError, match="nested is defined inside test_what_a_fresh_process"):
        PY.spelled(nested)
    with pytest.raises(UsageError, match="method is defined inside"):
        PY.spelled(Holder.method)
    with pytest.raises(UsageError, match="is no function of a file"):
        PY.spelled(3)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(UsageError, match=r"typed into a notebook .* torchstone\.measure, torchstone\.Diagnostics"):
        PY.spelled(of_module("__main__", None))
    monkeypatch.setitem(sys.modules, "mine", None)
    renamed = of_module("mine", file, __qualname__="gone")
    with pytest.raises(UsageError, match="unknown function 'gone'"):
        PY.spelled(renamed)
