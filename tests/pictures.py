"""Builders of image data sets as people hold them: a few small images in each of the layouts."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def picture(file: Path, mode: str = "RGB", color: Any = (255, 0, 0), size: tuple[int, int] = (7, 5)) -> Path:
    """One image of one color, 7 wide and 5 high; its folders are made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(file)
    return file


def class_folders(root: Path, classes: Sequence[str] = ("cat", "dog"), each: int = 2) -> Path:
    """A folder for each class, with PNG files 0.png, 1.png, …; a class has one color."""
    for number, name in enumerate(classes):
        for copy in range(each):
            picture(root / name / f"{copy}.png", color=(100 * number, 10, 10))
    return root


def cifar_batches(root: Path, each: int = 4) -> Path:
    """The six batches of CIFAR-10 and its class names; image n of a batch has label n, and n in all its pixels."""
    root.mkdir(parents=True, exist_ok=True)
    for name in (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"):
        batch(root / name, list(range(each)))
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    (root / "batches.meta.txt").write_text("".join(f"{name}\n" for name in names) + "\n")
    return root


def batch(file: Path, classes: Sequence[int], pixels: Any = None) -> Path:
    """One batch of CIFAR-10: for each image a byte of its class, and its 3,072 pixels."""
    if pixels is None:
        pixels = np.repeat(np.arange(len(classes), dtype=np.uint8)[:, None], 3072, axis=1)
    labels = np.array(classes, dtype=np.uint8)[:, None]
    file.write_bytes(np.hstack([labels, pixels.reshape(len(classes), 3072)]).tobytes())
    return file


def food101(root: Path) -> Path:
    """Two classes with three images each: two to train, one to test."""
    for name in ("apple_pie", "waffles"):
        for number in (10, 11, 12):
            picture(root / "images" / name / f"{number}.jpg")
    (root / "meta").mkdir()
    (root / "meta" / "train.txt").write_text("apple_pie/10\napple_pie/11\nwaffles/11\nwaffles/12\n")
    (root / "meta" / "test.txt").write_text("apple_pie/12\nwaffles/10\n")
    return root


def imagenet100(root: Path) -> Path:
    """Three classes in two training folders, an image of each to validate, and their names."""
    for part, name in (("train.X1", "n02"), ("train.X2", "n01"), ("train.X2", "n03")):
        for number in range(2):
            picture(root / part / name / f"{name}_{number}.JPEG")
    for name in ("n01", "n02", "n03"):
        picture(root / "val.X" / name / f"{name}_v.JPEG")
    names = {"n01": "tench, Tinca tinca", "n02": "robin, Turdus migratorius", "n03": "ostrich", "n99": "not here"}
    (root / "Labels.json").write_text(json.dumps(names))
    return root


def mri(root: Path) -> Path:
    """Two diagnoses in Training and Testing."""
    class_folders(root / "Training", ("glioma", "notumor"), each=2)
    class_folders(root / "Testing", ("glioma", "notumor"), each=2)
    return root


def encoded(color: tuple[int, int, int] = (255, 0, 0), size: tuple[int, int] = (7, 5), form: str = "PNG") -> bytes:
    """One image as the bytes of its file."""
    stream = io.BytesIO()
    Image.new("RGB", size, color).save(stream, form)
    return stream.getvalue()


def parquet(
    file: Path, labels: Sequence[Any] | None = (0, 1), *, names: Sequence[str] = (),
    images: Sequence[Any] | None = None, **columns: Any,
) -> Path:  # fmt: skip
    """Rows of images as the hub has them: structs of bytes and path, labels, and their names in the file's note.

    `columns` are further ones, or take the place of `image` and `label`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = len(labels if labels is not None else images or ())
    if images is None:
        images = [{"bytes": encoded((50 * n, 0, 0)), "path": f"{n}.png"} for n in range(rows)]
    table = pa.table({"image": images} | ({"label": list(labels)} if labels is not None else {}) | columns)
    if names:
        note: Mapping[str, Any] = {"info": {"features": {"label": {"names": list(names), "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(note)})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, row_group_size=2)
    return file
