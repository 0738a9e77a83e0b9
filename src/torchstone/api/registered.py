"""Models that a program has given a name: `torchstone.register_model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.plugins import registry


class RegisteredModel(msgspec.Struct, frozen=True):
    """A loader with a name. `spec`: how a trial finds it, py:path.py:function or py:package.module:function."""

    name: str
    spec: str
    family: str


_REGISTERED: dict[str, RegisteredModel] = {}


def register_model(name: str, loader: Callable[..., Any], family: str = "custom") -> RegisteredModel:
    """Give a loader a name that `torchstone.benchmark` knows, in this program.

    `loader` returns (model, tokenizer or data, optimizer_fn, loss_fn), or (module, example, loss, optimizer); all that
    it may return is at the top of torchstone/plugins/models/py/returned.py. It is called in the fresh process of every
    trial, with `options=` of the benchmark as its arguments; `device` among them is the CPU, and torchstone moves the
    model. So it must be a function at a file's top: a lambda, a function inside another and one typed into a notebook
    raise UsageError, with the reason. Registering a name again replaces it.
    """
    if not name or ":" in name or name != name.strip():
        raise UsageError(f"register_model: {name!r} is not a valid name: use letters, digits, - and _")
    registered = RegisteredModel(name, spec_of(loader), family)
    _REGISTERED[name] = registered
    return registered


def spec_of(loader: Callable[..., Any]) -> str:
    """Return what `--model` would say for a loader at hand. Raises UsageError with the reason if nothing would."""
    return f"py:{registry.load('models', 'py').spelled(loader)}"


def registered(name: str) -> RegisteredModel | None:
    """Return the model of that name, or None."""
    return _REGISTERED.get(name)
