"""The file after the @ of `hf:` models, and safetensors files that are not whole; builtin: test_builtin_weights."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import LoadedModel, View
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution.plan import sketch
from torchstone.plugins import registry
from torchstone.plugins.models import _weights_file
from torchstone.plugins.protocols import ModelSource

HF: ModelSource = registry.load("models", "hf")


def load(name: str, options: dict[str, Scalar] | None = None, **configuration: Scalar) -> LoadedModel:
    card = HF.card(name, options or {})
    HF.preload(name)
    return HF.load(name, Workload(Task.TRAIN, f"hf:{name}", "synthetic", card.item, None, card.fixed), configuration)


def refused(name: str, options: dict[str, Scalar] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        load(name, options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def is_refused(file: Path) -> bool:
    try:
        _weights_file.refuse_torn(file)
    except UsageError:
        return True
    return False


def file_of(folder: Path, tensors: dict[str, torch.Tensor] | None = None) -> Path:
    file = folder / "w.safetensors"
    save_file(tensors or {"a": torch.zeros(4, 3), "b": torch.ones(5)}, file)
    return file


@pytest.mark.parametrize("name", ["bert-tiny", "resnet-tiny", "clip-tiny"])
def test_a_model_by_name_takes_the_weights_of_a_file(name: str, tmp_path: Path) -> None:
    state = load(name, image_size=64).module.state_dict()
    torch.save(state, tmp_path / "w.pth")
    model = load(f"{name}@{tmp_path}/w.pth", image_size=64)
    found = model.module.state_dict()
    assert all(torch.equal(tensor, found[key]) for key, tensor in state.items())
    assert model.facts.weights == "file"
    assert HF.card(f"{name}@{tmp_path}/w.pth", {}).own


def test_tensors_that_a_model_shares_need_not_be_there_twice(tmp_path: Path) -> None:
    """transformers leaves the output layer of GPT-2 out of a safetensors file: it is its embedding."""
    module = load("gpt2-tiny").module
    module.save_pretrained(tmp_path)
    model = load(f"gpt2-tiny@{tmp_path}/model.safetensors")
    assert torch.equal(model.module.lm_head.weight, module.transformer.wte.weight)
    assert model.module.lm_head.weight is model.module.transformer.wte.weight


def test_weights_of_another_model_name_their_tensors(tmp_path: Path) -> None:
    torch.save(load("bert-tiny").module.state_dict(), tmp_path / "bert.pth")
    told = refused(f"distilbert-tiny@{tmp_path}/bert.pth")
    assert told.startswith(
        f"{tmp_path}/bert.pth: its tensors are not those of hf:distilbert-tiny: missing: 'distilbert."
    )
    assert "unexpected: 'bert.embeddings" in told
    told = refused(f"bert-tiny@{tmp_path}/bert.pth", {"classes": 5})
    assert "of another shape: 'classifier.weight' (2×64, not 5×64), 'classifier.bias' (2, not 5)" in told


def test_a_file_is_the_same_case_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(load("bert-tiny").module.state_dict(), tmp_path / "w.pth")
    monkeypatch.chdir(tmp_path)
    made = [
        sketch(WorkloadRequest("infer", f"hf:bert-tiny@{word}")) for word in ("w.pth", f"{tmp_path}/w.pth", "./w.pth")
    ]
    assert len({Case(one.workload, one.configurations[0], Placement("cpu")).case_id for one in made}) == 1
    assert made[0].workload.fixed["source"] == "bert-tiny"
    assert "weights_sha256" in made[0].workload.fixed


def test_the_option_and_the_file_are_not_given_both(tmp_path: Path) -> None:
    assert "leave out the option weights" in refused(f"bert-tiny@{tmp_path}/w.pth", {"weights": "random"})
    assert f"there is no file {tmp_path}/w.pth; write hf:bert-tiny@/path/file.pth" in refused(
        f"bert-tiny@{tmp_path}/w.pth"
    )


def test_a_whole_file_passes(tmp_path: Path) -> None:
    save_file({}, tmp_path / "none.safetensors", {"written": "for a test"})
    assert not is_refused(file_of(tmp_path))
    assert not is_refused(tmp_path / "none.safetensors")


@pytest.mark.parametrize("kept", [0, 7, 8, 60, -1, -40])
def test_a_truncated_file_is_told_from_its_header(tmp_path: Path, kept: int) -> None:
    file = file_of(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:kept])
    with pytest.raises(UsageError, match=f"^{file}: ") as caught:
        _weights_file.refuse_torn(file)
    assert "\n" not in str(caught.value)
    if kept < 0:
        assert f"truncated: its header promises {len(whole)} bytes, there are {len(whole) + kept}" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a pointer of Git LFS"),
        (b"\xff" * 100, "not a safetensors file"),
        ((2).to_bytes(8, "little") + b"[]", "its header is broken"),
        ((1).to_bytes(8, "little") + b"{", "its header is broken"),
        ((20_000).to_bytes(8, "little") + b"[" * 20_000, "its header is broken"),
        ((8).to_bytes(8, "little") + b'{"a": 3}', "its header is broken"),
        ((2).to_bytes(8, "little") + b"{}more", "too long"),
    ],
)
def test_what_is_no_safetensors_file_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "odd.safetensors"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        _weights_file.refuse_torn(file)
    assert "\n" not in str(caught.value)


def test_a_folder_with_truncated_weights_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    load("bert-tiny").module.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    os.truncate(file, file.stat().st_size - 100)
    with pytest.raises(UsageError, match=f"^{file}: truncated: "):
        HF.card(str(tmp_path), {})
    assert HF.card(str(tmp_path), {"weights": "random"}).fixed["weights"] == "random"


def test_a_folder_is_known_by_the_names_and_sizes_of_its_weights(tmp_path: Path) -> None:
    load("bert-tiny").module.save_pretrained(tmp_path)
    one = HF.card(str(tmp_path), {}).fixed
    config = json.loads((tmp_path / "config.json").read_text())
    load("bert-tiny", {"classes": 3}).module.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert HF.card(str(tmp_path), {}).fixed["files_sha256"] != one["files_sha256"]
    assert "files_sha256" not in HF.card(str(tmp_path), {"weights": "random"}).fixed


@pytest.mark.parametrize("name", ["hf:bert-tiny", "builtin:text-small"])
def test_weights_read_text_with_the_tokenizer_that_they_were_trained_with(name: str, tmp_path: Path) -> None:
    """Of the data a tokenizer of its own would be made, whose words have other numbers: a model would guess."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, "good": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    (tmp_path / "trained").mkdir()
    (tmp_path / "t.tsv").write_text("text\tlabel\nbad\t0\nso good\t1\n")
    data = f"tsv:{tmp_path}/t.tsv"
    state = loaded(name, "synthetic").module.state_dict()
    for place in (tmp_path, tmp_path / "trained"):
        torch.save(state, place / "w.pth")
    tokenizer.save(f"{tmp_path}/trained/tokenizer.json")
    model = loaded(f"{name}@{tmp_path}/trained/w.pth", data)
    view = View(model.input, {"sequence_length": 3}, model.tokenizer)
    own = registry.load("data", "tsv").samples(f"{tmp_path}/t.tsv", view)
    assert own[1]["input_ids"].tolist() == [0, 2, 1]
    assert loaded(f"{name}@{tmp_path}/w.pth", "synthetic").tokenizer is None
    with pytest.raises(UsageError, match="no tokenizer lies beside its weights"):
        loaded(f"{name}@{tmp_path}/w.pth", data)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match=r"tokenizer\.json: not a tokenizer"):
        loaded(f"{name}@{tmp_path}/w.pth", data)


def loaded(name: str, data: str) -> LoadedModel:
    scheme, _, bare = name.partition(":")
    source: ModelSource = registry.load("models", scheme)
    card = source.card(bare, {})
    source.preload(bare)
    return source.load(bare, Workload(Task.INFER, name, data, card.item, None, card.fixed), {"sequence_length": 3})
