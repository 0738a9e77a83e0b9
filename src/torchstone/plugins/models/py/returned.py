"""Parses what a user's function returns: a module, its data, its loss, its optimizer.

    module                               with an attribute `example_inputs`
    (module, X[, loss[, optimizer]])     or a dictionary with the keys model, loss, optimizer, and one of example,
                                         data and tokenizer
    a Trainer of transformers            its model, loader, loss and optimizer (trainers.py)
    a LightningModule                    or (LightningModule, data), where data may be a LightningDataModule

What X is, its type tells:

    a tokenizer                          text of --data, the module called like a transformers model (own_text.py)
    Dataset, DataLoader, batches         data of its own (own_data.py); a list of batches, or what gives them anew
                                         each time it is iterated
    tensors                              an example batch (example.py)

Loss and optimizer may change places: a loss takes two arguments, an optimizer one. Where that does not tell them
apart, (loss, optimizer) follow an example, (optimizer, loss) data or a tokenizer. An optimizer is called with the
parameters; with the module, if its argument is called model, module, net or network; or it is there already.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader, Dataset

from torchstone.core.errors import UsageError
from torchstone.plugins.models.py.trainers import unfolded

MODULE_NAMES = ("model", "module", "net", "network")  # what people call the argument that is the module
_KEYS = ("model", "example", "data", "tokenizer", "loss", "optimizer")


class Kind(StrEnum):
    """What a module works on."""

    EXAMPLE = "example"
    DATA = "data"
    TOKENIZER = "tokenizer"


class Returned(msgspec.Struct, frozen=True):
    """What a function returned. `given` is the example, the data or the tokenizer; `loss` as the user gave it."""

    module: Any
    kind: Kind
    given: Any
    loss: Any
    optimizer: Callable[[Any], Any] | None


def taken_apart(where: str, returned: Any) -> Returned:
    """Return the parts of what the function `where` returned. Raises UsageError saying what to return instead."""
    module, given, loss, optimizer = unfolded(where, returned) or _four(where, returned)
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"{where} returned {kind_of(module)}, not a torch.nn.Module; return (module, example)")
    if given is None:
        given = getattr(module, "example_inputs", None)
    if given is None:
        raise UsageError(f"{where} returned a module without an example batch; return (module, example)")
    if _kind(given) == Kind.EXAMPLE and callable(given):
        raise UsageError(
            f"{where} returned {kind_of(given)} beside its module: a tokenizer has `encode` and is called with a text; "
            "else return an example batch or data"
        )
    if loss is not None and not callable(loss):
        raise UsageError(f"{where}: the loss is {kind_of(loss)}, not a function")
    return Returned(module, _kind(given), given, loss, _optimizer(where, module, optimizer))


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
        return module, given, *_roles(third, fourth, data_first=given is not None and _kind(given) != Kind.EXAMPLE)
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


def _kind(given: Any) -> Kind:
    if isinstance(given, torch.Tensor | Mapping | tuple):
        return Kind.EXAMPLE
    if isinstance(given, Dataset | DataLoader):
        return Kind.DATA
    if isinstance(given, list):
        # [x, y] is an example, [(x, y), (x, y)] are batches.
        inner = (list, tuple, Mapping)
        return Kind.DATA if given and all(isinstance(one, inner) for one in given) else Kind.EXAMPLE
    if isinstance(given, str | bytes):
        return Kind.EXAMPLE
    if hasattr(given, "encode") and (callable(given) or hasattr(given, "enable_padding")):
        return Kind.TOKENIZER
    is_data = hasattr(given, "__iter__") or (hasattr(given, "__getitem__") and hasattr(given, "__len__"))
    return Kind.DATA if is_data else Kind.EXAMPLE
