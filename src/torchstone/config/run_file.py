"""A run file: workloads, device, `procedure:` (how to measure) and `fit:` (training to an end).

Every fault names file, line and key. Durations as 30s or 5m, shares as 1%.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from torchstone.config.legacy_keys import translate_keys
from torchstone.config.source import ConfigFile, KeyPath
from torchstone.core.cores import affinity_word
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar, axis_named
from torchstone.core.schema.case import Task
from torchstone.core.schema.procedure import DISTURBED, HEAPS, Procedure
from torchstone.core.schema.request import Condition, WorkloadRequest, comparison_of, parse
from torchstone.core.schema.run import RequestSource as Origin
from torchstone.core.schema.training import KEPT, SCHEDULES, Fit
from torchstone.core.units import duration_s, share
from torchstone.plugins import registry
from torchstone.plugins.choices import takes

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


def read_procedure(source: ConfigFile) -> Procedure:
    """Return the Procedure of a run file. Raises UsageError naming file, line and key."""
    given = source.data.get("procedure")
    if given is not None and not isinstance(given, dict):
        raise source.fault(("procedure",), "must be a mapping of names to values")
    values: dict[str, Any] = {}
    for key, value in (given or {}).items():
        path = ("procedure", key)
        name = _SHORT.get(key, key)
        if name not in _PROCEDURE_KEYS:
            raise source.unknown_key(path, (*_PROCEDURE_KEYS, *_SHORT))
        if name in values:
            raise source.fault(path, f"{name} is given twice, by its long and its short name")
        try:
            values[name] = _PROCEDURE_KEYS[name](value)
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


_PROCEDURE_KEYS: Mapping[str, Callable[[Any], Any]] = {
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
    "quality_margin": share,
}
_OF_A_FIT = {"epochs", "fit"}  # said under `fit:`
_OF_A_PROGRAM = {"in_place", "let_finish"}  # which no file describes
if set(_PROCEDURE_KEYS) | _OF_A_FIT | _OF_A_PROGRAM != set(msgspec.structs.asdict(Procedure())):
    raise TypeError("config/run_file.py and core/schema/procedure.py name different keys")


class FitSettings(msgspec.Struct, frozen=True):
    """What a run file says of training to an end. `data`: the source that reads a bare path given by --data."""

    fit: Fit = Fit()
    epochs: int | None = None
    data: str | None = None


def read_fit(source: ConfigFile) -> FitSettings:
    """Return it. Raises UsageError naming file, line and key."""
    given = source.data.get("fit")
    if given is not None and not isinstance(given, dict):
        raise source.fault(("fit",), "must be a mapping of names to values")
    values: dict[str, Any] = {}
    for key, value in (given or {}).items():
        if key not in _FIT_KEYS:
            raise source.unknown_key(("fit", key), _FIT_KEYS)
        try:
            values[key] = _FIT_KEYS[key](value)
        except UsageError as fault:
            raise source.fault(("fit", key), str(fault)) from None
    epochs, data = values.pop("epochs", None), values.pop("data", None)
    return FitSettings(Fit(**values), epochs, data)


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{value!r} is not a whole number from 1 up")
    return value


def _rise(value: Any) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else share(value)


def _source(value: Any) -> str:
    from torchstone.plugins import registry

    return one_of(tuple(registry.names("data")))(value)


_FIT_KEYS: Mapping[str, Callable[[Any], Any]] = {
    "epochs": _positive,
    "data": _source,
    "schedule": one_of(SCHEDULES),
    "warmup_share": _rise,
    "early_stop": _positive,
    "validation": share,
    "augment": truth,
    "keep": one_of(KEPT),
}


def as_loads(workloads: Sequence[WorkloadRequest]) -> tuple[WorkloadRequest, ...]:
    """Return the workloads of tasks infer and loadgen as loads, without the axes that a load has not."""
    found = []
    for one in workloads:
        if one.task in (Task.INFER, Task.LOADGEN):
            axes = {
                axis: values for axis, values in one.axes.items() if takes(Task.LOADGEN, one.model, one.options, axis)
            }
            found.append(msgspec.structs.replace(one, task=str(Task.LOADGEN), axes=axes))
    return tuple(found)


_TOP = ("about", "name", "device", "procedure", "workloads", "exclude", "first", "fit")
_WORKLOAD = ("task", "model", "data", "options", "axes")
_SOURCE = "source"  # the key of a mapping under `data` that names the source; all others are its options
_DEVICE = re.compile(r"[a-z]+(:\d+)?", re.ASCII)


class RunRequest(msgspec.Struct, frozen=True):
    """What a run file asks for. `device` may hold several words with commas between.

    `absent_ok`: those that are not here are told with the reason, and the others measured; one at least has to be here.
    Configurations that meet a condition of `exclude` are left out; those that meet one of `first` are taken first.
    """

    workloads: tuple[WorkloadRequest, ...]
    about: str | None = None
    name: str | None = None
    device: str = "auto"
    absent_ok: bool = False
    procedure: Procedure = Procedure()
    exclude: tuple[Condition, ...] = ()
    first: tuple[Condition, ...] = ()
    fit: FitSettings = FitSettings()
    source: Origin | None = None  # the recipe or file this came from; None: flags alone


def read_request(source: ConfigFile, model: str | None = None) -> RunRequest:
    """Return what a file that was read asks for. Raises UsageError: "file:line:column: key: what is wrong".

    `model`: of a file that names none; one that does is refused with it.
    """
    source = translate_keys(source if model is None else _with_model(source, model))
    known = (*_TOP, *(_WORKLOAD if "workloads" not in source.data else ()))
    _only(source, source.data, (), known)
    if "workloads" in source.data:
        items = source.data["workloads"]
        if not isinstance(items, list) or not items:
            raise source.fault(("workloads",), "must be a list of workloads, one at least")
        workloads = tuple(_workload(source, item, ("workloads", i)) for i, item in enumerate(items))
    else:
        workloads = (_workload(source, {k: v for k, v in source.data.items() if k in _WORKLOAD}, ()),)
    device = _device(source)
    return RunRequest(
        workloads=workloads,
        about=_text(source, source.data, (), "about"),
        name=_text(source, source.data, (), "name"),
        device=device,
        absent_ok="," in device,  # a file may be meant for several machines; who types a device means it
        procedure=read_procedure(source),
        exclude=_conditions(source, "exclude"),
        first=_conditions(source, "first"),
        fit=read_fit(source),
    )


def _with_model(source: ConfigFile, model: str) -> ConfigFile:
    if named := [key for key in ("model", "model_families", "workloads") if source.data.get(key) is not None]:
        raise source.fault((named[0],), "already names the models: leave out --model")
    return msgspec.structs.replace(source, data={**source.data, "model": model})


def _workload(source: ConfigFile, item: Any, path: KeyPath) -> WorkloadRequest:
    if not isinstance(item, dict):
        raise source.fault(path, "must be a mapping with task and model")
    if path:
        _only(source, item, path, _WORKLOAD)
    for key in ("task", "model"):
        if item.get(key) is None:
            add = "; or add --model NAME" if key == "model" and not path else ""
            raise source.fault(path, f"'{key}' is missing{add}")
    task = _text(source, item, path, "task")
    if task not in list(Task):
        raise source.fault((*path, "task"), str(unknown("task", str(task), Task)))
    model = _text(source, item, path, "model")
    data, data_options = _data(source, item, path)
    return WorkloadRequest(
        task=str(task),
        model=str(model),
        data=data,
        options=_options(source, item.get("options"), (*path, "options")),
        axes=_axes(source, item.get("axes"), (*path, "axes")),
        data_options=data_options,
    )


def _data(source: ConfigFile, item: Mapping[str, Any], path: KeyPath) -> tuple[str | None, Mapping[str, Scalar]]:
    """Return the data's source and options: a text, or a mapping of `source` and the options."""
    value = item.get("data")
    if not isinstance(value, dict):
        return _text(source, item, path, "data"), {}
    here = (*path, "data")
    if value.get(_SOURCE) is None:
        raise source.fault(here, f"'{_SOURCE}' is missing: for example {_SOURCE}: csv:reviews.csv")
    options = _options(source, {key: inner for key, inner in value.items() if key != _SOURCE}, here)
    return _text(source, value, here, _SOURCE), options


def _options(source: ConfigFile, value: Any, path: KeyPath) -> Mapping[str, Scalar]:
    mapping = _mapping(source, value, path)
    for key, inner in mapping.items():
        if isinstance(inner, dict | list):
            raise source.fault((*path, key), "must be one value")
    return mapping


def _axes(source: ConfigFile, value: Any, path: KeyPath) -> Mapping[str, tuple[Scalar, ...]]:
    return {name: _values(source, name, inner, (*path, name)) for name, inner in _mapping(source, value, path).items()}


def _values(source: ConfigFile, name: str, value: Any, path: KeyPath) -> tuple[Scalar, ...]:
    with _at_position(source, path):
        axis = axis_named(name)
    given = value if isinstance(value, list) else [value]
    if not given:
        raise source.fault(path, f"has no value; its default is {axis.default}")
    parsed: dict[Scalar, None] = {}
    for index, one in enumerate(given):
        here = (*path, index) if isinstance(value, list) else path
        if isinstance(one, dict | list):
            raise source.fault(here, "must be a value or a list of values")
        with _at_position(source, here, f"axis {name}: "):
            parsed[axis.parse(one)] = None
    return tuple(parsed)


def _conditions(source: ConfigFile, key: str) -> tuple[Condition, ...]:
    """Return the conditions under a key: texts, or mappings of an axis to a value, a comparison or a list."""
    value = source.data.get(key)
    if value is None:
        return ()
    given = value if isinstance(value, list) else [value]
    places: list[KeyPath] = [(key, index) if isinstance(value, list) else (key,) for index in range(len(given))]
    return tuple(_condition(source, one, path) for one, path in zip(given, places, strict=True))


def _condition(source: ConfigFile, value: Any, path: KeyPath) -> Condition:
    if isinstance(value, str):
        with _at_position(source, path):
            return parse(value)
    if not isinstance(value, dict) or not value:
        raise source.fault(path, "must be a text like batch_size>=1024,precision=fp32, or a mapping of axes to values")
    found = []
    for axis, inner in value.items():
        here = (*path, axis)
        if isinstance(inner, dict) or (isinstance(inner, list) and any(isinstance(one, dict | list) for one in inner)):
            raise source.fault(here, "must be a value, a comparison like '>=1024', or a list of values")
        with _at_position(source, here, f"axis {axis}: "):
            found.append(comparison_of(axis, inner))
    return Condition(tuple(found))


@contextmanager
def _at_position(source: ConfigFile, path: KeyPath, known: str = "") -> Iterator[None]:
    """Let a UsageError begin with the place; `known` is what it need not say again."""
    try:
        yield
    except UsageError as fault:
        raise source.fault(path, str(fault).removeprefix(known)) from None


def device_fault(word: str) -> str | None:
    """Return what is wrong with how a device is written, or None. Whether it is here is asked much later."""
    kind, kinds = word.partition(":")[0], ("auto", *registry.names("devices"))
    if kind not in kinds:
        return str(unknown("device", word, kinds))
    if not _DEVICE.fullmatch(word) or word.startswith("auto:"):
        return f"'{word}': write auto" if kind == "auto" else f"'{word}': write {kind}:0, {kind}:1, …"
    return None


def _device(source: ConfigFile) -> str:
    value = source.data.get("device")
    given = value if isinstance(value, list) else ["auto" if value is None else value]
    for index, word in enumerate(given):
        path: KeyPath = ("device", index) if isinstance(value, list) else ("device",)
        if not isinstance(word, str):
            raise source.fault(path, f"{word!r} is not a device: auto, cpu, cuda, cuda:1, …")
        if (fault := device_fault(word)) is not None:
            raise source.fault(path, fault)
    if not given:
        raise source.fault(("device",), "has no value; write auto")
    return ",".join(dict.fromkeys(given))


def _mapping(source: ConfigFile, value: Any, path: KeyPath) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise source.fault(path, "must be a mapping of names to values")
    return value or {}


def _text(source: ConfigFile, item: Mapping[str, Any], path: KeyPath, key: str) -> str | None:
    value = item.get(key)
    if value is not None and not isinstance(value, str):
        raise source.fault((*path, key), f"{value!r} is not a text: put it in quotes")
    if value is not None and not value.strip():
        raise source.fault((*path, key), "is empty")
    return value


def _only(source: ConfigFile, item: Mapping[str, Any], path: KeyPath, known: tuple[str, ...]) -> None:
    for key in item:
        if key not in known:
            raise source.unknown_key((*path, key), known)
