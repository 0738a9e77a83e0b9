"""What the items of a Dataset must be so that torch can stack them into a batch, told of the user's own items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from torchstone.core.errors import UsageError
from torchstone.plugins.models.py.returned import kind_of

_STACKED = (torch.Tensor, int, float)
COLLATE = "return a DataLoader with a collate_fn"
COLLATE_OF_YOURS = "give your DataLoader a collate_fn"


def check_items(where: str, dataset: Any, items: Sequence[Any], advice: str = COLLATE) -> None:
    """Refuse items that `default_collate` cannot stack. Raises UsageError naming the item, its part and the way out."""
    name = type(dataset).__name__
    parts = [dict(_parts(item, "")) for item in items]
    for number, of_item in enumerate(parts):
        for part, value in of_item.items():
            what = f"{where}: {name}[{number}]{part} is {_said(value)}"
            if value is None:
                raise UsageError(f"{what}: its __getitem__ returns nothing there")
            if isinstance(value, str | bytes):
                raise UsageError(f"{what}, not a tensor: return its tokens as one, or {advice} that makes them")
            if not isinstance(value, _STACKED) and type(value).__module__ != "numpy":
                raise UsageError(f"{what}, not a tensor or an array: make it one in __getitem__, or {advice}")
    _check_alike(where, name, parts, advice)


def _check_alike(where: str, name: str, parts: Sequence[Mapping[str, Any]], advice: str) -> None:
    for number, of_item in enumerate(parts):
        if of_item.keys() != parts[0].keys():
            raise UsageError(f"{where}: {name}[{number}] has other parts than {name}[0]: {advice}")
        for part, value in of_item.items():
            first, own = _shape(parts[0][part]), _shape(value)
            if first != own:
                sizes = f"{name}[0]{part} has the shape {first}, {name}[{number}]{part} {own}"
                raise UsageError(f"{where}: {sizes}: bring all to one size (resize, crop, pad), or {advice} that pads")


def _parts(item: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield each part of an item with how one gets there: `[0]`, `['label']`."""
    if isinstance(item, Mapping):
        for key, value in item.items():
            yield from _parts(value, f"{place}[{key!r}]")
    elif isinstance(item, tuple | list):
        for number, value in enumerate(item):
            yield from _parts(value, f"{place}[{number}]")
    else:
        yield place, item


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _said(value: Any) -> str:
    return "None" if value is None else kind_of(value)
