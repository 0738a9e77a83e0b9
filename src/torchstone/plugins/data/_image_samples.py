"""Images as a data set: each is decoded, resized and (for training) changed at random when the loader asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.batch import Unreadable, View
from torchstone.plugins.data._classes import Classes
from torchstone.plugins.data._image_found import Found, Pile
from torchstone.plugins.data._images import Look, decoded


class Pictures:
    """Items of `pixel_values`, float32, channels × side × side from -1 to 1, and `labels` if there are classes.

    An image that cannot be read is Unreadable where the view's options say on_error=skip, else it raises UsageError.
    """

    def __init__(self, found: Found, view: View) -> None:
        if view.split not in found.splits:
            raise UsageError(f"no split {view.split}; there is {', '.join(map(str, found.splits))}: write split=NAME")
        pile: Pile = found.splits[view.split]
        self._pile, self._items = pile, len(pile)
        self._look = Look(view)
        self._labels = _numbers(pile, found.labels, view)
        self._classes = [torch.tensor(number) for number in range(max(self._labels or (-1,)) + 1)]
        self._raw = pile.opened()
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


def _numbers(pile: Pile, names: tuple[str, ...], view: View) -> list[int] | None:
    """Return the labels as the model knows them, one for each image. Raises UsageError naming one it does not know."""
    if pile.labels is None:
        return None
    classes = Classes(names, view)
    first = {label: index for index, label in reversed(list(enumerate(pile.labels)))}
    known = {n: classes.number(names[n] if names else n, pile.name(first[n])) for n in sorted(first)}
    return [known[label] for label in pile.labels]
