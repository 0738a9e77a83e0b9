"""What every data source promises: cards need no torch, items have the shapes asked for, in loader processes too."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pictures import cifar_batches, food101, imagenet100, mri
from PIL import Image
from torch.utils.data import DataLoader

from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.model import InputSpec, View
from torchstone.plugins import registry

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
    rows: dict[str, list[Any]] = {"text": ["a good film", "a bad film", "fine", "no"], "label": [1, 0, 1, 0]}
    lines = ["text,label", *(f"{t},{n}" for t, n in zip(rows["text"], rows["label"], strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    with h5py.File(tmp_path / "signals.h5", "w") as file:
        file["x"] = np.arange(4 * 15 * 75, dtype="f4").reshape(4, 15, 75)
    (tmp_path / "gestures").mkdir()
    for n in range(4):
        frames = [",".join(str((n + frame) * column % 11) for column in range(75)) for frame in range(1, 6)]
        (tmp_path / "gestures" / f"101_18_{n}_1_1_stand.txt").write_text("\n".join(frames))
    return {
        "tsv": str(tmp_path / "rows.tsv"),
        "images": str(tmp_path / "pictures"),
        "synthetic": "",
        "digits": "",
        "manual": "",
        "sst2": str(tmp_path / "rows.tsv"),
        "csv": str(tmp_path / "rows.csv"),
        "parquet": str(tmp_path / "rows.parquet"),
        "hdf5": str(tmp_path / "signals.h5"),
        "gesture": str(tmp_path / "gestures"),
        "cifar10": str(cifar_batches(tmp_path / "cifar10")),
        "food101": str(food101(tmp_path / "food101")),
        "imagenet100": str(imagenet100(tmp_path / "imagenet100")),
        "mri": str(mri(tmp_path / "mri")),
    }


EATEN = [
    ("synthetic", TEXT), ("synthetic", IMAGE), ("synthetic", FEATURES), ("digits", IMAGE),
    ("tsv", TEXT), ("manual", TEXT), ("images", IMAGE), ("sst2", TEXT), ("csv", TEXT), ("parquet", TEXT),
    ("hdf5", FEATURES), ("gesture", FEATURES),
    ("cifar10", IMAGE), ("food101", IMAGE), ("imagenet100", IMAGE), ("mri", IMAGE),
]  # fmt: skip
OPTIONS: Mapping[str, Mapping[str, Scalar]] = {
    scheme: {"text": "text", "label": "label"} for scheme in ("csv", "parquet")
}
UNLABELLED = {"hdf5"}
SPLIT = {"cifar10": "test", "food101": "train", "imagenet100": "train", "mri": "test"}  # of those that have splits here
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "text": {"input_ids": (12,), "attention_mask": (12,)},
    "image": {"pixel_values": (3, 24, 24)},
    "features": {"features": (12, 75)},
}


def opened(places: dict[str, str], scheme: str, spec: InputSpec) -> Any:
    view = View(spec, CONFIGURATION, options=OPTIONS.get(scheme, {}), split=SPLIT.get(scheme))
    return registry.load("data", scheme).samples(places[scheme], view)


def test_every_source_is_here() -> None:
    elsewhere = {"hub"}  # needs a library that is made up in tests/unit/plugins/data/test_hub.py
    assert set(registry.names("data")) - elsewhere == {scheme for scheme, _ in EATEN}


@pytest.mark.parametrize(("scheme", "spec"), EATEN)
def test_items_have_the_shapes_asked_for(places: dict[str, str], scheme: str, spec: InputSpec) -> None:
    samples = opened(places, scheme, spec)
    item = samples[len(samples) - 1]
    wanted = {**SHAPES[spec.kind], **({} if scheme in UNLABELLED else {"labels": ()})}
    assert {name: tuple(tensor.shape) for name, tensor in item.items()} == wanted
    assert scheme in UNLABELLED or 0 <= int(item["labels"]) < (spec.classes or 0)
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


@pytest.mark.parametrize("scheme", dict(EATEN))
def test_a_card_tells_what_the_samples_are(places: dict[str, str], scheme: str) -> None:
    card = registry.load("data", scheme).card(places[scheme], OPTIONS.get(scheme, {}))
    if card.items is not None:
        spec = {"text": TEXT, "image": IMAGE, "features": FEATURES}[card.kind]
        there = card.splits[SPLIT[scheme]] if scheme in SPLIT else card.items
        assert len(opened(places, scheme, spec)) == there
        assert card.classes in ((None,) if scheme in UNLABELLED else (2, 3, 9, 10))


def test_cards_need_no_torch(places: dict[str, str]) -> None:
    code = f"""
import sys
from torchstone.plugins import registry
for scheme, place in {places!r}.items():
    registry.load("data", scheme).card(place, {OPTIONS!r}.get(scheme, {{}}))
print(*sorted({{"torch", "transformers", "PIL", "tokenizers"}} & set(sys.modules)))  # pyarrow and h5py bring numpy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
