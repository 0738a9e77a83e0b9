"""How many items a second our loaders give, beside the plainest correct loop with the same decode.

Four ways to hold data, made in a temporary folder: photos (JPEG, 400 × 300) in class folders, the same photos in a
parquet file, CIFAR-10's batches, and sequences (5,160 × 2) in an HDF5 file. The plain loop is the Dataset that anybody
would write: PIL, numpy, torch; no EXIF, no transparency, nothing checked. Both give the same pixels and go through
torch's DataLoader in batches of 32, ours put together and counted as the engines do, the plain ones by torch's default.
A round takes every loader with 0, 1 and 2 processes once each way, in random order; it gives one ratio of items per
second a pair. The median of the rounds' ratios has its distribution-free 95 % interval.

    python benchmarks/loaders.py [--rounds 15] [--json FILE]    exit 1 if one is slower than the plain loop (0 workers)
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from torchstone.core.schema.model import InputSpec, View
from torchstone.core.stats.quantile import bounds
from torchstone.plugins import registry
from torchstone.plugins.tasks._batches import collate

WORKERS = (0, 1, 2)
BATCH = 32
PHOTOS, PHOTO = 256, (300, 400)
CIFAR_A_BATCH = 2_000
SEQUENCES, LENGTH, WIDTH = 1_024, 5_160, 2
NEARLY = 4.01 / 127.5  # what the resizers of PIL and of torch round apart: some steps of 256, where it is noisy


# ── the data ────────────────────────────────────────────────────────────────────────────────────────────────


def pictures(count: int, height: int, width: int, coarse: int) -> np.ndarray:
    """Return pictures, uint8, count × height × width × 3, as smooth as photos and with a camera's noise."""
    dice = torch.Generator().manual_seed(count)
    rough = torch.rand(count, 3, height // coarse, width // coarse, generator=dice)
    smooth = torch.nn.functional.interpolate(rough, size=(height, width), mode="bicubic")
    noisy = 255 * smooth + 6 * torch.randn(smooth.shape, generator=dice)
    return noisy.clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def make(folder: Path) -> None:
    """Write the four data sets."""
    encoded = []
    for number, picture in enumerate(pictures(PHOTOS, *PHOTO, coarse=25)):
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, "JPEG", quality=90)
        encoded.append({"bytes": stream.getvalue(), "path": f"{number}.jpg"})
        file = folder / "photos" / f"class{number % 10}" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(stream.getvalue())
    table = pa.table({"image": encoded, "label": [number % 10 for number in range(PHOTOS)]})
    pq.write_table(table, folder / "photos.parquet", row_group_size=100)  # the hub's size
    (folder / "cifar").mkdir()
    for name in (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"):
        rows = pictures(CIFAR_A_BATCH, 32, 32, coarse=4).transpose(0, 3, 1, 2).reshape(CIFAR_A_BATCH, 3072)
        labels = (np.arange(CIFAR_A_BATCH) % 10).astype(np.uint8)[:, None]
        (folder / "cifar" / name).write_bytes(np.hstack([labels, rows]).tobytes())
    with h5py.File(folder / "sequences.h5", "w") as handle:
        handle["x"] = np.random.default_rng(0).standard_normal((SEQUENCES, LENGTH, WIDTH), dtype=np.float32)


# ── the plain loops ─────────────────────────────────────────────────────────────────────────────────────────


def plain_pixels(file: Any) -> torch.Tensor:
    """Decode, resize the middle to 224 × 224, and scale from -1 to 1."""
    with Image.open(file) as image:
        photo = image.convert("RGB")
    side = min(photo.size)
    left, top = (photo.width - side) // 2, (photo.height - side) // 2
    square = photo.resize((224, 224), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))
    return plain_scaled(torch.from_numpy(np.array(square)).permute(2, 0, 1).contiguous())


def plain_scaled(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.float().div(255).sub_(0.5).div_(0.5)


class PlainFolder(TorchDataset[Any]):
    """Files of class folders."""

    def __init__(self, folder: Path) -> None:
        classes = sorted(folder.iterdir())
        self.files = [(file, label) for label, one in enumerate(classes) for file in sorted(one.iterdir())]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        file, label = self.files[index]
        return plain_pixels(file), label


class PlainParquet(TorchDataset[Any]):
    """Rows, all held in Python's lists."""

    def __init__(self, file: Path) -> None:
        table = pq.read_table(file)
        self.images, self.labels = table["image"].to_pylist(), table["label"].to_pylist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        return plain_pixels(io.BytesIO(self.images[index]["bytes"])), self.labels[index]


class PlainCifar(TorchDataset[Any]):
    """Training batches in one array."""

    def __init__(self, folder: Path) -> None:
        files = (np.fromfile(folder / f"data_batch_{n}.bin", np.uint8) for n in range(1, 6))
        records = np.concatenate(list(files)).reshape(-1, 3073)
        self.pixels, self.labels = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        return plain_scaled(torch.from_numpy(self.pixels[index])), self.labels[index]


class PlainHdf5(TorchDataset[Any]):
    """Sequences, of a file that each process opens when it first reads."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.data: Any = None

    def __len__(self) -> int:
        return SEQUENCES

    def __getitem__(self, index: int) -> Any:
        if self.data is None:
            self.data = h5py.File(self.file, "r")["x"]
        return torch.from_numpy(self.data[index])


class Kind(NamedTuple):
    """One way to hold data: how torchstone reads it, and the plain loop."""

    source: str
    path: str
    view: View
    plain: Callable[[Path], TorchDataset[Any]]


PHOTO_VIEW = View(InputSpec("image", classes=10), {"image_size": 224})
KINDS = {
    "folder": Kind("images", "photos", PHOTO_VIEW, PlainFolder),
    "parquet": Kind("images", "photos.parquet", PHOTO_VIEW, PlainParquet),
    "CIFAR batches": Kind(
        "cifar10", "cifar", View(InputSpec("image", classes=10), {"image_size": 32}, split="train"), PlainCifar
    ),
    "HDF5": Kind("hdf5", "sequences.h5", View(InputSpec("features"), {"sequence_length": LENGTH}), PlainHdf5),
}


# ── the race ────────────────────────────────────────────────────────────────────────────────────────────────


def agree(ours: Any, plain: Any) -> None:
    """Stop where the two do not give the same items: they would not have done the same work."""
    for index in (0, len(ours) // 2, len(ours) - 1):
        one, other = ours[index], plain[index]
        values = other[0] if isinstance(other, tuple) else other
        apart = float((next(iter(one.values())) - values).abs().max())
        if apart > NEARLY or (isinstance(other, tuple) and int(one["labels"]) != other[1]):
            sys.exit(f"item {index} differs from the plain loop's, by {apart:g}")


def loader(data: Any, workers: int, together: Callable[..., Any] | None) -> Any:
    return DataLoader(
        data, batch_size=BATCH, shuffle=True, drop_last=True, num_workers=workers, collate_fn=together,
        persistent_workers=workers > 0, generator=torch.Generator().manual_seed(0),
    )  # fmt: skip


def pace(batches: Any) -> float:
    """Return the items per second of one pass."""
    began_s, count = time.perf_counter(), 0
    for _ in batches:
        count += BATCH
    return count / (time.perf_counter() - began_s)


def race(folder: Path, rounds: int) -> dict[str, dict[int, dict[str, list[float]]]]:
    """Return items per second of each round, by kind, workers and side."""
    loaders: dict[tuple[str, int, str], Any] = {}
    paces: dict[str, dict[int, dict[str, list[float]]]] = {
        kind: {workers: {"ours": [], "plain": []} for workers in WORKERS} for kind in KINDS
    }
    for name, kind in KINDS.items():
        ours = registry.load("data", kind.source).samples(str(folder / kind.path), kind.view)
        plain = kind.plain(folder / kind.path)
        agree(ours, plain)
        for workers in WORKERS:
            loaders[name, workers, "ours"] = loader(ours, workers, collate)
            loaders[name, workers, "plain"] = loader(plain, workers, None)
    dice = random.Random(0)
    for turn in range(rounds + 1):
        for name, workers in dice.sample([(name, workers) for name in KINDS for workers in WORKERS], 3 * len(KINDS)):
            for side in dice.sample(["ours", "plain"], 2):
                found = pace(loaders[name, workers, side])
                if turn:  # the first turn starts the processes and fills the caches
                    paces[name][workers][side].append(found)
    return paces


def main() -> int:
    """Make the data, race, print; return 1 if a loader without processes is slower than the plain loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "data" / "loaders.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        paces = race(Path(folder), options.rounds)
    options.json.write_text(json.dumps({"date": time.strftime("%Y-%m-%d"), "items_per_s": paces}))
    good = True
    print("items per second, medians of rounds; ratio: torchstone over the plain loop, with its 95 % interval")
    heads = f"{'loader':<14} {'workers':>7} {'torchstone':>11} {'plain':>9}   {'ratio':<21}"
    print(f"{heads} {'× 0 workers':>11} {'plain':>6}")
    for name, by_workers in paces.items():
        alone = {side: statistics.median(by_workers[0][side]) for side in ("ours", "plain")}
        for workers, sides in by_workers.items():
            usual = {side: statistics.median(values) for side, values in sides.items()}
            ratios = [one / other for one, other in zip(sides["ours"], sides["plain"], strict=True)]
            low, high = (end if end is not None else float("nan") for end in bounds(ratios, 0.5))
            slower = workers == 0 and statistics.median(ratios) < 1.0 and not high >= 1.0
            good = good and not slower
            print(
                f"{name:<14} {workers:>7} {usual['ours']:>11,.0f} {usual['plain']:>9,.0f}   "
                f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] {usual['ours'] / alone['ours']:>11.2f} "
                f"{usual['plain'] / alone['plain']:>6.2f}{'  SLOWER' * slower}"
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
