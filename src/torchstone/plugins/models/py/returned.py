"""Parses what a user's function returns: a module, its data, its loss, its optimizer.

    module                               with an attribute `example_inputs`
    (module, X[, loss[, optimizer]])     or a dictionary with the keys model, loss, optimizer, and one of example,
                                         data and tokenizer
    a Trainer of transformers            its model, loader, loss and optimizer
    a LightningModule                    or (LightningModule, data), where data may be a LightningDataModule

What X is, its type tells:

    a tokenizer                          text of --data, the module called like a transformers model
    Dataset, DataLoader, batches         data of its own; a list of batches, or what gives them anew
                                         each time it is iterated
    tensors                              an example batch

Loss and optimizer may change places: a loss takes two arguments, an optimizer one. Where that does not tell them
apart, (loss, optimizer) follow an example, (optimizer, loss) data or a tokenizer. An optimizer is called with the
parameters; with the module, if its argument is called model, module, net or network; or it is there already.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from operator import itemgetter
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader, Dataset

from torchstone.core.errors import UsageError

# What a Trainer of transformers and a LightningModule bring with them: module, data, step and optimizer.
#
# Neither library is imported here: what a user's function returns is looked at.

_LIGHTNING = ("lightning", "pytorch_lightning")


def unfolded(where: str, returned: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return (module, data, loss, optimizer) of a Trainer, or of a LightningModule alone or with data; None of others.

    A LightningModule that comes with a loss of its own is a module like others. Raises UsageError for what only a
    library's own loop can do.
    """
    if _is(returned, "Trainer", ("transformers",)):
        return _of_trainer(returned)
    if _is(returned, "Trainer", _LIGHTNING):
        raise UsageError(f"{where} returned a Trainer of Lightning: return (LightningModule, LightningDataModule)")
    parts = list(returned) if isinstance(returned, tuple | list) else [returned]
    if parts and _is(parts[0], "LightningModule", _LIGHTNING) and len(parts) <= 2:
        return _of_lightning(where, *parts)
    return None


def _is(value: Any, name: str, packages: tuple[str, ...]) -> bool:
    return any(c.__name__ == name and c.__module__.partition(".")[0] in packages for c in type(value).__mro__)


def _of_trainer(trainer: Any) -> tuple[Any, Any, Any, Any]:
    def loss(model: Any, batch: Any) -> Any:
        return trainer.compute_loss(model, batch)

    def optimizer(model: Any) -> Any:  # noqa: ARG001  as above
        trainer.optimizer = None
        return trainer.create_optimizer()

    return trainer.model, trainer.get_train_dataloader(), loss, trainer.optimizer or optimizer


class TrainingStep(torch.nn.Module):
    """A LightningModule whose call in training is its training step, so that compiling and spreading it take it in."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self._numbered = len(inspect.signature(inner.training_step).parameters) > 1

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Return the loss of a batch in training, else what the module itself returns."""
        if not self.training:
            return self.inner(*inputs, **named)
        return self.inner.training_step(*inputs, 0) if self._numbered else self.inner.training_step(*inputs)


def forward_of(module: Any) -> Any:
    """Return the forward of a module as its user wrote it."""
    return (module.inner if isinstance(module, TrainingStep) else module).forward


def _of_lightning(where: str, module: Any, data: Any = None) -> tuple[Any, Any, Any, Any]:
    if not getattr(module, "automatic_optimization", True):
        raise UsageError(
            f"{where}: {type(module).__name__} optimizes by hand: measure its fit() with torchstone.window"
        )
    if _is(data, "LightningDataModule", _LIGHTNING):
        data.prepare_data()
        data.setup("fit")
    if data is None or _is(data, "LightningDataModule", _LIGHTNING):
        data = (module if data is None else data).train_dataloader()

    def loss(model: Any, batch: Any) -> Any:
        return model(batch)

    def optimizer(model: Any) -> Any:  # noqa: ARG001  as above
        return _one_optimizer(where, module.configure_optimizers())

    return TrainingStep(module), data, loss, optimizer


def _one_optimizer(where: str, configured: Any) -> Any:
    """Return the optimizer of what `configure_optimizers` may return; its schedule is left out."""
    if isinstance(configured, tuple) and configured and isinstance(configured[0], list):
        configured = configured[0]  # ([optimizers], [schedules])
    found = list(configured) if isinstance(configured, tuple | list) else [configured]
    found = [one["optimizer"] if isinstance(one, dict) else one for one in found]
    if len(found) != 1 or not isinstance(found[0], torch.optim.Optimizer):
        raise UsageError(f"{where}: configure_optimizers() returns {len(found)} optimizers or none: one is measured")
    return found[0]


# Batches within batches: the tensors of dictionaries, lists and tuples by one flat name each, and the way back.
#
# A name is the way to it: `vision.pixels`, `input0.1`. What is no tensor but can be moved by a method `to` (a batch of
# graphs) is one part. None, a truth value and texts are taken from the first batch: they are no part of any other.

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
    made = {name: _built_example(part, name) for name, part in parts.items()}
    return lambda flat: {name: make(flat) for name, make in made.items()}


def _built_example(part: Any, name: str) -> Callable[[Flat], Any]:
    if movable(part):
        return itemgetter(name)
    if constant(part):
        return lambda _: part
    if isinstance(part, Mapping):
        named = {key: _built_example(inner, f"{name}.{key}") for key, inner in part.items()}
        return lambda flat: {key: make(flat) for key, make in named.items()}
    each = [_built_example(inner, f"{name}.{number}") for number, inner in enumerate(part)]
    kind: Any = type(part)
    if hasattr(part, "_fields"):  # a named tuple
        return lambda flat: kind(*[make(flat) for make in each])
    return lambda flat: kind([make(flat) for make in each])


def _words(value: Any) -> bool:
    return isinstance(value, tuple | list) and bool(value) and all(isinstance(word, _WORDS) for word in value)


# Names the tensors of a user's batch.
#
# A batch, with the items along dimension 0 of every tensor, is one of
#
#     tensor, or tuple of tensors           the module's positional arguments
#     dictionary of tensors                 its keyword arguments; labels and targets are for the loss
#     (inputs, targets) with a loss         inputs as above; (a, b, targets) is the same as ((a, b), targets)
#     an object with a method `to`          the module's one argument: a batch of graphs
#
# In the place of a tensor there may be dictionaries, lists and tuples of them.

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
    parameters = positional_parameters(module)
    return -1 if parameters is None else sum(p.default is p.empty for p in parameters)


def positional_parameters(module: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of a module that are given by place; None where it takes any number."""
    parameters = inspect.signature(forward_of(module)).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in parameters if p.kind in by_place]


def with_shapes(error: Exception, what: str, given: Mapping[str, Any]) -> None:
    """Add a note (PEP 678) of the shapes that the model or the loss was called with, once: the type stays as it is."""
    if getattr(error, "__notes__", None):
        return
    error.add_note(f"{what} was given {', '.join(f'{name} {_described(value)}' for name, value in given.items())}")


def _described(value: Any) -> str:
    """Return "int64 (8,), 0 to 11"; the values of whole numbers alone, which are labels, and where reading is free."""
    if not isinstance(value, torch.Tensor):
        return "None" if value is None else type(value).__name__
    text = f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    whole = not value.is_floating_point() and not value.is_complex() and value.dtype != torch.bool
    if type(value) is torch.Tensor and value.device.type == "cpu" and whole and value.numel():
        text += f" from {value.min()} to {value.max()}"
    return text


# Makes the calls of a user's module and loss that go with the named tensors of a batch.
#
# How the loss is called is written in docs/guide.md, "What load() may return".

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
            with_shapes(error, "the loss", {"output": output, labels: tensors[labels]})
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
                with_shapes(error, "the model", {name: tensors[name] for name in positional})
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
            with_shapes(error, "the model", given)
            raise

    return by_name


def _takes_targets(module: Any, place: int) -> bool:
    """Say whether the argument at this place is called as targets are."""
    parameters = positional_parameters(module) or []
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


MODULE_NAMES = ("model", "module", "net", "network")  # what people call the argument that is the module
_KEYS = ("model", "example", "data", "tokenizer", "loss", "optimizer")


class ReturnedKind(StrEnum):
    """What a module works on."""

    EXAMPLE = "example"
    DATA = "data"
    TOKENIZER = "tokenizer"


class ReturnedParts(msgspec.Struct, frozen=True):
    """What a function returned. `given` is the example, the data or the tokenizer; `loss` as the user gave it."""

    module: Any
    kind: ReturnedKind
    given: Any
    loss: Any
    optimizer: Callable[[Any], Any] | None


def returned_parts(where: str, returned: Any) -> ReturnedParts:
    """Return the parts of what the function `where` returned. Raises UsageError saying what to return instead."""
    module, given, loss, optimizer = unfolded(where, returned) or _four(where, returned)
    if not isinstance(module, torch.nn.Module):
        instead = "return (module, example), or measure its calls: --task call"
        raise UsageError(f"{where} returned {kind_of(module)}, not a torch.nn.Module; {instead}")
    if given is None:
        given = getattr(module, "example_inputs", None)
    if given is None:
        raise UsageError(f"{where} returned a module without an example batch; return (module, example)")
    if _kind(given) == ReturnedKind.EXAMPLE and callable(given):
        raise UsageError(
            f"{where} returned {kind_of(given)} beside its module: a tokenizer has `encode` and is called with a text; "
            "else return an example batch or data"
        )
    if loss is not None and not callable(loss):
        raise UsageError(f"{where}: the loss is {kind_of(loss)}, not a function")
    return ReturnedParts(module, _kind(given), given, loss, _optimizer(where, module, optimizer))


def kind_of(value: Any) -> str:
    """Return what to call a value in a message."""
    return "None" if value is None else f"a {type(value).__name__}"


def first_argument(function: Any) -> str:
    """Return the name of a function's first argument; empty where it cannot be known."""
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # something of C has no signature
        return ""


def _four(where: str, returned: Any) -> tuple[Any, Any, Any, Any]:
    if isinstance(returned, Mapping):
        wrong = [str(key) for key in returned if key not in _KEYS]
        if wrong or "model" not in returned:
            found = ", ".join(wrong) or "no model"
            raise UsageError(f"{where} returned a dictionary with {found}; its keys are {', '.join(_KEYS)}")
        worked_on = [key for key in ("example", "data", "tokenizer") if returned.get(key) is not None]
        if len(worked_on) > 1:
            raise UsageError(f"{where} returned {' and '.join(worked_on)}; return one of them")
        given = returned[worked_on[0]] if worked_on else None
        return returned["model"], given, returned.get("loss"), returned.get("optimizer")
    if isinstance(returned, tuple | list):
        if not 1 <= len(returned) <= 4:
            raise UsageError(f"{where} returned {len(returned)} things; return (module, example, loss, optimizer)")
        module, given, third, fourth = [*returned, None, None, None][:4]
        return (
            module,
            given,
            *_roles(third, fourth, data_first=given is not None and _kind(given) != ReturnedKind.EXAMPLE),
        )
    return returned, None, None, None


def _roles(third: Any, fourth: Any, *, data_first: bool) -> tuple[Any, Any]:
    """Return (loss, optimizer)."""
    a, b = _takes(third), _takes(fourth)
    as_loss, as_optimizer = (a == 2) + (b == 1), (a == 1) + (b == 2)
    if as_loss == as_optimizer:
        return (fourth, third) if data_first else (third, fourth)
    return (third, fourth) if as_loss > as_optimizer else (fourth, third)


def _takes(given: Any) -> int | None:
    """Return how many arguments must be given to a function; None where that cannot be known."""
    if given is None or isinstance(given, torch.optim.Optimizer):
        return None if given is None else 1
    if isinstance(given, torch.nn.Module):
        return 2
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # no function, or something of C without a signature
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in by_place and p.default is p.empty for p in parameters)


def _optimizer(where: str, module: Any, given: Any) -> Callable[[Any], Any] | None:
    if given is None:
        return None
    if isinstance(given, torch.optim.Optimizer):
        return lambda _: _afresh(given)
    if not callable(given):
        raise UsageError(f"{where}: the optimizer is {kind_of(given)}, not a function")
    if first_argument(given) in MODULE_NAMES:
        return lambda _: given(module)

    def factory(parameters: Any) -> Any:
        try:
            return given(parameters)
        except AttributeError as error:  # of a module, which it took its argument for
            name = first_argument(given)
            error.add_note(f"an optimizer is called with the parameters; with the module, if {name} is named model")
            raise

    return factory


def _afresh(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return an optimizer that was there already without its state: that lies where the parameters were before."""
    optimizer.state.clear()
    return optimizer


def _kind(given: Any) -> ReturnedKind:
    if isinstance(given, torch.Tensor | Mapping | tuple):
        return ReturnedKind.EXAMPLE
    if isinstance(given, Dataset | DataLoader):
        return ReturnedKind.DATA
    if isinstance(given, list):
        # [x, y] is an example, [(x, y), (x, y)] are batches.
        inner = (list, tuple, Mapping)
        return ReturnedKind.DATA if given and all(isinstance(one, inner) for one in given) else ReturnedKind.EXAMPLE
    if isinstance(given, str | bytes):
        return ReturnedKind.EXAMPLE
    if hasattr(given, "encode") and (callable(given) or hasattr(given, "enable_padding")):
        return ReturnedKind.TOKENIZER
    is_data = hasattr(given, "__iter__") or (hasattr(given, "__getitem__") and hasattr(given, "__len__"))
    return ReturnedKind.DATA if is_data else ReturnedKind.EXAMPLE
