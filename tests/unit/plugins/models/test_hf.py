import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import LoadedModel
from torchstone.plugins import registry
from torchstone.plugins.models.hf import building, families
from torchstone.plugins.protocols import ModelSource

HF: ModelSource = registry.load("models", "hf")
PUBLISHED = {
    "distilbert-base-uncased": 66_362_880,
    "bert-base-uncased": 109_482_240,
    "all-MiniLM-L6-v2": 22_713_216,
    "gpt2": 124_439_808,
    "facebook/opt-125m": 125_239_296,
    "google/vit-base-patch16-224": 85_798_656,
    "microsoft/resnet-50": 23_508_032,
    "facebook/wav2vec2-base": 94_371_712,
    "openai/clip-vit-base-patch32": 151_277_313,
}


def load(name: str, options: dict[str, Scalar], **configuration: Scalar) -> LoadedModel:
    card = HF.card(name, options)
    return HF.load(name, Workload(Task.TRAIN, f"hf:{name}", "synthetic", card.item, None, card.fixed), configuration)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = transformers.AutoConfig.for_model("bert", **families.MODELS["bert-tiny"].settings)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    return tmp_path


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("name", families.MODELS)
def test_a_body_has_its_published_size(name: str) -> None:
    known = families.MODELS[name]
    config = transformers.AutoConfig.for_model(known.model_type, **known.settings)
    with torch.device("meta"):
        module = building._head(known.model_type).from_config(config)
    body = getattr(module, "encoder", module.base_model)  # of Whisper, the encoder alone is there
    assert sum(p.numel() for p in body.parameters()) == known.body == PUBLISHED.get(name, known.body)
    if known.vocabulary is not None:
        words = getattr(config, "text_config", config)
        assert words.vocab_size == known.vocabulary
        rows = words.max_position_embeddings
        assert rows - families.ARCHITECTURES[known.model_type].reserved == known.longest


def test_an_alias_is_the_same_model() -> None:
    assert HF.card("distilbert", {}) == HF.card("distilbert-base-uncased", {})


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("distilbrt", {}, "Did you mean 'distilbert'"),
        ("bert-tiny", {"weights": "pretrained"}, "no pretrained weights"),
        ("bert-tiny", {"weights": "none"}, "Known: pretrained, random"),
        ("bert-tiny", {"wights": "random"}, "Did you mean 'weights'"),
        ("bert-tiny", {"classes": 1}, "at least 2"),
        ("bert-tiny", {"classes": "many"}, "not a whole number"),
        ("gpt2-tiny", {"classes": 3}, "a language model has none"),
    ],
)
def test_wrong_requests_are_told_what_is_right(name: str, options: dict[str, Scalar], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        HF.card(name, options)
    assert "\n" not in str(caught.value)


def test_pretrained_weights_offline_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"is not in .* --model hf:FOLDER .* --option weights=random"):
        HF.card("bert", {"weights": "pretrained"})


def test_classes_are_a_choice() -> None:
    assert HF.card("bert-tiny", {"classes": "5"}).input.classes == 5
    model = load("bert-tiny", {"classes": 5})
    assert model.input.classes == 5
    assert model.module.num_labels == 5


@pytest.mark.parametrize(
    ("name", "axis", "value", "says"),
    [
        ("bert-tiny", "sequence_length", 513, "at most 512 positions"),
        ("bert-tiny", "sequence_length", 512, None),
        ("bert-tiny", "channels_last", True, "no channels"),
        ("bert-tiny", "gradient_checkpointing", True, None),
        ("vit-tiny", "image_size", 50, "a multiple of its patch size, 16"),
        ("vit-tiny", "image_size", 64, None),
    ],
)
def test_what_a_model_cannot_do_is_said(name: str, axis: str, value: Scalar, says: str | None) -> None:
    model = load(name, {}, image_size=32)
    assert model.objection is not None
    answer = model.objection(axis, value)
    assert answer is None if says is None else answer is not None and says in answer


def test_the_longest_sequence_fits() -> None:
    for name in ("bert-tiny", "gpt2-tiny", "opt-tiny"):
        model = load(name, {})
        ids = torch.full((1, model.input.longest or 0), 7)
        assert torch.isfinite(model.forward(model.module.eval(), {"input_ids": ids})).all()


def test_padding_is_no_label() -> None:
    model = load("gpt2-tiny", {})
    assert model.loss is not None
    model.module.eval()
    ids = torch.randint(1, 1000, (1, 8))
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0, 0]])
    with torch.no_grad():
        padded = model.loss(model.module, {"input_ids": ids, "attention_mask": mask})
        short = model.loss(model.module, {"input_ids": ids[:, :4], "attention_mask": mask[:, :4]})
    assert padded.item() == pytest.approx(short.item(), rel=1e-4)


def test_a_folder_is_loaded_with_its_weights(folder: Path) -> None:
    card = HF.card(str(folder), {})
    assert card.own
    assert (card.input.vocabulary, card.input.longest, card.input.classes) == (1000, 512, 2)
    model = load(str(folder), {})
    saved = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    assert torch.equal(model.module.classifier.weight, saved.classifier.weight)
    assert model.facts.weights == "folder"
    assert model.tokenizer is None


def test_a_head_for_other_classes_begins_anew_and_the_body_is_kept(folder: Path) -> None:
    saved = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    model = load(str(folder), {"classes": 5})
    assert model.module.classifier.weight.shape == (5, 64)
    assert model.facts.new_tensors == ("classifier.bias", "classifier.weight")
    layer = "bert.encoder.layer.1.output.dense.weight"
    assert torch.equal(model.module.state_dict()[layer], saved.state_dict()[layer])
    assert load(str(folder), {}).facts.new_tensors == ()


def test_a_body_without_a_head_gets_one(folder: Path) -> None:
    transformers.AutoModelForSequenceClassification.from_pretrained(folder).bert.save_pretrained(folder)
    model = load(str(folder), {})
    assert model.facts.new_tensors == ("classifier.bias", "classifier.weight")


def test_only_a_head_that_was_asked_for_may_differ(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b", "2": "c"}}))
    with pytest.raises(UsageError, match=r"do not fit config.json: classifier\.bias is 2 there, 3 here"):
        load(str(folder), {})
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 96}))
    with pytest.raises(UsageError, match=r"do not fit config.json: bert\.encoder\.layer\.0.* is 128") as caught:
        load(str(folder), {})
    assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_no_random_ones(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "model.safetensors")
    save_file({f"other.{name}": value for name, value in state.items()}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UsageError, match=r"of another model: 41 of 41 tensors are missing, such as bert"):
        load(str(folder), {})


def test_a_folder_of_pickled_weights_is_loaded(folder: Path) -> None:
    state = load(str(folder), {}).module.state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    model = load(str(folder), {})
    assert torch.equal(model.module.classifier.weight, state["classifier.weight"])


def test_the_tokenizer_beside_the_weights_is_taken(folder: Path) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    transformers.BertTokenizer(vocab={word: n for n, word in enumerate(words)}).save_pretrained(folder)
    assert load(str(folder), {}).tokenizer("good")["input_ids"] == [2, 5, 3]


def test_a_hub_model_that_is_cached_in_part_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--google-bert--bert-base-uncased").mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=r"^hf:bert-base-uncased: weights=pretrained.*--model hf:FOLDER") as caught:
        load("bert", {"weights": "pretrained"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["zip", "pickle"])
def test_a_pickle_with_code_is_refused_and_never_run(folder: Path, tmp_path: Path, form: str) -> None:
    mark = tmp_path / "ran"
    file = folder / "pytorch_model.bin"
    (folder / "model.safetensors").unlink()
    if form == "zip":
        torch.save({"w": Hostile(mark)}, file)
    else:
        file.write_bytes(pickle.dumps({"w": Hostile(mark)}, protocol=2))
    HF.card(str(folder), {})
    with pytest.raises(UsageError, match=rf"{file}: refused.*posix.system") as caught:
        load(str(folder), {})
    assert "\n" not in str(caught.value)
    assert not mark.exists()


def test_torn_weights_are_one_line(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x10\0\0\0")
    with pytest.raises(UsageError, match=str(folder)) as caught:
        load(str(folder), {})
    assert "\n" not in str(caught.value)


def test_weights_of_another_shape_are_one_line(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    with pytest.raises(UsageError, match=r"do not fit config\.json"):
        load(str(folder), {})


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        UsageError, match=rf"no weights in {folder}; looked for one of model.safetensors.*weights=random"
    ):
        HF.card(str(folder), {})
    assert load(str(folder), {"weights": "random"}).facts.weights == "random"


def test_a_missing_folder() -> None:
    with pytest.raises(UsageError, match="there is no folder /nowhere/here"):
        HF.card("/nowhere/here", {})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no config.json"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "not a JSON object"),
        (" " * (1 << 20) + "{}", "larger than"),
        ("{}", "model_type is 'None'"),
        ('{"model_type": "evil"}', "known: bert"),
        ('{"model_type": "bert", "vocab_size": 100000000000}', "vocab_size is '100000000000'"),
        ('{"model_type": "bert", "hidden_size": -1}', "hidden_size is '-1'"),
        ('{"model_type": "bert", "hidden_size": "64"}', "hidden_size"),
    ],
)
def test_a_broken_config_is_named(folder: Path, content: str | None, says: str) -> None:
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)
    with pytest.raises(UsageError, match=says):
        HF.card(str(folder), {})


@pytest.mark.parametrize("shard", ["../elsewhere.bin", "absent.bin"])
def test_an_index_names_files_of_its_folder(folder: Path, shard: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))
    with pytest.raises(UsageError, match=f"names {shard}"):
        HF.card(str(folder), {})
