import math
import pickle
import statistics
from collections import Counter
from collections.abc import Mapping

import pytest
import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry
from torchstone.plugins.data import synthetic

TEXT = InputSpec("text", classes=2, vocabulary=1000)
CONFIGURATION: Mapping[str, Scalar] = {"sequence_length": 64, "image_size": 16, "audio_s": 0.5}


def made(spec: InputSpec, path: str = "", seed: int = 0):
    return registry.load("data", "synthetic").samples(path, View(spec, CONFIGURATION, seed=seed))


def test_text_has_the_lengths_of_real_sentences() -> None:
    samples = made(TEXT)
    lengths = [int(samples[n]["attention_mask"].sum()) for n in range(2000)]
    assert statistics.fmean(map(math.log, lengths)) == pytest.approx(synthetic._LOG_MEAN, abs=0.04)
    assert statistics.median(lengths) in (18, 19, 20)
    assert max(lengths) <= 64


def test_text_in_full_has_no_padding() -> None:
    item = made(TEXT, "full")[5]
    assert item["attention_mask"].sum() == 64
    assert 5 <= int(item["input_ids"].min()) <= int(item["input_ids"].max()) < 1000


def test_an_item_depends_on_seed_and_index_alone() -> None:
    one, other = made(TEXT), pickle.loads(pickle.dumps(made(TEXT)))
    other[3]
    assert torch.equal(one[7]["input_ids"], other[7]["input_ids"])
    assert not torch.equal(one[7]["input_ids"], made(TEXT, seed=1)[7]["input_ids"])
    assert not torch.equal(one[7]["input_ids"], one[8]["input_ids"])


def test_sound_is_as_long_as_asked_for_at_its_rate() -> None:
    spec = InputSpec("audio", classes=3, rate_hz=8_000)
    item = made(spec)[7]
    assert (item["waveform"].shape, item["waveform"].dtype) == ((4_000,), torch.float32)
    assert 0.05 < float(item["waveform"].std()) < 0.2
    assert torch.equal(item["waveform"], made(spec)[7]["waveform"])
    assert not torch.equal(item["waveform"], made(spec, seed=1)[7]["waveform"])
    assert 0 <= int(item["labels"]) < 3


def test_an_image_and_its_text_have_no_label_but_each_other() -> None:
    spec = InputSpec("image_text", vocabulary=1000)
    item = made(spec)[5]
    assert {name: tuple(tensor.shape) for name, tensor in item.items()} == {
        "input_ids": (64,), "attention_mask": (64,), "pixel_values": (3, 16, 16),
    }  # fmt: skip
    tokens = int(item["attention_mask"].sum())
    assert int(item["input_ids"][tokens - 1]) == 999
    assert not item["input_ids"][tokens:].any()
    other = pickle.loads(pickle.dumps(made(spec)))[5]
    assert all(torch.equal(tensor, other[name]) for name, tensor in item.items())


def test_a_causal_model_gets_no_labels() -> None:
    assert "labels" not in made(InputSpec("text", vocabulary=100, causal=True))[0]


def test_all_classes_occur() -> None:
    samples = made(InputSpec("features", classes=9, width=4))
    assert set(Counter(int(samples[n]["labels"]) for n in range(200))) == set(range(9))


def test_the_data_ends() -> None:
    samples = made(TEXT)
    with pytest.raises(IndexError):
        samples[len(samples)]


def test_wrong_words_are_refused() -> None:
    with pytest.raises(UsageError, match="Did you mean 'full'"):
        registry.load("data", "synthetic").card("ful", {})
    with pytest.raises(UsageError, match="has its own example"):
        made(InputSpec("own"))
    with pytest.raises(UsageError, match="takes no path"):
        registry.load("data", "digits").card("x", {})


def test_digits_are_the_ones_that_scikit_learn_has() -> None:
    sklearn = pytest.importorskip("sklearn.datasets")
    theirs = sklearn.load_digits()
    samples = registry.load("data", "digits").samples("", View(InputSpec("image", channels=1), {"image_size": 8}))
    assert len(samples) == 1797 == registry.load("data", "digits").card("", {}).items
    for n in (0, 17, 1796):
        assert int(samples[n]["labels"]) == samples.label(n) == theirs.target[n]
        ours = ((samples[n]["pixel_values"] + 1) * 8)[0]
        assert torch.allclose(ours, torch.tensor(theirs.images[n]).float(), atol=1e-4)


def test_digits_are_resized_and_repeated() -> None:
    item = registry.load("data", "digits").samples("", View(InputSpec("image"), {"image_size": 32}))[3]
    pixels = item["pixel_values"]
    assert pixels.shape == (3, 32, 32)
    assert torch.equal(pixels[0], pixels[2])
    assert -1.0 <= float(pixels.min()) < float(pixels.max()) <= 1.0
