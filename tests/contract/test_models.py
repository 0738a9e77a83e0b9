"""What every model source promises: its card needs no torch, and its smallest model computes, trains and counts."""

import importlib
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from fake_libraries import WRITERS, laid_aside

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task, Workload
from torchstone.core.schema.model import LoadedModel, ModelCard, View
from torchstone.plugins import registry
from torchstone.plugins.models import _classifiers

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_model.py"
SMALLEST = {
    "hf": [
        "distilbert-tiny", "bert-tiny", "roberta-tiny", "gpt2-tiny", "opt-tiny", "vit-tiny", "resnet-tiny",
        "wav2vec2-tiny", "whisper-tiny-twin", "clip-tiny",
    ],
    "builtin": ["cnn", "mlp", "gesture-tiny", "denoiser-small"],
    "py": [f"{EXAMPLE}:load"],
    "timm": ["tiny_net"],
    "torchvision": ["tiny_net"],
}  # fmt: skip
MODELS = [(scheme, name) for scheme, names in SMALLEST.items() for name in names]
CONFIGURATION: Mapping[str, Scalar] = {"batch_size": 2, "sequence_length": 16, "image_size": 32, "audio_s": 0.25}


@pytest.fixture
def libraries(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand-ins for the libraries of models that have no build for this torch: of one scheme, or of all."""
    scheme = getattr(request.node, "callspec", None) and request.node.callspec.params["scheme"]
    wanted = [name for name in WRITERS if scheme in (None, name)]
    for name in wanted:
        WRITERS[name](tmp_path)
    real = laid_aside(wanted)
    if wanted:
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield
    _classifiers.ask.cache_clear()
    laid_aside(wanted)
    sys.modules.update(real)
    importlib.invalidate_caches()


def opened(scheme: str, name: str) -> tuple[ModelCard, LoadedModel]:
    source = registry.load("models", scheme)
    card: ModelCard = source.card(name, {})
    source.preload(name)
    data = "example" if card.input.kind == "own" else "synthetic"
    workload = Workload(Task.TRAIN, f"{scheme}:{name}", data, card.item, card.family, card.fixed)
    return card, source.load(name, workload, CONFIGURATION)


def batch(model: LoadedModel) -> Mapping[str, torch.Tensor]:
    if model.example is not None:
        return model.example
    rows = registry.load("data", "synthetic").samples("", View(model.input, CONFIGURATION))
    return torch.utils.data.default_collate([rows[0], rows[1]])


def test_every_source_has_a_smallest_model_here() -> None:
    assert set(registry.names("models")) == set(SMALLEST)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("scheme", "name"), MODELS)
def test_the_smallest_models_compute_and_train(scheme: str, name: str) -> None:
    card, model = opened(scheme, name)
    assert (model.input.kind, model.input.classes, model.input.causal) == (
        card.input.kind, card.input.classes, card.input.causal,
    )  # fmt: skip
    tensors = batch(model)
    assert torch.isfinite(model.forward(model.module.eval(), tensors)).all()
    assert model.loss is not None
    loss = model.loss(model.module.train(), tensors)
    assert loss.dim() == 0
    assert math.isfinite(loss.item())
    loss.backward()
    assert all(p.grad is not None for p in model.module.parameters() if p.requires_grad)
    assert model.facts.parameters == sum(p.numel() for p in model.module.parameters())


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("scheme", "name"), MODELS)
def test_the_smallest_models_run_on_meta_tensors(scheme: str, name: str) -> None:
    _, model = opened(scheme, name)
    tensors = {key: tensor.to("meta") for key, tensor in batch(model).items()}
    assert model.loss is not None
    model.loss(model.module.to("meta"), tensors).backward()


@pytest.mark.usefixtures("libraries")
def test_cards_and_names_need_no_torch() -> None:
    code = f"""
import sys
from torchstone.plugins import registry
for scheme, names in {SMALLEST!r}.items():
    source = registry.load("models", scheme)
    list(source.names())
    for name in names:
        source.card(name, {{}})
print(*sorted({{"torch", "transformers", "numpy", "PIL", "tokenizers"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_every_listed_name_has_a_card() -> None:
    for scheme in registry.names("models"):
        source = registry.load("models", scheme)
        for name, line in source.names():
            assert line
            assert source.card(name, {}).item in ("sequence", "image", "clip", "pair", "sample")
