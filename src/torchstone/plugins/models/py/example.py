"""Names the tensors of a user's batch, and makes the calls of module and loss that go with them.

A batch, with the items along dimension 0 of every tensor, is one of

    tensor, or tuple of tensors           the module's positional arguments
    dictionary of tensors                 its keyword arguments; labels and targets are for the loss
    (inputs, targets) with a loss         inputs as above; (a, b, targets) is the same as ((a, b), targets)

`loss` is called as `loss(output, targets)` where the batch has its targets beside the inputs, or the loss is torch's
own (nn.CrossEntropyLoss(), nn.functional.cross_entropy). Where the batch is a dictionary it is called as
`loss(module, batch)`, unless its first argument has the name of an output (output, outputs, logits, prediction, …).
Without a loss, a dictionary with labels trains on the `.loss` of what the module returns, and so does a pair whose
targets the module may be called with, too: `forward(x, y=None)`. A loss may be a dictionary with the entry `loss`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch

from torchstone.core.errors import UsageError
from torchstone.plugins.models.py.given import noted
from torchstone.plugins.models.py.returned import first_argument, kind_of

TARGETS = ("labels", "label", "targets", "target")
_TARGET = "target"
_OUTPUTS = ("output", "outputs", "logits", "prediction", "predictions", "pred", "preds", "y_pred", "y_hat", "input")

Work = Callable[[Any, Mapping[str, Any]], Any]


class Naming(msgspec.Struct, frozen=True):
    """Names the parts of batches, or of items, that are built alike. `with_target`: the last part is the target."""

    where: str
    with_target: bool

    def __call__(self, batch: Any, *, tensors_only: bool = True) -> dict[str, Any]:
        """Return the parts by name. Raises UsageError for what is no tensor, unless items may be other than that."""
        inputs, target = self._split(batch) if self.with_target else (batch, None)
        parts = _named(self.where, inputs, tensors_only=tensors_only)
        if self.with_target:
            parts[_TARGET] = target
        if tensors_only:
            for name, part in parts.items():
                if not isinstance(part, torch.Tensor):
                    raise UsageError(f"{self.where}: {_called(name)} of the example is {kind_of(part)}, not a tensor")
        return parts

    def positional(self, batch: Any) -> bool:
        """Say whether the inputs are positional arguments."""
        return not isinstance(self._split(batch)[0] if self.with_target else batch, Mapping)

    def _split(self, batch: Any) -> tuple[Any, Any]:
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            raise UsageError(f"{self.where}: {kind_of(batch)} where pairs (inputs, targets) came before")
        *inputs, target = batch
        return inputs[0] if len(inputs) == 1 else tuple(inputs), target


class Calls(msgspec.Struct, frozen=True):
    """How module and loss are called with named tensors."""

    forward: Work
    loss: Work | None


def naming_of(where: str, loss: Any, batch: Any, module: Any = None) -> Naming:
    """Return how batches like this one are named.

    `module` is given where the batch comes from data: without a loss, the last of more parts than the module has to be
    called with is the target, and left out.
    """
    if isinstance(batch, Mapping):
        return Naming(where, with_target=False)
    parts = len(batch) if isinstance(batch, tuple | list) else 1
    if loss is not None and parts < 2:
        pair = "a pair (inputs, targets) or a dictionary of tensors"
        raise UsageError(f"{where}: with a loss, the example is {pair}, not {kind_of(batch)}")
    spare = module is not None and parts == _needed(module) + 1
    return Naming(where, with_target=loss is not None or spare)


def check_rows(where: str, tensors: Mapping[str, Any]) -> None:
    """Refuse an example whose tensors have different numbers of items: batches are made of its rows."""
    rows = {name: tensor.shape[0] if tensor.dim() else None for name, tensor in tensors.items()}
    if None in rows.values() or 0 in rows.values() or len(set(rows.values())) != 1:
        said = ", ".join(f"{name} {tuple(tensors[name].shape)}" for name in rows)
        raise UsageError(f"{where}: all tensors of the example need equally many items along dimension 0; got {said}")


def calls_of(where: str, module: Any, loss: Any, tensors: Mapping[str, Any], naming: Naming, batch: Any) -> Calls:
    """Return the calls for batches like this one, of which `tensors` are the names."""
    names = tuple(name for name in tensors if not (naming.with_target and name == _TARGET))
    forward = _forward(module, names if naming.positional(batch) else None)
    labels = _TARGET if naming.with_target else next((name for name in TARGETS if name in tensors), None)
    if loss is None:
        if naming.with_target:
            takes = naming.positional(batch) and _takes_targets(module, len(names))
            return Calls(forward, scalar(where, _own_loss_of((*names, _TARGET))) if takes else None)
        return Calls(forward, scalar(where, _own_loss) if labels is not None else None)
    if not naming.with_target and not on_output(loss):
        return Calls(forward, scalar(where, loss))
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
    """Return the logits of an output that has more beside them; a tensor as it is."""
    if isinstance(output, torch.Tensor):
        return output
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


def _named(where: str, inputs: Any, *, tensors_only: bool) -> dict[str, Any]:
    if isinstance(inputs, torch.Tensor):
        return {"input": inputs}
    if isinstance(inputs, tuple | list) and inputs:
        return {f"input{n}": part for n, part in enumerate(inputs)}
    if isinstance(inputs, Mapping) and inputs:
        return {str(name): part for name, part in inputs.items()}
    if not tensors_only:  # a number, an array: it becomes a tensor where items become a batch
        return {"input": inputs}
    right = "a tensor, a tuple of tensors or a dictionary of tensors"
    raise UsageError(f"{where}: the example is {kind_of(inputs)}; return {right}")


def _called(name: str) -> str:
    if name == _TARGET:
        return "the targets"
    return f"'{name}'"


def _forward(module: Any, positional: tuple[str, ...] | None) -> Work:
    if positional is not None:

        def by_place(network: Any, tensors: Mapping[str, Any]) -> Any:
            try:
                return network(*[tensors[name] for name in positional])
            except Exception as error:
                noted(error, "the model", {name: tensors[name] for name in positional})
                raise

        return by_place
    parameters = inspect.signature(module.forward).parameters
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


def _needed(module: Any) -> int:
    """Return how many positional arguments a module must be called with; one that takes any number needs them all."""
    parameters = _by_place(module)
    return -1 if parameters is None else sum(p.default is p.empty for p in parameters)


def _takes_targets(module: Any, place: int) -> bool:
    """Say whether the argument at this place is called as targets are."""
    parameters = _by_place(module) or []
    return len(parameters) > place and parameters[place].name in (*TARGETS, "y")


def _by_place(module: Any) -> list[inspect.Parameter] | None:
    parameters = inspect.signature(module.forward).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in parameters if p.kind in by_place]


def _own_loss_of(positional: tuple[str, ...]) -> Work:
    return lambda network, tensors: _loss_in(network(*[tensors[name] for name in positional]))


def _own_loss(network: Any, tensors: Mapping[str, Any]) -> Any:
    return _loss_in(network(**tensors))


def _loss_in(output: Any) -> Any:
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None:
        raise UsageError("the model returns no `.loss` for its labels; return (module, example, loss)")
    return loss
