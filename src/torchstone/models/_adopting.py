"""Makes a LoadedModel of what a user's function returned."""

from __future__ import annotations

from typing import Any

from torchstone.models import _example, _own_data, _own_text
from torchstone.models._returned import Kind, Returned, taken_apart
from torchstone.terms.axis import Scalar
from torchstone.terms.model import InputSpec, LoadedModel


def adopted(where: str, returned: Any) -> LoadedModel:
    """Return the model. Raises UsageError saying what to return instead."""
    parts = taken_apart(where, returned)
    facts: dict[str, Scalar] = {"parameters": sum(p.numel() for p in parts.module.parameters()), "weights": "own"}
    if parts.kind is Kind.TOKENIZER:
        return _with_tokenizer(where, parts, facts)
    if parts.kind is Kind.DATA:
        return _with_data(where, parts, facts)
    naming = _example.naming_of(where, parts.loss, parts.given)
    tensors = naming(parts.given)
    _example.check_rows(where, tensors)
    calls = _example.calls_of(where, parts.module, parts.loss, tensors, naming, parts.given)
    return LoadedModel(
        parts.module, calls.forward, calls.loss, InputSpec("own"), tensors, parts.optimizer, facts=facts
    )  # fmt: skip


def _with_data(where: str, parts: Returned, facts: dict[str, Scalar]) -> LoadedModel:
    data = _own_data.opened(where, parts.module, parts.loss, parts.given)
    tensors = data.naming(data.batch)
    calls = _example.calls_of(where, parts.module, parts.loss, tensors, data.naming, data.batch)
    facts = {**facts, "own_data": f"the model's own {type(parts.given).__name__}", **data.facts}
    return LoadedModel(
        parts.module, calls.forward, calls.loss, InputSpec("own"), None, parts.optimizer, samples=data.samples,
        facts=facts,
    )  # fmt: skip


def _with_tokenizer(where: str, parts: Returned, facts: dict[str, Scalar]) -> LoadedModel:
    spec = _own_text.spec_of(parts.module, parts.given)
    calls = _own_text.calls_of(where, parts.module, parts.loss, causal=spec.causal)
    return LoadedModel(
        parts.module, calls.forward, calls.loss, spec, None, parts.optimizer, parts.given, facts=facts
    )  # fmt: skip
