"""The part `procedure:` of a run file: how to measure. Durations as 30s or 5m, shares as 1%."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from torchstone.config.durations import duration_s, share
from torchstone.config.source import Source
from torchstone.core.cores import affinity_word
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.procedure import DISTURBED, HEAPS, Procedure

_SHORT: Mapping[str, str] = {
    "within": "within_s",
    "budget": "budget_s",
    "percentiles": "percentiles_s",
    "timeout": "timeout_s",
    "warmup_budget": "warmup_budget_s",
    "telemetry": "telemetry_period_s",
    "telemetry_period": "telemetry_period_s",
    "time_limit": "time_limit_s",
}


def read_procedure(source: Source) -> Procedure:
    """Return the Procedure of a run file. Raises UsageError naming file, line and key."""
    given = source.data.get("procedure")
    if given is not None and not isinstance(given, dict):
        raise source.fault(("procedure",), "must be a mapping of names to values")
    values: dict[str, Any] = {}
    for key, value in (given or {}).items():
        path = ("procedure", key)
        name = _SHORT.get(key, key)
        if name not in _READ:
            raise source.unknown_key(path, (*_READ, *_SHORT))
        if name in values:
            raise source.fault(path, f"{name} is given twice, by its long and its short name")
        try:
            values[name] = _READ[name](value)
        except UsageError as fault:
            raise source.fault(path, str(fault)) from None
    if values.get("cpu_affinity") is not None and values.get("pin_threads"):
        raise source.fault(("procedure", "cpu_affinity"), "excludes pin_threads: give one of them")
    if values.get("target") is not None:
        values.setdefault("aim", values["target"])
    return Procedure(**values)


def _whole(least: int, optional: bool = False) -> Callable[[Any], int | None]:
    def read(value: Any) -> int | None:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{value!r} is not a whole number")
        if value < least:
            raise UsageError(f"{value} is too small: {least} or more")
        return value

    return read


def _positive_s(value: Any) -> float:
    found = duration_s(value)
    if found <= 0.0:
        raise UsageError("must be more than 0 s")
    return found


def _limit(value: Any) -> float | None:
    return None if value is None else _positive_s(value)


def _target(value: Any) -> float | None:
    return None if value is None else share(value)


def truth(value: Any) -> bool:
    """Return a truth of a run file. Raises UsageError for what is none."""
    if not isinstance(value, bool):
        raise UsageError(f"{value!r} is not true or false")
    return value


def one_of(words: Sequence[str]) -> Callable[[Any], str]:
    """Return what reads one of these words. It raises UsageError, with the nearest of them, for any other."""

    def read(value: Any) -> str:
        if value not in words:
            raise unknown("value", str(value), words)
        return str(value)

    return read


_READ: Mapping[str, Callable[[Any], Any]] = {
    "trials": _whole(1, optional=True),
    "within_s": _limit,
    "aim": share,
    "percentiles_s": duration_s,
    "warmup": _whole(0, optional=True),
    "warmup_budget_s": duration_s,
    "iterations": _whole(1, optional=True),
    "target": _target,
    "budget_s": _positive_s,
    "min_steps": _whole(1),
    "timeout_s": _positive_s,
    "seed": _whole(0),
    "isolation": one_of(("auto", "fork", "spawn")),
    "disturbed": one_of(DISTURBED),
    "heap": one_of(HEAPS),
    "pin_threads": truth,
    "cpu_affinity": affinity_word,
    "settings": one_of(("device", "torch")),
    "telemetry_period_s": duration_s,
    "count_flops": truth,
    "phases": truth,
    "time_limit_s": _limit,
    "foresee": truth,
    "nvtx": truth,
    "profile": truth,
}
_OF_A_FIT = {"epochs", "fit"}  # said under `fit:`
_OF_A_PROGRAM = {"in_place", "let_finish"}  # which no file describes
if set(_READ) | _OF_A_FIT | _OF_A_PROGRAM != set(msgspec.structs.asdict(Procedure())):
    raise TypeError("config/procedure.py and core/schema/procedure.py name different keys")
