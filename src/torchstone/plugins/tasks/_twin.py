"""A copy of a module whose parameters and buffers are others of the same shape: on meta, or without data at all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch


def twin(module: torch.nn.Module, place: Callable[[Any], Any]) -> torch.nn.Module:
    """Return a copy with `place(tensor)` for every parameter and buffer; the memo keeps deepcopy from their data.

    Tensors that several modules share stay shared.
    """
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = torch.nn.Parameter(place(parameter.detach()), requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = place(buffer.detach())
    return copy.deepcopy(module, memo)
