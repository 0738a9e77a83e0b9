"""Names the tensors of a user's batch.

A batch, with the items along dimension 0 of every tensor, is one of

    tensor, or tuple of tensors           the module's positional arguments
    dictionary of tensors                 its keyword arguments; labels and targets are for the loss
    (inputs, targets) with a loss         inputs as above; (a, b, targets) is the same as ((a, b), targets)
    an object with a method `to`          the module's one argument: a batch of graphs

In the place of a tensor there may be dictionaries, lists and tuples of them (structure.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch

from torchstone.core.errors import UsageError
from torchstone.plugins.models.py.returned import MODULE_NAMES, first_argument, kind_of
from torchstone.plugins.models.py.structure import constant, leaves, movable
from torchstone.plugins.models.py.trainers import forward_of

TARGETS = ("labels", "label", "targets", "target")
TARGET = "target"


class Naming(msgspec.Struct, frozen=True):
    """Names the parts of batches, or of items, that are built alike. `with_target`: the last part is the target."""

    where: str
    with_target: bool

    def __call__(self, batch: Any, *, tensors_only: bool = True) -> dict[str, Any]:
        """Return the tensors by name. Raises UsageError for what is none, unless items may be other than that."""
        parts = self.parts(batch, tensors_only=tensors_only)
        if all(isinstance(part, torch.Tensor) for part in parts.values()):
            return parts
        found = {name: leaf for top, part in parts.items() for name, leaf in leaves(part, top)}
        if not tensors_only:
            return found
        found = {name: leaf for name, leaf in found.items() if not constant(leaf)}
        for name, leaf in found.items():
            if not movable(leaf):
                raise UsageError(f"{self.where}: {_called(name)} of the example is {kind_of(leaf)}, not a tensor")
        if not found:
            raise UsageError(f"{self.where}: there is no tensor in the example, {kind_of(batch)}")
        return found

    def parts(self, batch: Any, *, tensors_only: bool = True) -> dict[str, Any]:
        """Return the parts of a batch as module and loss take them, by name."""
        inputs, target = self._split(batch) if self.with_target else (batch, None)
        parts = _named(self.where, inputs, tensors_only=tensors_only)
        if self.with_target:
            parts[TARGET] = target
        return parts

    def whole(self, batch: Any) -> Callable[[Mapping[str, Any]], Any]:
        """Return what makes a batch built like this one of its parts."""
        if isinstance(batch, Mapping):
            return lambda parts: parts
        if not isinstance(batch, tuple | list):
            (name,) = self.parts(batch)
            return lambda parts: parts[name]
        inputs = self._split(batch)[0] if self.with_target else batch
        names = list(_named(self.where, inputs, tensors_only=True))
        if not self.with_target:
            return lambda parts: tuple(parts[name] for name in names)
        if isinstance(inputs, Mapping):
            return lambda parts: ({name: parts[name] for name in names}, parts[TARGET])
        if isinstance(inputs, tuple | list) and len(batch) == 2:
            return lambda parts: (tuple(parts[name] for name in names), parts[TARGET])
        return lambda parts: (*(parts[name] for name in names), parts[TARGET])

    def positional(self, batch: Any) -> bool:
        """Say whether the inputs are positional arguments."""
        return not isinstance(self._split(batch)[0] if self.with_target else batch, Mapping)

    def _split(self, batch: Any) -> tuple[Any, Any]:
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            raise UsageError(f"{self.where}: {kind_of(batch)} where pairs (inputs, targets) came before")
        *inputs, target = batch
        return inputs[0] if len(inputs) == 1 else tuple(inputs), target


def naming_of(where: str, loss: Any, batch: Any, module: Any = None) -> Naming:
    """Return how batches like this one are named.

    `module` is given where the batch comes from data: without a loss, the last of more parts than the module has to be
    called with is the target, and left out.
    """
    if isinstance(batch, Mapping):
        return Naming(where, with_target=False)
    parts = len(batch) if isinstance(batch, tuple | list) else 1
    against = loss is not None and not on_module(loss) and not is_object(batch)
    if against and parts < 2:
        pair = "a pair (inputs, targets) or a dictionary of tensors"
        raise UsageError(f"{where}: with a loss, the example is {pair}, not {kind_of(batch)}")
    spare = module is not None and parts == _needed(module) + 1
    return Naming(where, with_target=against or spare)


def check_rows(where: str, tensors: Mapping[str, Any]) -> None:
    """Refuse an example whose tensors have different numbers of items: batches are made of its rows."""
    rows = {name: tensor.shape[0] if tensor.dim() else None for name, tensor in tensors.items()}
    if None in rows.values() or 0 in rows.values() or len(set(rows.values())) != 1:
        said = ", ".join(f"{name} {tuple(tensors[name].shape)}" for name in rows)
        raise UsageError(f"{where}: all tensors of the example need equally many items along dimension 0; got {said}")


def on_module(loss: Any) -> bool:
    """Say whether a loss takes (module, batch), by the name of its first argument."""
    return not isinstance(loss, torch.nn.Module) and first_argument(loss) in MODULE_NAMES


def is_object(batch: Any) -> bool:
    """Say whether a batch is one object that is moved as a whole."""
    return movable(batch) and not isinstance(batch, torch.Tensor | Mapping)


def _named(where: str, inputs: Any, *, tensors_only: bool) -> dict[str, Any]:
    if isinstance(inputs, torch.Tensor):
        return {"input": inputs}
    if is_object(inputs):
        return {"batch": inputs}
    if isinstance(inputs, tuple | list) and inputs:
        return {f"input{n}": part for n, part in enumerate(inputs)}
    if isinstance(inputs, Mapping) and inputs:
        return {str(name): part for name, part in inputs.items()}
    if not tensors_only:  # a number, an array: it becomes a tensor where items become a batch
        return {"input": inputs}
    right = "a tensor, a tuple of tensors or a dictionary of tensors"
    raise UsageError(f"{where}: the example is {kind_of(inputs)}; return {right}")


def _called(name: str) -> str:
    if name == TARGET:
        return "the targets"
    return f"'{name}'"


def _needed(module: Any) -> int:
    """Return how many positional arguments a module must be called with; one that takes any number needs them all."""
    parameters = by_place(module)
    return -1 if parameters is None else sum(p.default is p.empty for p in parameters)


def by_place(module: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of a module that are given by place; None where it takes any number."""
    parameters = inspect.signature(forward_of(module)).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in parameters if p.kind in by_place]
