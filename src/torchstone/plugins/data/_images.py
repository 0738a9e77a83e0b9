"""Images as a data set: each is decoded, cut to a square, resized, from -1 to 1, when the loader asks for it.

As training pipelines do it. Decoding: turned upright by EXIF; transparent pixels lie on white; CMYK, palettes, grey and
16-bit grey become the channels that the model takes; the whole image is decoded, not a JPEG's smaller version, so that
a measured loader costs what one of torchvision or of the hub costs. Looking: the largest square in the middle, resized.
With augmentation, for photos: a random part of 8 to 100 % of the area with sides of 3:4 to 4:3, resized (Szegedy et
al., Going deeper with convolutions, CVPR 2015); for small images: padded with black by an eighth of the side and cut
at random (He et al., Deep residual learning, CVPR 2016); both mirrored half of the time. What is random comes from
torch's generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch.nn.functional import interpolate, pad

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import Unreadable, View
from torchstone.plugins.data._named_files import ImageSet, Pile
from torchstone.plugins.data._table import Classes

_FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
_SMALL_SIDE = 64  # up to which an image is padded and cut, and not zoomed into
_LEAST_AREA, _WIDEST, _TRIES = 0.08, 4 / 3, 10
_LUMA = (((0.299,),), ((0.587,),), ((0.114,),))  # ITU-R 601-2, as PIL has it


class ImageSamples:
    """Items of `pixel_values`, float32, channels × side × side from -1 to 1, and `labels` if there are classes.

    An image that cannot be read is Unreadable where the view's options say on_error=skip, else it raises UsageError.
    """

    def __init__(self, images: ImageSet, view: View) -> None:
        if view.split not in images.splits:
            raise UsageError(f"no split {view.split}; there is {', '.join(map(str, images.splits))}: write split=NAME")
        pile: Pile = images.splits[view.split]
        self._pile, self._items = pile, len(pile)
        self._look = PixelTransform(view)
        self._labels = _labels_of(pile, images.labels, view)
        self._classes = [torch.tensor(number) for number in range(max(self._labels or (-1,)) + 1)]
        self._raw = pile.open()
        self._skips = view.options.get("on_error") == "skip"
        self.augments = view.augment

    def __len__(self) -> int:
        return self._items

    def __getitem__(self, index: int) -> Mapping[str, Any] | Unreadable:
        if not 0 <= index < self._items:
            raise IndexError(index)
        try:
            raw = self._raw[index]
            pixels = self._look(raw if isinstance(raw, torch.Tensor) else decoded(raw, self._look.mode))
        except MemoryError:
            raise
        except Exception as error:  # what a damaged image makes PIL raise is any exception
            return self._unreadable(index, error)
        if self._labels is None:
            return {"pixel_values": pixels}
        return {"pixel_values": pixels, "labels": self._classes[self._labels[index]]}

    def label(self, index: int) -> int | None:
        """Return the class of an image without reading the image; None without classes."""
        return self._labels[index] if self._labels is not None else None

    def _unreadable(self, index: int, error: Exception) -> Unreadable:
        name = self._pile.name(index)
        why = " ".join(str(error).replace(repr(name), "it").split())[:120] or type(error).__name__
        if self._skips:
            return Unreadable(name, why)
        message = f"{name}: cannot be read as an image: {why}; --data-option on_error=skip leaves such items out"
        raise UsageError(message) from error


def _labels_of(pile: Pile, names: tuple[str, ...], view: View) -> list[int] | None:
    """Return the labels as the model knows them, one for each image. Raises UsageError naming one it does not know."""
    if pile.labels is None:
        return None
    classes = Classes(names, view)
    first = {label: index for index, label in reversed(list(enumerate(pile.labels)))}
    known = {n: classes.number(names[n] if names else n, pile.name(first[n])) for n in sorted(first)}
    return [known[label] for label in pile.labels]


class PixelTransform:
    """Turns pixels, uint8, bands × height × width, into float32, channels × side × side, from -1 to 1."""

    def __init__(self, view: View) -> None:
        self.channels = view.input.channels
        if self.channels not in (1, 3):
            raise UsageError(f"the model takes images of {self.channels} channels; files of images give 1 or 3")
        self.mode = "L" if self.channels == 1 else "RGB"
        self._side = int(view.configuration.get("image_size") or 224)
        self._augment = view.augment

    def __call__(self, pixels: Any) -> Any:
        bands, height, width = pixels.shape
        if self._augment or height != width or height != self._side:
            pixels = self._square(pixels, height, width)
        if bands != self.channels:
            pixels = pixels.expand(3, -1, -1) if bands == 1 else (pixels * torch.tensor(_LUMA)).sum(0, keepdim=True)
        return torch.mul(pixels.contiguous(), 1 / 127.5).sub_(1.0)

    def _square(self, pixels: Any, height: int, width: int) -> Any:
        """Return what is looked at, bands × side × side: the middle, or with augmentation what chance says."""
        side, zooms = self._side, self._augment and self._side > _SMALL_SIDE
        top, left, height, width = random_part(height, width) if zooms else middle(height, width)
        pixels = pixels[:, top : top + height, left : left + width]
        if (height, width) != (side, side):
            pixels = resized(pixels, side)
        if self._augment:
            if not zooms:
                pixels = _shifted(pixels, side // 8)
            if torch.rand(()) < 0.5:
                pixels = pixels.flip(-1)
        return pixels


def decoded(file: Any, mode: str) -> Any:
    """Return the pixels of an encoded image (a path or a binary stream), uint8, bands × height × width, as a view.

    `mode` is L or RGB. Raises whatever PIL does for a file that is none.
    """
    from PIL import Image

    with Image.open(file, formats=_FORMATS) as opened:
        image = _plain(opened, mode)
    data = bytearray(image.tobytes())
    return torch.frombuffer(data, dtype=torch.uint8).view(image.height, image.width, len(mode)).permute(2, 0, 1)


def resized(pixels: Any, side: int) -> Any:
    """Return bands × side × side of bands × height × width, bilinear with antialiasing, as PIL resizes."""
    size = (side, side)
    return interpolate(pixels.unsqueeze(0), size=size, mode="bilinear", align_corners=False, antialias=True).squeeze(0)


def middle(height: int, width: int) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the largest square in the middle."""
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def random_part(height: int, width: int) -> tuple[int, int, int, int]:
    """Return top, left, height and width of a random part; the middle, if ten tries find none that fits."""
    for _ in range(_TRIES):
        area, shape, down, right = torch.rand(4).tolist()
        area = height * width * (_LEAST_AREA + (1.0 - _LEAST_AREA) * area)
        aspect = _WIDEST ** (2.0 * shape - 1.0)  # uniform in its logarithm
        tall, wide = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 0 < tall <= height and 0 < wide <= width:
            return int(down * (height - tall + 1)), int(right * (width - wide + 1)), tall, wide
    return middle(height, width)


def _shifted(pixels: Any, reach: int) -> Any:
    if reach == 0:
        return pixels
    _, height, width = pixels.shape
    top, left = torch.randint(0, 2 * reach + 1, (2,)).tolist()
    return pad(pixels, (reach,) * 4)[:, top : top + height, left : left + width]


def _plain(image: Any, mode: str) -> Any:
    """Return the image upright and opaque, in that mode."""
    from PIL import Image, ImageOps

    image.load()
    with suppress(Exception):  # a torn note of the camera says nothing about the picture: it stays as it lies
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I"):  # 16 bits: PIL would cut off what is brighter than 255
        image = image.point(lambda value: value * (1 / 257)).convert("L")
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    return image if image.mode == mode else image.convert(mode)
