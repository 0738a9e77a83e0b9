from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import LoadedModel
from torchstone.plugins import registry
from torchstone.plugins.protocols import ModelSource

PY: ModelSource = registry.load("models", "py")
NET = """import torch
from torch import nn
net, x = nn.Linear(4, 3), torch.randn(5, 4)
y = torch.zeros(5, dtype=torch.long)

"""
LABELLED = """
class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
    def forward(self, x, labels=None):
        out = self.inner(x)
        return {"logits": out, "loss": nn.functional.cross_entropy(out, labels)} if labels is not None else out
"""


def load(name: str) -> LoadedModel:
    card = PY.card(name, {})
    assert card.own
    return PY.load(name, Workload(Task.TRAIN, f"py:{name}", "example", card.item, None, card.fixed), {})


def written(folder: Path, returned: str, extra: str = "") -> str:
    file = folder / "mine.py"
    file.write_text(f"{NET}{extra}\ndef load():\n    return {returned}\n")
    return f"{file}:load"


def example(model: LoadedModel) -> Mapping[str, torch.Tensor]:
    assert model.example is not None
    return model.example


@pytest.mark.parametrize(
    ("returned", "names", "trains"),
    [
        ("net, x", {"input"}, False),
        ("nn.Bilinear(4, 4, 2), (x, x)", {"input0", "input1"}, False),
        ("net, (x, y), nn.CrossEntropyLoss()", {"input", "target"}, True),
        ("net, (x, y), nn.functional.cross_entropy", {"input", "target"}, True),
        ("net, ((x,), y), nn.functional.cross_entropy", {"input0", "target"}, True),
        ("net, ({'input': x}, y), nn.functional.cross_entropy", {"input", "target"}, True),
        ("Named(), {'x': x}", {"x"}, False),
        ("Named(), {'x': x, 'labels': y}", {"x", "labels"}, True),
        ("Named(), {'x': x, 'labels': y}, nn.CrossEntropyLoss()", {"x", "labels"}, True),
        ("Named(), {'x': x, 'labels': y}, lambda module, batch: module(**batch)['loss']", {"x", "labels"}, True),
        ("{'model': net, 'example': (x, y), 'loss': nn.CrossEntropyLoss()}", {"input", "target"}, True),
    ],
)
def test_what_may_be_returned(tmp_path: Path, returned: str, names: set[str], trains: bool) -> None:
    model = load(written(tmp_path, returned, LABELLED))
    assert set(example(model)) == names
    assert model.input.kind == "own"
    assert model.forward(model.module, example(model)).shape[0] == 5
    assert (model.loss is not None) == trains
    if model.loss is not None:
        model.loss(model.module, example(model)).backward()


def test_an_optimizer_is_the_users(tmp_path: Path) -> None:
    model = load(written(tmp_path, "net, (x, y), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=0.1)"))
    assert model.optimizer is not None
    assert isinstance(model.optimizer(model.module.parameters()), torch.optim.SGD)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("net", "without an example batch; return"),
        ("None", "returned None, not a torch.nn.Module"),
        ("x, net", "a Tensor, not a torch.nn.Module"),
        ("net, 3", "the example is a int"),
        ("net, {'x': 3}", "'x' of the example is a int, not a tensor"),
        ("net, x, nn.CrossEntropyLoss()", "a pair"),
        (
            "net, (x, y[:2]), nn.CrossEntropyLoss()",
            r"equally many items along dimension 0; got input \(5, 4\), target \(2,\)",
        ),
        ("net, torch.tensor(1.0)", "along dimension 0"),
        ("net, x, None, None, None", "returned 5 things"),
        ("net, (x, y), 'mse'", "the loss is a str, not a function"),
        ("{'modle': net}", "a dictionary with modle; its keys are model, example"),
    ],
)
def test_what_may_not(tmp_path: Path, returned: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load(written(tmp_path, returned))


def test_a_loss_that_is_no_scalar(tmp_path: Path) -> None:
    model = load(written(tmp_path, "net, (x, y), nn.CrossEntropyLoss(reduction='none')"))
    assert model.loss is not None
    with pytest.raises(UsageError, match=r"the loss is a tensor of shape \(5,\), not a scalar"):
        model.loss(model.module, example(model))


def test_a_mistake_is_told_by_the_users_own_lines(tmp_path: Path) -> None:
    name = written(tmp_path, "inner()", "def inner():\n    return torch.zeros(2) @ torch.zeros(3)\n")
    with pytest.raises(UsageError) as caught:
        load(name)
    first, *lines = str(caught.value).splitlines()
    assert first.startswith(f"py:{name} raised RuntimeError")
    assert lines == [
        f"  {tmp_path}/mine.py:10 in load: return inner()",
        f"  {tmp_path}/mine.py:7 in inner: return torch.zeros(2) @ torch.zeros(3)",
    ]


def test_a_mistake_while_importing_and_an_exit_are_told_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import nowhere_at_all\ndef load(): ...\n")
    with pytest.raises(UsageError, match=r"ModuleNotFoundError: .*\n  .*mine.py:1 in <module>: import nowhere_at_all"):
        load(f"{tmp_path}/mine.py:load")
    (tmp_path / "mine.py").write_text("import sys\ndef load(): sys.exit(3)\n")
    with pytest.raises(UsageError, match=r"raised SystemExit: 3"):
        load(f"{tmp_path}/mine.py:load")


def test_an_exit_while_importing_is_told_without_the_interpreters_lines(tmp_path: Path) -> None:
    own = "p = argparse.ArgumentParser(); p.add_argument('--lr', required=True); p.parse_args([])"
    (tmp_path / "mine.py").write_text(f"import argparse\n{own}\ndef load(): ...\n")
    with pytest.raises(UsageError) as caught:
        load(f"{tmp_path}/mine.py:load")
    assert str(caught.value).splitlines()[1:] == [f"  {tmp_path}/mine.py:2 in <module>: {own}"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def load(): ...\nfor _ in range(9):\n    loss.backward()\n", 2),
        ("def fit():\n    for _ in range(9):\n        loss.backward()\ndef load(): ...\nfit()\n", 5),
        ("def load(): ...\nif __name__ == '__main__':\n    for _ in range(9):\n        load().backward()\n", None),
        ("def load():\n    for _ in range(9):\n        loss.backward()\n", None),
    ],
    ids=["loop", "call", "guarded", "function"],
)
def test_a_file_that_trains_where_it_is_imported_is_refused_before_it_runs(
    tmp_path: Path, text: str, line: int | None
) -> None:
    (tmp_path / "mine.py").write_text(text)
    if line is None:
        assert PY.card(f"{tmp_path}/mine.py:load", {}).own
        return
    with pytest.raises(
        UsageError, match=rf"mine.py:{line}: trains as soon as it is imported; put that below `if __name"
    ):
        PY.card(f"{tmp_path}/mine.py:load", {})


def test_running_out_of_memory_is_the_trials_outcome(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def load(): raise MemoryError\n")
    with pytest.raises(MemoryError):
        load(f"{tmp_path}/mine.py:load")


def test_a_card_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef load(): ...\n")
    PY.card(f"{tmp_path}/mine.py:load", {})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine.py:laod", "unknown function 'laod'. Did you mean 'load'"),
        ("mine.py", "name the function: py:.*mine.py:load"),
        ("mime.py:load", "unknown file 'mime.py'. Did you mean 'mine.py'"),
        ("broken.py:load", r"broken.py:1: .*: def load\("),
        ("binary.py:load", "cannot be read as Python|source code"),
        (".:load", "a folder; name the file"),
    ],
)
def test_a_file_or_function_that_is_not_there(tmp_path: Path, name: str, says: str) -> None:
    written(tmp_path, "net, x")
    (tmp_path / "broken.py").write_text("def load(\n")
    (tmp_path / "binary.py").write_bytes(b"\0\1\2")
    with pytest.raises(UsageError, match=says):
        PY.card(f"{tmp_path}/{name}", {})


def test_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "mypackage_of_nets"
    package.mkdir()
    (package / "__init__.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    (package / "nets.py").write_text(f"{NET}\ndef load():\n    return net, x\n")
    PY.card("mypackage_of_nets.nets:load", {})
    with pytest.raises(UsageError, match="unknown function 'lod'"):
        PY.card("mypackage_of_nets.nets:lod", {})
    with pytest.raises(UsageError, match=r"unknown module 'mypackage_of_nets.net'"):
        PY.card("mypackage_of_nets.net:load", {})
    with pytest.raises(UsageError, match="Did you mean 'mypackage_of_nets'"):
        PY.card("mypackage_of_net:load", {})
    assert not Path("imported").exists()
    assert set(example(load("mypackage_of_nets.nets:load"))) == {"input"}


def test_a_file_may_import_its_neighbour_and_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "neighbour_of_torch.py").write_text(NET)
    (tmp_path / "random.py").write_text("from neighbour_of_torch import net, x\ndef load():\n    return net, x\n")
    assert set(example(load(f"{tmp_path}/random.py:load"))) == {"input"}


def packaged(folder: Path, package: str) -> Path:
    """A package whose module imports another one of it, in both ways."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text("")
    (folder / package / "nets.py").write_text(NET)
    file = folder / package / "types.py"
    file.write_text(f"from .nets import net\nfrom {package}.nets import x\n\ndef load():\n    return net, x\n")
    return file


def test_a_file_of_a_package_is_imported_as_a_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    file = packaged(tmp_path / "src", "a_package_of_nets")
    assert set(example(load(f"{file}:load"))) == {"input"}
    assert __import__("types").SimpleNamespace, "the module of that name is still Python's own"


def test_a_package_that_has_the_name_of_a_library_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError")
    (tmp_path / "torch" / "mine.py").write_text(f"{NET}\ndef load():\n    return net, x\n")
    assert set(example(load(f"{tmp_path}/torch/mine.py:load"))) == {"input"}


def test_a_package_under_src_is_found_from_the_projects_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    monkeypatch.chdir(tmp_path)
    packaged(tmp_path / "src", "a_package_under_src")
    assert set(example(load("a_package_under_src.types:load"))) == {"input"}
    with pytest.raises(UsageError, match="Did you mean 'a_package_under_src'"):
        PY.card("a_package_under_sr.types:load", {})


PARSES = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, required=True)
parser.add_argument("--name", default="")
args = parser.parse_args()
"""


def test_a_module_that_parses_arguments_finds_those_of_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = ["torchstone", "once", "--width", "7"]
    monkeypatch.setattr("sys.argv", mine)
    (tmp_path / "mine.py").write_text(f"{PARSES}{NET}\ndef load():\n    return nn.Linear(args.width, 3), x\n")
    name = f"{tmp_path}/mine.py:load"
    with pytest.raises(UsageError, match=r"SystemExit: 2: it parses .* --option script_arguments='--lr 0.1'"):
        load(name)
    card = PY.card(name, {"script_arguments": "--width 4 --name 'a b'"})
    assert card.fixed["script_arguments"] == "--width 4 --name 'a b'", "it is part of what was measured"
    model = PY.load(name, Workload(Task.TRAIN, f"py:{name}", "example", card.item, None, card.fixed), {})
    assert model.module.in_features == 4
    assert __import__("sys").argv is mine
    with pytest.raises(UsageError, match="no closing quotation"):
        PY.card(name, {"script_arguments": "--name 'a"})


def test_a_file_beside_src_finds_the_package_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    packaged(tmp_path / "src", "a_shop_under_src")
    (tmp_path / "bench.py").write_text(f"from a_shop_under_src import types\n{NET}\ndef load():\n    return net, x\n")
    assert set(example(load(f"{tmp_path}/bench.py:load"))) == {"input"}
