"""Reads what a user's function returns: a module, an example batch, its loss, its optimizer.

    module                                        with an attribute `example_inputs`
    (module, example[, loss[, optimizer]])        or a dictionary with the keys model, example, loss, optimizer

`example` is one of, with the items along dimension 0 of every tensor:

    tensor, or tuple of tensors                   the module's positional arguments
    dictionary of tensors                         its keyword arguments; labels and targets are for the loss
    (inputs, targets) when there is a loss        inputs as above

`loss` is called as `loss(output, targets)` where the example is a pair or `loss` is a module (nn.CrossEntropyLoss()),
as `loss(module, batch)` where the example is a dictionary. Without one, a dictionary with labels trains on the `.loss`
of what the module returns. `optimizer` is called with the parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch

from torchstone.errors import UsageError

_TARGETS = ("labels", "label", "targets", "target")
_TARGET = "target"
_KEYS = ("model", "example", "loss", "optimizer")

Work = Callable[[Any, Mapping[str, Any]], Any]


class Parts(msgspec.Struct):
    """What a trial needs of it. `example`: tensors by name."""

    module: Any
    example: dict[str, Any]
    forward: Work
    loss: Work | None
    optimizer: Callable[[Any], Any] | None


def parts_of(where: str, returned: Any) -> Parts:
    """Take apart what the function `where` returned. Raises UsageError saying what to return instead."""
    module, example, loss, optimizer = _four(where, returned)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"{where} returned {_kind(module)}, not a torch.nn.Module; return (module, example)")
    if example is None:
        example = getattr(module, "example_inputs", None)
    if example is None:
        raise UsageError(f"{where} returned a module without an example batch; return (module, example)")
    for what, given in (("loss", loss), ("optimizer", optimizer)):
        if given is not None and not callable(given):
            raise UsageError(f"{where}: the {what} is {_kind(given)}, not a function")
    inputs, target = _split(where, example, loss)
    tensors, positional = _named(where, inputs)
    if target is not None:
        tensors[_TARGET] = _tensor(where, "the targets", target)
    _check_rows(where, tensors)
    forward = _forward(module, tuple(n for n in tensors if n != _TARGET) if positional else None)
    return Parts(module, tensors, forward, _loss(where, forward, loss, tensors, pair=target is not None), optimizer)


def _four(where: str, returned: Any) -> tuple[Any, Any, Any, Any]:
    if isinstance(returned, Mapping):
        wrong = [str(key) for key in returned if key not in _KEYS]
        if wrong or "model" not in returned:
            found = ", ".join(wrong) or "no model"
            raise UsageError(f"{where} returned a dictionary with {found}; its keys are {', '.join(_KEYS)}")
        return returned["model"], returned.get("example"), returned.get("loss"), returned.get("optimizer")
    if isinstance(returned, tuple | list):
        if not 1 <= len(returned) <= 4:
            raise UsageError(f"{where} returned {len(returned)} things; return (module, example, loss, optimizer)")
        module, example, loss, optimizer = [*returned, None, None, None][:4]
        return module, example, loss, optimizer
    return returned, None, None, None


def _split(where: str, example: Any, loss: Any) -> tuple[Any, Any]:
    """Return (inputs, targets); targets are None unless the example is a pair for the loss."""
    if loss is None:
        return example, None
    if isinstance(example, tuple | list) and len(example) == 2:
        return example[0], example[1]
    if isinstance(example, Mapping):
        return example, None
    pair = "a pair (inputs, targets) or a dictionary of tensors"
    raise UsageError(f"{where}: with a loss, the example is {pair}, not {_kind(example)}")


def _named(where: str, inputs: Any) -> tuple[dict[str, Any], bool]:
    """Return the inputs by name, and whether they are positional arguments."""
    if isinstance(inputs, torch.Tensor):
        return {"input": inputs}, True
    if isinstance(inputs, tuple | list) and inputs:
        return {f"input{n}": _tensor(where, f"input {n}", tensor) for n, tensor in enumerate(inputs)}, True
    if isinstance(inputs, Mapping) and inputs:
        return {str(name): _tensor(where, f"'{name}'", tensor) for name, tensor in inputs.items()}, False
    right = "a tensor, a tuple of tensors or a dictionary of tensors"
    raise UsageError(f"{where}: the example is {_kind(inputs)}; return {right}")


def _tensor(where: str, what: str, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        raise UsageError(f"{where}: {what} of the example is {_kind(value)}, not a tensor")
    return value


def _check_rows(where: str, tensors: Mapping[str, Any]) -> None:
    rows = {name: tensor.shape[0] if tensor.dim() else None for name, tensor in tensors.items()}
    if None in rows.values() or 0 in rows.values() or len(set(rows.values())) != 1:
        said = ", ".join(f"{name} {tuple(tensors[name].shape)}" for name in rows)
        raise UsageError(f"{where}: all tensors of the example need equally many items along dimension 0; got {said}")


def _forward(module: Any, positional: tuple[str, ...] | None) -> Work:
    if positional is not None:
        return lambda network, tensors: network(*[tensors[name] for name in positional])
    parameters = inspect.signature(module.forward).parameters
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {n for n, p in parameters.items() if p.default is p.empty and p.kind not in starred}
    dropped = {name for name in _TARGETS if name not in needed}
    return lambda network, tensors: network(**{name: t for name, t in tensors.items() if name not in dropped})


def _loss(where: str, forward: Work, loss: Any, tensors: Mapping[str, Any], *, pair: bool) -> Work | None:
    labels = next((name for name in _TARGETS if name in tensors), None)
    if loss is None:
        return _scalar(where, _own_loss) if labels is not None else None
    if not pair and not isinstance(loss, torch.nn.Module):
        return _scalar(where, loss)
    if labels is None:
        raise UsageError(f"{where}: the loss needs targets; give the example an entry 'labels'")
    return _scalar(where, lambda network, batch: loss(forward(network, batch), batch[labels]))


def _own_loss(network: Any, tensors: Mapping[str, Any]) -> Any:
    output = network(**tensors)
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None:
        raise UsageError("the model returns no `.loss` for its labels; return (module, example, loss)")
    return loss


def _scalar(where: str, work: Work) -> Work:
    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        value = work(network, tensors)
        if not isinstance(value, torch.Tensor) or value.dim() != 0:
            shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else _kind(value)
            raise UsageError(f"{where}: the loss is {shape}, not a scalar tensor")
        return value

    return loss


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
