"""Batches within batches: the tensors of dictionaries, lists and tuples by one flat name each, and the way back.

A name is the way to it: `vision.pixels`, `input0.1`. What is no tensor but can be moved by a method `to` (a batch of
graphs) is one part. None, a truth value and texts are taken from the first batch: they are no part of any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import torch

Flat = Mapping[str, Any]
_WORDS = (str, bytes)


def movable(value: Any) -> bool:
    """Say whether a value is a tensor, or what is moved to a device like one."""
    if isinstance(value, torch.Tensor):
        return True
    return callable(getattr(value, "to", None)) and not isinstance(value, Mapping | type)


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield what lies in a part of a batch by its name; a part of another kind is itself one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}")
    elif isinstance(value, tuple | list) and value and not (movable(value) or _words(value)):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{name}.{number}")
    else:
        yield name, value


def constant(value: Any) -> bool:
    """Say whether a part is taken from the first batch."""
    return value is None or isinstance(value, bool | str | bytes) or _words(value)


def restored(parts: Mapping[str, Any]) -> Callable[[Flat], Mapping[str, Any]] | None:
    """Return what makes parts built like these of their flat tensors; None where they are flat themselves."""
    if all(movable(part) for part in parts.values()):
        return None
    made = {name: _made(part, name) for name, part in parts.items()}
    return lambda flat: {name: make(flat) for name, make in made.items()}


def _made(part: Any, name: str) -> Callable[[Flat], Any]:
    if movable(part):
        return itemgetter(name)
    if constant(part):
        return lambda _: part
    if isinstance(part, Mapping):
        named = {key: _made(inner, f"{name}.{key}") for key, inner in part.items()}
        return lambda flat: {key: make(flat) for key, make in named.items()}
    each = [_made(inner, f"{name}.{number}") for number, inner in enumerate(part)]
    kind: Any = type(part)
    if hasattr(part, "_fields"):  # a named tuple
        return lambda flat: kind(*[make(flat) for make in each])
    return lambda flat: kind([make(flat) for make in each])


def _words(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(word, _WORDS) for word in value)
