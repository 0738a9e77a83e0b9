"""Makes the calls of a user's module and loss that go with the named tensors of a batch (naming.py).

How the loss is called is written in docs/guide.md, "What load() may return".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch

from torchstone.core.errors import UsageError
from torchstone.plugins.models.py.given import noted
from torchstone.plugins.models.py.naming import TARGET, TARGETS, Naming, by_place, is_object, on_module
from torchstone.plugins.models.py.returned import first_argument, kind_of
from torchstone.plugins.models.py.structure import restored
from torchstone.plugins.models.py.trainers import forward_of

_OUTPUTS = ("output", "outputs", "logits", "prediction", "predictions", "pred", "preds", "y_pred", "y_hat", "input")

Work = Callable[[Any, Mapping[str, Any]], Any]


class Calls(msgspec.Struct, frozen=True):
    """How module and loss are called with named tensors."""

    forward: Work
    loss: Work | None


def calls_of(where: str, module: Any, loss: Any, naming: Naming, batch: Any) -> Calls:
    """Return the calls for batches like this one, which `naming` names."""
    parts = naming.parts(batch)
    calls, restore = _calls(where, module, loss, parts, naming, batch), restored(parts)
    if restore is None:
        return calls
    return Calls(_after(restore, calls.forward), _after(restore, calls.loss) if calls.loss is not None else None)


def _after(restore: Callable[[Mapping[str, Any]], Any], work: Work) -> Work:
    return lambda network, tensors: work(network, restore(tensors))


def _calls(where: str, module: Any, loss: Any, tensors: Mapping[str, Any], naming: Naming, batch: Any) -> Calls:
    names = tuple(name for name in tensors if not (naming.with_target and name == TARGET))
    forward = _forward(module, names if naming.positional(batch) else None)
    labels = TARGET if naming.with_target else next((name for name in TARGETS if name in tensors), None)
    if loss is None:
        given = (*names, TARGET) if naming.with_target else names
        if naming.positional(batch):
            takes = len(given) > 1 and _takes_targets(module, len(given) - 1)
            return Calls(forward, scalar(where, _own_loss_of(given)) if takes else None)
        return Calls(forward, scalar(where, _own_loss) if labels is not None and not naming.with_target else None)
    if on_module(loss) or not (naming.with_target or on_output(loss)):
        whole = naming.whole(batch)
        return Calls(forward, scalar(where, lambda network, parts: loss(network, whole(parts))))
    if is_object(batch):
        raise UsageError(f"{where}: the targets are in {kind_of(batch)}: write the loss as def loss(model, batch): …")
    if labels is None:
        raise UsageError(f"{where}: the loss needs targets; give the example an entry 'labels'")
    return Calls(forward, scalar(where, _against(labels, loss, forward)))


def _against(labels: str, loss: Any, forward: Work) -> Work:
    plain = torchs_own(loss)

    def against(network: Any, tensors: Mapping[str, Any]) -> Any:
        output = forward(network, tensors)
        output = logits_of(output) if plain else output
        try:
            return loss(output, tensors[labels])
        except Exception as error:
            noted(error, "the loss", {"output": output, labels: tensors[labels]})
            raise

    return against


def on_output(loss: Any) -> bool:
    """Say whether a loss takes (output, targets), and not (module, batch), where it might be either."""
    return torchs_own(loss) or first_argument(loss) in _OUTPUTS


def torchs_own(loss: Any) -> bool:
    """Say whether a loss works on tensors alone: a module, or a function of torch."""
    return isinstance(loss, torch.nn.Module) or str(getattr(loss, "__module__", "")).startswith("torch.")


def logits_of(output: Any) -> Any:
    """Return the logits of an output that has more beside them, of a tuple the first; a tensor as it is."""
    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, tuple | list) and output and not hasattr(output, "logits"):
        return output[0]
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    return output if found is None else found


def scalar(where: str, work: Work) -> Work:
    """Return the loss `work`, which is refused where it is no scalar tensor."""

    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        value = work(network, tensors)
        if isinstance(value, Mapping) and "loss" in value:
            value = value["loss"]
        if not isinstance(value, torch.Tensor) or value.dim() != 0:
            shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else kind_of(value)
            raise UsageError(f"{where}: the loss is {shape}, not a scalar tensor")
        return value

    return loss


def _forward(module: Any, positional: tuple[str, ...] | None) -> Work:
    if positional is not None:

        def by_place(network: Any, tensors: Mapping[str, Any]) -> Any:
            try:
                return network(*[tensors[name] for name in positional])
            except Exception as error:
                noted(error, "the model", {name: tensors[name] for name in positional})
                raise

        return by_place
    parameters = inspect.signature(forward_of(module)).parameters
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {n for n, p in parameters.items() if p.default is p.empty and p.kind not in starred}
    dropped = {name for name in TARGETS if name not in needed}

    def by_name(network: Any, tensors: Mapping[str, Any]) -> Any:
        given = {name: tensor for name, tensor in tensors.items() if name not in dropped}
        try:
            return network(**given)
        except Exception as error:
            noted(error, "the model", given)
            raise

    return by_name


def _takes_targets(module: Any, place: int) -> bool:
    """Say whether the argument at this place is called as targets are."""
    parameters = by_place(module) or []
    return len(parameters) > place and parameters[place].name in (*TARGETS, "y")


def _own_loss_of(positional: tuple[str, ...]) -> Work:
    return lambda network, tensors: _loss_in(network(*[tensors[name] for name in positional]))


def _own_loss(network: Any, tensors: Mapping[str, Any]) -> Any:
    return _loss_in(network(**tensors))


def _loss_in(output: Any) -> Any:
    """Return the loss of what a module returned: its entry or attribute `loss`, or the scalar of a tuple."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None and isinstance(output, tuple | list):  # (logits, loss), (loss, logits)
        scalars = [part for part in output if isinstance(part, torch.Tensor) and part.dim() == 0]
        loss = scalars[0] if len(scalars) == 1 else None
    if loss is None:
        raise UsageError("the model returns no `.loss` for its labels; return (module, example, loss)")
    return loss
