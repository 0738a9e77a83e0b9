"""Parameters and operations of the models at full size, on meta tensors: by formula, and as others have published them.

Operations are those of matrix products, convolutions and attention; a multiply-add is 2 (plugins/tasks/_flops.py).
Sources that count multiply-adds (torchvision's `_ops`, "GMACs") say half of it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import torch

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import LoadedModel
from torchstone.plugins import registry
from torchstone.plugins.tasks import _flops

# With the head that the task has. GPT-2's output layer is its embedding.
PARAMETERS = {
    "distilbert-base-uncased": (
        66_955_010,
        "66 M (Sanh et al., 2019); the hub's body 66,362,880, and a head of 592,130",
    ),
    "bert-base-uncased": (109_483_778, "110 M (Devlin et al., 2019); the hub's body 109,482,240, and a head of 1,538"),
    "gpt2": (124_439_808, "124 M (OpenAI's repository; the paper says 117 M)"),
    "google/vit-base-patch16-224": (86_567_656, "86,567,656 (torchvision, vit_b_16)"),
    "microsoft/resnet-50": (25_557_032, "25,557,032 (torchvision, resnet50)"),
    "openai/clip-vit-base-patch32": (151_277_313, "151.28 M (open_clip's model profile)"),
}


def encoder(layers: int, width: int, inner: int, length: int) -> int:
    """Operations of a transformer's layers: four projections, scores and sums, two layers between."""
    return layers * (8 * length * width**2 + 4 * length**2 * width + 4 * length * width * inner)


def convolution(length: int, channels: int, kernel: int, into: int) -> int:
    """Operations of one convolution: for each position and channel that comes out, all that go in."""
    return 2 * length * into * channels * kernel


PIXELS = {"pixel_values": (1, 3, 224, 224)}
ITEM: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "distilbert-base-uncased": {"input_ids": (1, 128)},
    "bert-base-uncased": {"input_ids": (1, 128)},
    "gpt2": {"input_ids": (1, 1024)},
    "google/vit-base-patch16-224": PIXELS,
    "microsoft/resnet-50": PIXELS,
    "openai/clip-vit-base-patch32": {**PIXELS, "input_ids": (1, 77)},
    "openai/whisper-base": {"waveform": (1, 30 * 16_000)},
    "facebook/wav2vec2-base": {"waveform": (1, 16_000)},
}
WAV2VEC2 = [(3199, 1, 10), (1599, 512, 3), (799, 512, 3), (399, 512, 3), (199, 512, 3), (99, 512, 2), (49, 512, 2)]
BY_FORMULA: Mapping[str, int] = {
    "distilbert-base-uncased": encoder(6, 768, 3072, 128) + 2 * 768 * (768 + 2),
    "bert-base-uncased": encoder(12, 768, 3072, 128) + 2 * 768 * (768 + 2),
    "gpt2": encoder(12, 768, 3072, 1024) + 2 * 1024 * 768 * 50257,
    "google/vit-base-patch16-224": convolution(14 * 14, 3, 16 * 16, 768) + encoder(12, 768, 3072, 197) + 2 * 768 * 1000,
    "openai/clip-vit-base-patch32": (
        convolution(7 * 7, 3, 32 * 32, 768) + encoder(12, 768, 3072, 50) + 2 * 768 * 512
        + encoder(12, 512, 2048, 77) + 2 * 512 * 512 + 2 * 512
    ),
    "openai/whisper-base": (
        2 * 80 * 201 * 3000 + convolution(3000, 80, 3, 512) + convolution(1500, 512, 3, 512)
        + encoder(6, 512, 2048, 1500) + 2 * 1500 * 512 * 256 + 2 * 256 * 2
    ),
    "facebook/wav2vec2-base": (
        sum(convolution(*layer, 512) for layer in WAV2VEC2) + 2 * 49 * 512 * 768
        + convolution(50, 768 // 16, 128, 768) + encoder(12, 768, 3072, 49) + 2 * 49 * 768 * 256 + 2 * 256 * 2
    ),
}  # fmt: skip
# Operations of one item as published, how near ours must be, and where.
PUBLISHED: Mapping[str, tuple[float, float, str]] = {
    "distilbert-base-uncased": (11.3e9, 0.012, "TinyBERT (Jiao et al., 2020), table 1: element-wise work, too"),
    "bert-base-uncased": (22.5e9, 0.007, "the same table; MobileBERT (Sun et al., 2020), table 4"),
    "gpt2": (291_648_307_200, 0.0, "nanoGPT's notebook transformer_sizing"),
    "google/vit-base-patch16-224": (2 * 17.564e9, 5e-5, "torchvision, vit_b_16: 17.564 G multiply-adds"),
    "microsoft/resnet-50": (2 * 4.089e9, 2e-4, "torchvision, resnet50: 4.089 G multiply-adds"),
    "openai/clip-vit-base-patch32": (14.78e9, 5e-4, "open_clip's model profile"),
}


def on_meta(name: str) -> LoadedModel:
    source = registry.load("models", "hf")
    card = source.card(name, {})
    configuration: Mapping[str, Scalar] = {"image_size": 224, "sequence_length": 128, "audio_s": 1.0}
    workload = Workload(Task.INFER, f"hf:{name}", "synthetic", card.item, None, card.fixed)
    with torch.device("meta"):
        model: LoadedModel = source.load(name, workload, configuration)
    return model


@cache
def counted(name: str) -> float:
    model = on_meta(name)
    model.module.eval()

    def work(module: Any, tensors: Mapping[str, Any]) -> None:
        with torch.no_grad():
            model.forward(module, tensors)

    found = _flops.count(model.module, work, tensors_of(ITEM[name]))
    assert found.flops is not None, found.why_not
    return found.flops


def tensors_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    kinds = {"input_ids": torch.int64, "labels": torch.int64}
    return {name: torch.empty(shape, dtype=kinds.get(name), device="meta") for name, shape in shapes.items()}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_has_the_parameters_that_are_published(name: str) -> None:
    assert on_meta(name).facts.parameters == PARAMETERS[name][0]


@pytest.mark.parametrize("name", BY_FORMULA)
def test_operations_are_those_of_the_formula(name: str) -> None:
    assert counted(name) == BY_FORMULA[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_operations_are_those_that_are_published(name: str) -> None:
    published, near, _ = PUBLISHED[name]
    assert counted(name) == pytest.approx(published, rel=near)


def test_a_step_of_training_is_three_passes() -> None:
    """Backwards every product is two. Of the first layer of an image, nobody needs the gradient of the pixels."""
    model = on_meta("gpt2")
    assert model.loss is not None
    found = _flops.count(model.module.train(), model.loss, tensors_of(ITEM["gpt2"]))
    assert found.flops == 3 * 291_648_307_200, found.why_not
    model = on_meta("google/vit-base-patch16-224")
    assert model.loss is not None
    found = _flops.count(model.module.train(), model.loss, tensors_of({**PIXELS, "labels": (1,)}))
    forward = BY_FORMULA["google/vit-base-patch16-224"]
    assert found.flops == 3 * forward - convolution(14 * 14, 3, 16 * 16, 768), found.why_not


def test_a_step_of_training_with_grouped_convolutions_is_three_passes() -> None:
    """wav2vec 2.0 in transformers asks even for the gradient of the waveform, so that checkpointing may begin there."""
    model = on_meta("facebook/wav2vec2-base")
    assert model.loss is not None
    tensors = tensors_of({"waveform": (1, 16_000), "labels": (1,)})
    found = _flops.count(model.module.train(), model.loss, tensors)
    assert found.flops == 3 * BY_FORMULA["facebook/wav2vec2-base"], found.why_not
