"""`images:PATH`: a folder of images, or of one folder a class; decoded, resized and normalised as they are read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.errors import MissingError, UsageError
from torchstone.extend import DataSource, Samples
from torchstone.terms.axis import Scalar
from torchstone.terms.batch import DataCard
from torchstone.terms.model import InputSpec

_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP")


class Pictures:
    """Items of `pixel_values`, float32, channels × side × side from -1 to 1, and `labels` if there are classes."""

    def __init__(self, found: Sequence[tuple[str, int | None]], channels: int, side: int) -> None:
        self._found = found
        self._channels = channels
        self._side = side

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        import torch

        from torchstone.data._images import fitted

        file, label = self._found[index]
        height, width, bands, data = _decoded(file, "L" if self._channels == 1 else "RGB")
        raw = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(height, width, bands)
        item = {"pixel_values": fitted(raw.permute(2, 0, 1).float() / 255.0, self._channels, self._side).contiguous()}
        if label is not None:
            item["labels"] = torch.tensor(label)
        return item


def _decoded(file: str, mode: str) -> tuple[int, int, int, bytes]:
    """Return height, width, bands and the bytes of an image. Raises UsageError naming a file that is none."""
    from PIL import Image

    try:
        with Image.open(file, formats=_FORMATS) as image:
            pixels = image.convert(mode)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{file}: cannot be read as an image: {str(error).replace(repr(file), 'it')[:120]}") from error
    return pixels.height, pixels.width, len(mode), pixels.tobytes()


class Images:
    """Data source `images`."""

    describes = "your own images: images:PATH, a folder of them or of one folder a class (jpg, png, webp, bmp)"

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if find_spec("PIL") is None:
            raise MissingError("data images: needs Pillow: pip install pillow")
        found = _found(path)
        labels = {label for _, label in found if label is not None}
        root = Path(path).expanduser()
        # Names and sizes stand for the contents: reading them all would take as long as an epoch.
        digest = hashlib.sha256()
        for file, _ in found:
            digest.update(f"{Path(file).relative_to(root).as_posix()}\t{Path(file).stat().st_size}\n".encode())
        return DataCard("image", len(found), len(labels) or None, digest.hexdigest())

    def samples(
        self, path: str, spec: InputSpec, tokenizer: Any, configuration: Mapping[str, Scalar], seed: int
    ) -> Samples:
        return Pictures(_found(path), spec.channels, int(configuration.get("image_size") or 224))


def _found(path: str) -> list[tuple[str, int | None]]:
    """Return (file, class) of every image, in the order of names; class None in a folder without class folders."""
    if not path:
        raise UsageError("data images: name the folder: images:photos")
    root = Path(path).expanduser()
    if not root.is_dir():
        raise UsageError(f"{root}: {'a file, not a folder' if root.exists() else 'there is no such folder'}")
    flat = list(_images_in(root))
    folders = sorted(e for e in root.iterdir() if e.is_dir() and not e.name.startswith("."))
    classes = [(folder.name, files) for folder in folders if (files := list(_images_in(folder)))]
    if flat and classes:
        raise UsageError(
            f"{root}: has {len(flat)} images beside class folders ({classes[0][0]}, …); move them into one"
        )
    if flat:
        return [(file, None) for file in flat]
    if not classes:
        raise UsageError(f"{root}: {_nothing(root, folders)}")
    return [(file, number) for number, (_, files) in enumerate(classes) for file in files]


def _images_in(folder: Path) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  a tenth of the time for a million names
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from error
    return (f"{folder}{os.sep}{name}" for name in names if name.lower().endswith(_ENDINGS) and not name.startswith("."))


def _nothing(root: Path, folders: Sequence[Path]) -> str:
    if not any(root.iterdir()):
        return "an empty folder"
    for folder in folders:
        if any(any(_images_in(inner)) for inner in folder.iterdir() if inner.is_dir()):
            return f"has no images, but {folder.name} in it has class folders: images:{folder}"
    return f"has no images ({', '.join(_ENDINGS)}), neither in it nor in its folders"


PLUGIN: DataSource = Images()
