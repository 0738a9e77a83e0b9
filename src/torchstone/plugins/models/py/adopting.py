"""Makes a LoadedModel of what a user's function returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchstone.core.errors import UsageError
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.plugins.models.py import example, naming, own_data, own_text
from torchstone.plugins.models.py.example import Work
from torchstone.plugins.models.py.returned import Kind, Returned, taken_apart


def adopted(where: str, returned: Any) -> LoadedModel:
    """Return the model. Raises UsageError saying what to return instead."""
    parts = taken_apart(where, returned)
    if parts.kind is Kind.TOKENIZER:
        return _with_tokenizer(where, parts)
    if parts.kind is Kind.DATA:
        return _with_data(where, parts)
    names = naming.naming_of(where, parts.loss, parts.given)
    tensors = names(parts.given)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise UsageError(
            f"{where}: an example is made of tensors, to repeat its rows; return a DataLoader of such batches"
        )
    naming.check_rows(where, tensors)
    calls = example.calls_of(where, parts.module, parts.loss, names, parts.given)
    _initialise(parts.module, calls.forward, tensors)
    return LoadedModel(
        parts.module, calls.forward, calls.loss, InputSpec("own"), tensors, parts.optimizer, facts=_facts(parts.module)
    )  # fmt: skip


def _with_data(where: str, parts: Returned) -> LoadedModel:
    data = own_data.opened(where, parts.module, parts.loss, parts.given)
    tensors = data.naming(data.batch)
    calls = example.calls_of(where, parts.module, parts.loss, data.naming, data.batch)
    _initialise(parts.module, calls.forward, tensors)
    facts = merged(_facts(parts.module), Facts(own_data=type(parts.given).__name__), data.facts)
    return LoadedModel(
        parts.module, calls.forward, calls.loss, InputSpec("own"), None, parts.optimizer, samples=data.samples,
        facts=facts,
    )  # fmt: skip


def _with_tokenizer(where: str, parts: Returned) -> LoadedModel:
    spec = own_text.spec_of(parts.module, parts.given)
    calls = own_text.calls_of(where, parts.module, parts.loss, causal=spec.causal)
    return LoadedModel(
        parts.module, calls.forward, calls.loss, spec, None, parts.optimizer, parts.given, facts=_facts(parts.module)
    )  # fmt: skip


def _facts(module: Any) -> Facts:
    return Facts(parameters=sum(parameter.numel() for parameter in module.parameters()), weights="own")


def _initialise(module: Any, forward: Work, tensors: Mapping[str, Any]) -> None:
    """Call a module once whose lazy parameters have no shape yet: an optimizer needs them, and so does counting."""
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        device = next(module.parameters()).device
        with torch.no_grad():
            forward(module, {name: tensor.to(device) for name, tensor in tensors.items()})
