"""The part `fit:` of a run file: how a model is trained to an end. Shares as 10%."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from torchstone.config.durations import share
from torchstone.config.procedure import one_of, truth
from torchstone.config.source import Source
from torchstone.core.errors import UsageError
from torchstone.core.schema.fit import KEPT, SCHEDULES, Fit


class FitRequest(msgspec.Struct, frozen=True):
    """What a run file says of training to an end. `data`: the source that reads a bare path given by --data."""

    fit: Fit = Fit()
    epochs: int | None = None
    data: str | None = None


def read_fit(source: Source) -> FitRequest:
    """Return it. Raises UsageError naming file, line and key."""
    given = source.data.get("fit")
    if given is not None and not isinstance(given, dict):
        raise source.fault(("fit",), "must be a mapping of names to values")
    values: dict[str, Any] = {}
    for key, value in (given or {}).items():
        if key not in _READ:
            raise source.unknown_key(("fit", key), _READ)
        try:
            values[key] = _READ[key](value)
        except UsageError as fault:
            raise source.fault(("fit", key), str(fault)) from None
    epochs, data = values.pop("epochs", None), values.pop("data", None)
    return FitRequest(Fit(**values), epochs, data)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{value!r} is not a whole number from 1 up")
    return value


def _rise(value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else share(value)


def _source(value: Any) -> str:
    from torchstone.plugins import registry

    return one_of(tuple(registry.names("data")))(value)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "epochs": _whole,
    "data": _source,
    "schedule": one_of(SCHEDULES),
    "warmup_share": _rise,
    "early_stop": _whole,
    "validation": share,
    "augment": truth,
    "keep": one_of(KEPT),
}
