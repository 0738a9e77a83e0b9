"""Adds to an error from a user's model or loss what it was given: torch's own lines do not tell that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def noted(error: Exception, what: str, given: Mapping[str, Any]) -> None:
    """Add a note (PEP 678) of the shapes that the model or the loss was called with, once: the type stays as it is."""
    if getattr(error, "__notes__", None):
        return
    error.add_note(f"{what} was given {', '.join(f'{name} {_said(value)}' for name, value in given.items())}")


def _said(value: Any) -> str:
    """Return "int64 (8,), 0 to 11"; the values of whole numbers alone, which are labels, and where reading is free."""
    if not isinstance(value, torch.Tensor):
        return "None" if value is None else type(value).__name__
    text = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    whole = not value.is_floating_point() and not value.is_complex() and value.dtype != torch.bool
    if type(value) is torch.Tensor and value.device.type == "cpu" and whole and value.numel():
        text += f" from {value.min()} to {value.max()}"
    return text
