"""A module that comes with a tokenizer: it is called like a transformers model, on text of --data.

The module gets `input_ids` and `attention_mask`, as far as its `forward` takes them, and answers with logits or with an
object that has `.logits`. The loss is called as in example.py, on logits and labels, or as `loss(module, batch)`;
without one the module is called with `labels` and answers with a `.loss`. Of a model that generates text the labels
are its tokens, with padding left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torchstone.core.errors import UsageError
from torchstone.core.schema.model import InputSpec
from torchstone.plugins.models.py.example import Calls, Work, logits_of, on_output, scalar, torchs_own

_IGNORED = -100  # the label that torch's cross-entropy leaves out


def spec_of(module: Any, tokenizer: Any) -> InputSpec:
    """Return the inputs of a module with that tokenizer, as far as the two specify them."""
    config = getattr(module, "config", None)
    sizes = [getattr(config, "vocab_size", None), _words(tokenizer)]
    known = [size for size in sizes if isinstance(size, int)]
    causal = generates(module)
    classes = None if causal else getattr(config, "num_labels", None)
    return InputSpec(
        "text", classes if isinstance(classes, int) else None, min(known, default=None), causal=causal
    )  # fmt: skip


def generates(module: Any) -> bool:
    """Say whether a module is a language model by transformers' own word for it."""
    says = getattr(module, "can_generate", None)
    return bool(says()) if callable(says) else False


def calls_of(where: str, module: Any, loss: Any, *, causal: bool) -> Calls:
    """Return the calls of a module and its loss with tokens."""
    accepted = _accepted(module)

    def forward(network: Any, tensors: Mapping[str, Any]) -> Any:
        return logits_of(network(**_inputs(tensors, accepted)))

    if loss is None:
        return Calls(forward, scalar(where, _own_loss(where, accepted, causal=causal)))
    if on_output(loss):
        return Calls(forward, scalar(where, _against(where, loss, accepted, causal=causal)))
    return Calls(
        forward, scalar(where, lambda network, tensors: loss(network, _with_labels(where, tensors, causal=causal)))
    )


def _own_loss(where: str, accepted: frozenset[str] | None, *, causal: bool) -> Work:
    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        labels = _with_labels(where, tensors, causal=causal)["labels"]
        output = network(**_inputs(tensors, accepted), labels=labels)
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if found is None:
            raise UsageError(f"{where}: the model returns no `.loss` for its labels; return a loss_fn beside it")
        return found

    return loss


def _against(where: str, loss: Any, accepted: frozenset[str] | None, *, causal: bool) -> Work:
    def against(network: Any, tensors: Mapping[str, Any]) -> Any:
        labels = _with_labels(where, tensors, causal=causal)["labels"]
        output = network(**_inputs(tensors, accepted))
        if not torchs_own(loss):
            return loss(output, labels)
        logits = logits_of(output)
        if causal:  # each token is judged by the one that follows it
            return loss(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return loss(logits, labels)

    return against


def _with_labels(where: str, tensors: Mapping[str, Any], *, causal: bool) -> Mapping[str, Any]:
    if "labels" in tensors:
        return tensors
    if not causal:
        raise UsageError(f"{where}: the data has no labels to train on")
    labels = tensors["input_ids"]
    if "attention_mask" in tensors:
        labels = labels.masked_fill(tensors["attention_mask"] == 0, _IGNORED)
    return {**tensors, "labels": labels}


def _inputs(tensors: Mapping[str, Any], accepted: frozenset[str] | None) -> dict[str, Any]:
    return {n: t for n, t in tensors.items() if n != "labels" and (accepted is None or n in accepted)}


def _accepted(module: Any) -> frozenset[str] | None:
    """Return the names that a module's forward takes; None: any."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def _words(tokenizer: Any) -> int | None:
    if hasattr(tokenizer, "get_vocab_size"):
        return int(tokenizer.get_vocab_size())
    return len(tokenizer) if hasattr(tokenizer, "__len__") else None
