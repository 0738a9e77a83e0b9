"""`timm:` and `torchvision:` with stand-ins of these libraries: what is asked of them, and made of the answers."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fake_libraries import WRITERS, laid_aside, write_timm
from safetensors.torch import save_file

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import LoadedModel
from torchstone.core.schema.request import WorkloadRequest
from torchstone.execution.plan import sketch
from torchstone.plugins import registry
from torchstone.plugins.models import _classifiers
from torchstone.plugins.protocols import ModelSource
from torchstone.plugins.tasks._settings import switch_checkpointing

BOTH = pytest.mark.parametrize("library", ["timm", "torchvision"])


@pytest.fixture(autouse=True, scope="module")
def _libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Stand-ins for both on the path, for this process and those it starts; forgotten afterwards.

    Where the real ones are installed, transformers may have imported them: those are laid aside meanwhile.
    """
    place = tmp_path_factory.mktemp("libraries")
    real = laid_aside(WRITERS)
    for write in WRITERS.values():
        write(place)
    _classifiers.ask.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        patch.setenv("PYTHONPATH", str(place))
        yield
    _classifiers.ask.cache_clear()
    laid_aside(WRITERS)
    sys.modules.update(real)
    importlib.invalidate_caches()


def source(library: str) -> ModelSource:
    found: ModelSource = registry.load("models", library)
    return found


def load(library: str, name: str, options: dict[str, Scalar] | None = None, **configuration: Scalar) -> LoadedModel:
    card = source(library).card(name, options or {})
    source(library).preload(name)
    workload = Workload(Task.TRAIN, f"{library}:{name}", "synthetic", card.item, card.family, card.fixed)
    return source(library).load(name, workload, {**card.defaults, **configuration})


def refused(library: str, name: str, options: dict[str, Scalar] | None = None) -> str:
    with pytest.raises((UsageError, MissingError)) as caught:
        load(library, name, options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@BOTH
def test_the_card_says_what_the_library_says(library: str) -> None:
    card = source(library).card("tiny_net", {})
    assert (card.item, card.family, card.input.kind, card.input.classes, card.input.channels) == (
        "image", "vision", "image", 1000, 3,
    )  # fmt: skip
    assert card.defaults == {"image_size": 64}
    assert card.fixed == {"weights": "random", "source": "tiny_net", "classes": 1000}
    assert not card.own


@BOTH
def test_a_model_computes_and_trains(library: str) -> None:
    model = load(library, "tiny_net", {"classes": "7"})
    images = {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.tensor([0, 6])}
    assert model.forward(model.module, images).shape == (2, 7)
    assert model.loss is not None
    model.loss(model.module.train(), images).backward()
    assert model.facts.parameters == sum(p.numel() for p in model.module.parameters())
    with pytest.raises(UsageError, match="no labels"):
        model.loss(model.module, {"pixel_values": images["pixel_values"]})


@BOTH
def test_a_network_that_is_made_for_a_size_gets_the_size_asked_for(library: str) -> None:
    model = load(library, "tiny_vit", image_size=32)
    assert model.forward(model.module, {"pixel_values": torch.randn(2, 3, 32, 32)}).shape == (2, 1000)


def test_the_loss_of_several_heads_is_that_of_the_main_one() -> None:
    model = load("torchvision", "googlenet")
    assert model.loss is not None
    images = {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.tensor([0, 6])}
    model.loss(model.module.train(), images).backward()


def test_timm_checkpoints_activations_by_its_own_method() -> None:
    module = load("timm", "tiny_net").module
    switch_checkpointing(module, on=True)
    assert module.checkpointing
    switch_checkpointing(module, on=False)
    assert not module.checkpointing


@BOTH
@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("tiny_nte", {}, "unknown {library} model 'tiny_nte'. Did you mean tiny_net"),
        ("tiny_net", {"wights": "random"}, "Did you mean 'weights'"),
        ("tiny_net", {"weights": "none"}, "Known: pretrained, random"),
        ("tiny_net", {"classes": 1}, "at least 2"),
        ("tiny_net@/a/b.pth", {"weights": "random"}, "leave out the option weights"),
        ("tiny_net@", {}, "name the file after the @: {library}:tiny_net@/path/file.pth"),
    ],
)
def test_wrong_requests_are_told_what_is_right(library: str, name: str, options: dict[str, Scalar], says: str) -> None:
    assert says.format(library=library) in refused(library, name, options)


def test_a_tag_that_timm_does_not_know() -> None:
    assert refused("timm", "tiny_net.in22k") == "timm:tiny_net.in22k: Invalid pretrained tag (in22k) for tiny_net."
    assert source("timm").card("tiny_net.fake", {}).fixed["source"] == "tiny_net.fake"


def test_pretrained_weights_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wish: dict[str, Scalar] = {"weights": "pretrained"}
    assert "tiny_bare: has no pretrained weights" in refused("timm", "tiny_bare", wish)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "timm/tiny_net.fake is not in" in refused("timm", "tiny_net", wish)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    told = refused("timm", "tiny_net", wish)
    assert told == (
        "timm:tiny_net: weights=pretrained: cannot reach the hub; "
        "type --model timm:tiny_net@FILE, or --option weights=random"
    )
    assert refused("torchvision", "tiny_net", wish).endswith(
        "no network; type --model torchvision:tiny_net@FILE, or --option weights=random"
    )
    assert "have 1000 classes, not 7" in refused("torchvision", "tiny_net", {**wish, "classes": 7})


@BOTH
def test_weights_of_a_file(library: str, tmp_path: Path) -> None:
    state = load(library, "tiny_net", {"classes": 7}).module.state_dict()
    save_file(state, tmp_path / "mine.safetensors")
    model = load(library, f"tiny_net@{tmp_path}/mine.safetensors", {"classes": 7})
    assert model.facts.weights == "file"
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.module.state_dict().items())
    told = refused(library, f"tiny_net@{tmp_path}/mine.safetensors")
    assert f"not those of {library}:tiny_net: of another shape: 'head.weight' (7×8, not 1000×8)" in told
    assert "missing: 'places'" in refused(library, f"tiny_vit@{tmp_path}/mine.safetensors", {"classes": 7})


@BOTH
def test_a_file_is_the_same_case_in_every_folder(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(load(library, "tiny_net").module.state_dict(), tmp_path / "w.pth")
    monkeypatch.chdir(tmp_path)
    made = [sketch(WorkloadRequest("infer", f"{library}:tiny_net@{word}")) for word in ("w.pth", f"{tmp_path}/w.pth")]
    assert len({Case(one.workload, one.configurations[0], Placement("cpu")).case_id for one in made}) == 1
    assert made[0].own


@BOTH
def test_without_the_library(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_classifiers, "find_spec", lambda name: None)
    assert refused(library, "tiny_net").startswith(f"{library}: needs {library}: ")
    assert list(source(library).names()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "raise RuntimeError('operator torchvision::nms does not exist')\n",
            r"^timm: cannot be imported: operator torchvision::nms does not exist; .*torchvision that belongs to",
        ),
        (
            "import os, sys\nprint('oh no', file=sys.stderr, flush=True)\nos._exit(3)\n",
            "^timm: cannot be asked for tiny_net: oh no$",
        ),
    ],
)
def test_a_library_that_is_there_and_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    write_timm(tmp_path, text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    _classifiers.ask.cache_clear()
    with pytest.raises(MissingError, match=says) as caught:
        source("timm").card("tiny_net", {})
    assert "\n" not in str(caught.value)
