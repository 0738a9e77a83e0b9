"""Models of sound, and of images with texts: what they are given, and what they cannot do."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import LoadedModel, View
from torchstone.plugins import registry
from torchstone.plugins.models.hf.building import LogMel
from torchstone.plugins.models.hf.families import MODELS
from torchstone.plugins.protocols import ModelSource

HF: ModelSource = registry.load("models", "hf")
TYPES = ("resnet", "wav2vec2", "whisper", "clip", "roberta")


def load(name: str, options: Mapping[str, Scalar] = {}, **configuration: Scalar) -> LoadedModel:
    card = HF.card(name, options)
    workload = Workload(Task.TRAIN, f"hf:{name}", "synthetic", card.item, None, card.fixed)
    return HF.load(name, workload, configuration)


def objection(model: LoadedModel, axis: str, value: Scalar) -> str | None:
    assert model.objection is not None
    return model.objection(axis, value)


def loss_of(model: LoadedModel, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    assert model.loss is not None
    found = model.loss(model.module, tensors)
    assert isinstance(found, torch.Tensor)
    return found


def saved(name: str, folder: Path) -> str:
    """A folder as transformers writes it, without its weights."""
    known = MODELS[name]
    transformers.AutoConfig.for_model(known.model_type, **known.settings).save_pretrained(folder)
    return str(folder)


def test_the_spectrogram_is_the_one_whisper_was_trained_on() -> None:
    generator = np.random.default_rng(0)
    clips = [generator.standard_normal(16_000).astype(np.float32) * 0.1, np.sin(np.arange(9_000, dtype=np.float32) / 9)]
    theirs = transformers.WhisperFeatureExtractor(chunk_length=1)(clips, sampling_rate=16_000, return_tensors="np")
    padded = np.stack([np.pad(clip, (0, 16_000 - len(clip))) for clip in clips])
    ours = LogMel(80, 100)(torch.from_numpy(padded))
    assert ours.shape == (2, 80, 100)
    assert np.allclose(ours.numpy(), theirs["input_features"], atol=1e-4)


def test_the_spectrogram_is_exact_under_autocast_and_cuts_what_is_too_long() -> None:
    ears = LogMel(80, 100)
    waveform = torch.randn(1, 20_000, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ears(waveform), ears(waveform[:, :16_000]))
    assert ears(waveform).dtype == torch.float32


def test_whisper_takes_shorter_clips_in_its_window_and_no_longer_ones() -> None:
    model = load("whisper-tiny-twin")
    assert model.forward(model.module.eval(), {"waveform": torch.randn(2, 8_000)}).shape == (2, 2)
    assert objection(model, "audio_s", 1.0) is None
    assert "its window is 1 s" in str(objection(model, "audio_s", 1.5))
    assert HF.card("whisper-base", {}).defaults == {"audio_s": 30.0}


def test_wav2vec2_hears_a_clip_at_any_loudness() -> None:
    model = load("wav2vec2-tiny")
    waveform = torch.randn(2, 16_000, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        quiet, loud = (model.forward(model.module.eval(), {"waveform": gain * waveform}) for gain in (0.1, 1.0))
    assert torch.allclose(quiet, loud, atol=1e-4)


def test_wav2vec2_trains_on_the_shortest_clip_it_allows() -> None:
    model = load("wav2vec2-tiny")
    assert "at least 0.205 s" in str(objection(model, "audio_s", 0.2))
    assert objection(model, "audio_s", 0.205) is None
    model.module.train()
    shortest = {"waveform": torch.randn(2, 3280), "labels": torch.tensor([0, 1])}
    assert torch.isfinite(loss_of(model, shortest))
    with pytest.raises(ValueError, match="mask_length"):
        loss_of(model, {**shortest, "waveform": torch.randn(2, 3279)})


@pytest.mark.parametrize("name", ["wav2vec2-tiny", "whisper-tiny-twin"])
def test_sound_needs_labels_to_train_on(name: str) -> None:
    with pytest.raises(UsageError, match="the data has no labels"):
        loss_of(load(name), {"waveform": torch.randn(1, 16_000)})


def test_clip_matches_every_image_with_every_text() -> None:
    card = HF.card("clip-tiny", {})
    assert (card.family, card.item, card.input.kind, card.input.classes) == ("multimodal", "pair", "image_text", None)
    assert card.defaults == {"sequence_length": 77}
    model = load("clip-tiny", image_size=64)
    rows = registry.load("data", "synthetic").samples("", View(model.input, {"sequence_length": 77, "image_size": 64}))
    tensors = torch.utils.data.default_collate([rows[n] for n in range(3)])
    assert set(tensors) == {"input_ids", "attention_mask", "pixel_values"}
    with torch.no_grad():
        logits = model.forward(model.module.eval(), tensors)
        assert logits.shape == (3, 3)
        own = torch.arange(3)
        both = torch.nn.functional.cross_entropy(logits, own) + torch.nn.functional.cross_entropy(logits.T, own)
        assert loss_of(model, tensors).item() == pytest.approx(both.item() / 2, rel=1e-5)
    assert "at most 77 positions" in str(objection(model, "sequence_length", 78))
    assert "a multiple of its patch size, 32" in str(objection(model, "image_size", 65))
    assert objection(model, "channels_last", True) is None


def test_clip_reads_a_text_at_its_end() -> None:
    model = load("clip-tiny", image_size=32)
    rows = registry.load("data", "synthetic").samples("", View(model.input, {"sequence_length": 77, "image_size": 32}))
    item = rows[0]
    end = int(item["attention_mask"].sum()) - 1
    assert int(item["input_ids"][end]) == model.module.config.text_config.eos_token_id


@pytest.mark.parametrize(
    ("name", "axis", "value", "says"),
    [
        ("resnet-tiny", "gradient_checkpointing", True, "no gradient checkpointing"),
        ("resnet-tiny", "channels_last", True, None),
        ("resnet-tiny", "image_size", 50, None),
        ("wav2vec2-tiny", "channels_last", True, "audio has no channels"),
        ("clip-tiny", "gradient_checkpointing", True, None),
    ],
)
def test_what_a_model_cannot_do_is_said(name: str, axis: str, value: Scalar, says: str | None) -> None:
    told = objection(load(name), axis, value)
    assert told is None if says is None else told is not None and says in told


def test_a_model_of_pairs_has_no_classes() -> None:
    with pytest.raises(UsageError, match="a model of images and texts has none"):
        HF.card("clip-tiny", {"classes": 3})
    assert HF.card("wav2vec2-tiny", {"classes": "12"}).input.classes == 12


@pytest.mark.parametrize("name", ["resnet-tiny", "wav2vec2-tiny", "whisper-tiny-twin", "clip-tiny", "roberta-tiny"])
def test_a_folder_is_what_the_model_by_name_is(name: str, tmp_path: Path) -> None:
    full = HF.card(name, {})
    model = load(name, image_size=32)
    model.module.save_pretrained(tmp_path)
    card = HF.card(str(tmp_path), {})
    assert (card.item, card.family, card.input) == (full.item, full.family, full.input)
    assert {**full.defaults, **card.defaults} == card.defaults
    copy = load(str(tmp_path))
    state = copy.module.state_dict()
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.module.state_dict().items())
    assert copy.facts.parameters == model.facts.parameters
    again = load(str(tmp_path), {"weights": "random"}, image_size=64)
    if full.input.kind == "image_text":
        assert again.module.config.vision_config.image_size == 64


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("clip-tiny", {"text_config": {"vocab_size": 10**12}}, r"text_config\.vocab_size is '1000000000000'"),
        ("clip-tiny", {"vision_config": {"patch_size": 0}}, r"vision_config\.patch_size is '0'"),
        ("resnet-tiny", {"hidden_sizes": [16, -1, 64, 128]}, "hidden_sizes is '-1'"),
        ("wav2vec2-tiny", {"conv_dim": ["32"] * 7}, "conv_dim is '32'"),
        ("whisper-tiny-twin", {"max_source_positions": 1.5}, "max_source_positions is '1.5'"),
    ],
)
def test_a_broken_config_is_named(name: str, change: dict[str, object], says: str, tmp_path: Path) -> None:
    folder = saved(name, tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UsageError, match=says) as caught:
        HF.card(folder, {"weights": "random"})
    assert "\n" not in str(caught.value)
