import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution.plan import sketch
from torchstone.plugins import registry
from torchstone.plugins.models.builtin.nets import GestureNet, Perceptron
from torchstone.plugins.protocols import ModelSource

BUILTIN: ModelSource = registry.load("models", "builtin")
TINY = (96, 2)


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def trained() -> dict[str, torch.Tensor]:
    return GestureNet(*TINY).state_dict()


def load(file: Path | str, network: str = "gesture-tiny", **configuration: int) -> LoadedModel:
    name = f"{network}@{file}"
    card = BUILTIN.card(name, {})
    assert card.own
    BUILTIN.preload(name)
    workload = Workload(Task.INFER, f"builtin:{name}", "synthetic", card.item, card.family, card.fixed)
    return BUILTIN.load(name, workload, configuration)


def refused(file: Path | str, network: str = "gesture-tiny") -> str:
    with pytest.raises(UsageError) as caught:
        load(file, network)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(model: LoadedModel, state: Mapping[str, torch.Tensor]) -> bool:
    found = model.module.state_dict()
    return list(found) == list(state) and all(torch.equal(found[key], state[key]) for key in state)


def case_of(model: str) -> Case:
    made = sketch(WorkloadRequest("infer", model))
    assert made.own
    return Case(made.workload, made.configurations[0], Placement("cpu"))


@pytest.mark.parametrize("ending", ["pth", "pt", "safetensors"])
def test_the_network_computes_with_the_weights_of_the_file(tmp_path: Path, ending: str) -> None:
    network, file = GestureNet(*TINY).eval(), tmp_path / f"trained.{ending}"
    if ending == "safetensors":
        save_file(network.state_dict(), file)
    else:
        torch.save(network.state_dict(), file)
    model = load(file)
    frames = torch.randn(2, 20, 75)
    assert same(model, network.state_dict())
    assert torch.equal(model.forward(model.module.eval(), {"features": frames}), network(frames))
    assert model.facts.weights == "file"
    assert all(p.requires_grad for p in model.module.parameters())


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_what_a_training_script_saved_around_the_weights_is_left_alone(tmp_path: Path, key: str) -> None:
    state = trained()
    torch.save({"epoch": 3, key: state, "optimizer": {"lr": 0.1}}, tmp_path / "checkpoint.pt")
    assert same(load(tmp_path / "checkpoint.pt"), state)


def test_the_older_form_of_torch_save_is_read(tmp_path: Path) -> None:
    state = trained()
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert same(load(tmp_path / "old.pth"), state)


@pytest.mark.parametrize("form", ["zip", "pickle"])
@pytest.mark.parametrize("key", ["head.bias", "optimizer"])
def test_a_pickle_with_code_is_refused_and_never_run(tmp_path: Path, form: str, key: str) -> None:
    mark, file = tmp_path / "ran", tmp_path / "hostile.pth"
    content = {"state_dict": trained(), key: Hostile(mark)}
    if form == "zip":
        torch.save(content, file)
    else:
        file.write_bytes(pickle.dumps({key: Hostile(mark)}, protocol=2))
    told = refused(file)
    assert told.startswith(f"{file}: refused")
    assert "posix.system" in told
    assert not mark.exists()


def test_a_whole_pickled_network_is_refused_by_its_class(tmp_path: Path) -> None:
    torch.save(GestureNet(*TINY), tmp_path / "network.pth")
    assert "torchstone.plugins.models.builtin.nets.GestureNet" in refused(tmp_path / "network.pth")


def test_weights_of_another_network_name_their_tensors(tmp_path: Path) -> None:
    torch.save(trained(), tmp_path / "tiny.pth")
    told = refused(tmp_path / "tiny.pth", "gesture-medium")
    assert told.startswith(f"{tmp_path / 'tiny.pth'}: its tensors are not those of builtin:gesture-medium: missing: ")
    assert "missing: 'recurrent.weight_ih_l2', 'recurrent.weight_hh_l2', 'recurrent.bias_ih_l2' and 1 more; " in told
    assert "of another shape: 'recurrent.weight_ih_l0' (384×75, not 1792×75), " in told
    assert "unexpected" not in told
    told = refused(tmp_path / "tiny.pth", "cnn")
    assert "missing: 'features.0.weight'" in told
    assert "unexpected: 'recurrent.weight_ih_l0'" in told


def test_pixels_of_another_size_are_weights_of_another_shape(tmp_path: Path) -> None:
    torch.save(Perceptron(8).state_dict(), tmp_path / "mlp.pth")
    assert "'layers.1.weight' (256×192, not 256×3072)" in refused(tmp_path / "mlp.pth", "mlp")
    assert load(tmp_path / "mlp.pth", "mlp", image_size=8).facts.weights == "file"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([1, 2], "contains no state dict"),
        ({}, "contains no state dict"),
        ({"epoch": 3}, "'epoch' is of type int"),
        ({3: torch.zeros(1)}, "'3' is of type Tensor"),
        ({"state_dict": {"head.bias\n" * 90: 1}}, "not a state dict"),
    ],
)
def test_what_is_no_state_dict_is_one_line(tmp_path: Path, content: Any, told: str) -> None:
    torch.save(content, tmp_path / "odd.pth")
    assert told in refused(tmp_path / "odd.pth")


def test_tensors_that_cannot_be_copied_are_one_line(tmp_path: Path) -> None:
    torch.save({key: tensor.to("meta") for key, tensor in trained().items()}, tmp_path / "meta.pth")
    assert "cannot be copied into builtin:gesture-tiny" in refused(tmp_path / "meta.pth")


@pytest.mark.parametrize("form", ["pth", "old", "safetensors"])
def test_torn_and_foreign_files_are_one_line(tmp_path: Path, form: str) -> None:
    file = tmp_path / ("torn.safetensors" if form == "safetensors" else "torn.pth")
    if form == "safetensors":
        save_file(trained(), file)
    else:
        torch.save(trained(), file, _use_new_zipfile_serialization=form == "pth")
    whole = file.read_bytes()
    for kept in (1, 7, 64, 300, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:kept])
        assert refused(file).startswith(f"{file}: ")
    for foreign in (
        b"hello\n",
        b"PK\x05\x06" + b"\0" * 18,
        b"\xff" * 100,
        b"version https://git-lfs.github.com/spec/v1\n",
    ):
        file.write_bytes(foreign)
        assert refused(file).startswith(f"{file}: ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"there is no file {tmp_path}/no\.pth; write builtin:cnn@/path/file\.pth"):
        BUILTIN.card(f"cnn@{tmp_path}/no.pth", {})


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("", "name the file after the @: builtin:cnn@/path/file.pth"),
        ("here", "a folder; name the file in it: builtin:cnn@here/file.pth"),
        ("weights.bin", "ends in .pth, .pt, .safetensors"),
        ("empty.pth", "the file is empty"),
        ("pipe.pth", "not a plain file"),
        ("~nobody-of-this-name/x.pth", "cannot be read"),
        ("x" * 300 + ".pth", "cannot be read"),
        ("nul\0.pth", "there is no file"),
    ],
)
def test_what_is_no_file_of_weights_is_refused_before_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "weights.bin").write_bytes(b"x")
    (tmp_path / "empty.pth").touch()
    os.mkfifo(tmp_path / "pipe.pth")
    with pytest.raises(UsageError) as caught:
        BUILTIN.card(f"cnn@{word}", {})
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "mine.pth").write_bytes(b"x")
    (tmp_path / "mine.pth").chmod(0)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        BUILTIN.card(f"cnn@{tmp_path}/mine.pth", {})


def test_the_option_says_how_to_name_the_file() -> None:
    with pytest.raises(UsageError, match=r"write --model builtin:cnn@/a/b\.pth$"):
        BUILTIN.card("cnn", {"weights": "/a/b.pth"})
    with pytest.raises(UsageError, match=r"write --model builtin:cnn@/path/file\.pth$"):
        BUILTIN.card("cnn", {"weights": "pretrained"})
    with pytest.raises(UsageError, match="leave out the option weights"):
        BUILTIN.card("cnn@/a/b.pth", {"weights": "random"})
    with pytest.raises(UsageError, match="Did you mean 'gesture-tiny'"):
        BUILTIN.card("gesture-tinny@/a/b.pth", {})


def test_the_card_needs_no_torch(tmp_path: Path) -> None:
    save_file(trained(), tmp_path / "w.safetensors")
    code = f"""
import sys
from torchstone.plugins import registry
registry.load("models", "builtin").card("gesture-tiny@{tmp_path}/w.safetensors", {{}})
print({{"torch", "safetensors", "numpy"}} & set(sys.modules))
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told == "set()\n"


def test_a_file_is_the_same_case_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder / "deep").mkdir(parents=True)
    torch.save(trained(), tmp_path / "one" / "w.pth")
    data = (tmp_path / "one" / "w.pth").read_bytes()
    (tmp_path / "two" / "deep" / "w.pth").write_bytes(data)
    monkeypatch.chdir(tmp_path / "one")
    monkeypatch.setenv("HOME", str(tmp_path))
    words = [
        f"{tmp_path}/one/w.pth",
        f"{tmp_path}/two/deep/w.pth",
        "w.pth",
        "./w.pth",
        "../two/deep/w.pth",
        "~/one/w.pth",
    ]
    cases = [case_of(f"builtin:gesture-tiny@{word}") for word in words]
    assert len({case.case_id for case in cases}) == 1
    assert cases[0].workload.fixed == {
        "weights": "file", "source": "builtin", "weights_sha256": hashlib.sha256(data).hexdigest()[:16], "classes": 9,
    }  # fmt: skip
    for case in cases:
        name = case.workload.model.removeprefix("builtin:")
        assert BUILTIN.load(name, case.workload, case.configuration).facts.weights == "file"


def test_other_weights_are_another_case(tmp_path: Path) -> None:
    ids = {case_of_random()}
    for _ in range(2):
        torch.save(trained(), tmp_path / "w.pth")
        ids.add(case_of(f"builtin:gesture-tiny@{tmp_path}/w.pth").case_id)
    assert len(ids) == 3


def case_of_random() -> str:
    made = sketch(WorkloadRequest("infer", "builtin:gesture-tiny"))
    assert not made.own
    return Case(made.workload, made.configurations[0], Placement("cpu")).case_id
