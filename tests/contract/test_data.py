"""What every data source promises: cards need no torch, items have the shapes asked for, in loader processes too."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from torchstone import registry
from torchstone.extend import Samples
from torchstone.terms.axis import Scalar
from torchstone.terms.model import InputSpec

CONFIGURATION: Mapping[str, Scalar] = {"sequence_length": 12, "image_size": 24}
TEXT = InputSpec("text", classes=2, vocabulary=300, longest=64)
IMAGE = InputSpec("image", classes=10)
FEATURES = InputSpec("features", classes=9, width=75)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "rows.tsv").write_text("a good film\t1\na bad film\t0\nfine , really\t1\nno\t0", encoding="utf-8")
    for n, name in enumerate(("cat", "dog")):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for copy in range(2):
            Image.new("RGB", (30 + n, 20), (200 * n, 10, 10)).save(folder / f"{copy}.png")
    return {
        "tsv": str(tmp_path / "rows.tsv"),
        "images": str(tmp_path / "pictures"),
        "synthetic": "",
        "digits": "",
        "manual": "",
    }


EATEN = [
    ("synthetic", TEXT), ("synthetic", IMAGE), ("synthetic", FEATURES), ("digits", IMAGE),
    ("tsv", TEXT), ("manual", TEXT), ("images", IMAGE),
]  # fmt: skip
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "text": {"input_ids": (12,), "attention_mask": (12,)},
    "image": {"pixel_values": (3, 24, 24)},
    "features": {"features": (12, 75)},
}


def opened(places: dict[str, str], scheme: str, spec: InputSpec) -> Samples:
    samples: Samples = registry.load("data", scheme).samples(places[scheme], spec, None, CONFIGURATION, 0)
    return samples


def test_every_source_is_here() -> None:
    assert set(registry.names("data")) == {scheme for scheme, _ in EATEN}


@pytest.mark.parametrize(("scheme", "spec"), EATEN)
def test_items_have_the_shapes_asked_for(places: dict[str, str], scheme: str, spec: InputSpec) -> None:
    samples = opened(places, scheme, spec)
    item = samples[len(samples) - 1]
    wanted = {**SHAPES[spec.kind], "labels": ()}
    assert {name: tuple(tensor.shape) for name, tensor in item.items()} == wanted
    assert 0 <= int(item["labels"]) < (spec.classes or 0)
    again = opened(places, scheme, spec)[len(samples) - 1]
    assert all(torch.equal(item[name], again[name]) for name in item)


@pytest.mark.parametrize(("scheme", "spec"), EATEN)
def test_loader_processes_make_the_same_items(places: dict[str, str], scheme: str, spec: InputSpec) -> None:
    samples = opened(places, scheme, spec)
    four: Any = torch.utils.data.Subset(cast("Any", samples), range(4))
    loader: Any = DataLoader(four, batch_size=2, num_workers=2)
    batches = list(loader)
    assert len(batches) == 2
    for name, tensor in batches[1].items():
        assert torch.equal(tensor[1], samples[3][name]), name


@pytest.mark.parametrize("scheme", ["synthetic", "digits", "tsv", "manual", "images"])
def test_a_card_tells_what_the_samples_are(places: dict[str, str], scheme: str) -> None:
    card = registry.load("data", scheme).card(places[scheme], {})
    if card.items is not None:
        spec = TEXT if card.kind == "text" else IMAGE
        assert len(opened(places, scheme, spec)) == card.items
        assert card.classes in (2, 10)


def test_cards_need_no_torch(places: dict[str, str]) -> None:
    code = f"""
import sys
from torchstone import registry
for scheme, place in {places!r}.items():
    registry.load("data", scheme).card(place, {{}})
print(*sorted({{"torch", "transformers", "numpy", "PIL", "tokenizers"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
