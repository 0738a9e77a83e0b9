"""Key words of other benchmark scripts (batch_sizes, model_families, …), turned into those of a run file.

A file that holds any of them is read so. Faults are reported at the user's own keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.config.source import ConfigFile, KeyPath, Position, move_positions
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.axis import AXES, DATALOADER_AXES, AxisStage, axes_of
from torchstone.core.schema.ranks import AXES_OF_RANKS, BACKEND, STRATEGY, WORLD_SIZE
from torchstone.plugins.choices import takes

_LENGTH = "sequence_length"
# Where the value of a key goes in a run file. `training:` is a training script's own, `benchmark:` that of a finder of
# the best training settings.
_PLACES: Mapping[KeyPath, KeyPath] = {
    ("batch_sizes",): ("axes", "batch_size"),
    ("sequence_lengths",): ("axes", _LENGTH),
    ("learning_rates",): ("axes", "learning_rate"),
    ("optimizers",): ("axes", "optimizer"),
    ("gradient_accumulation_steps",): ("axes", "grad_accumulation"),
    ("mixed_precision",): ("axes", "precision"),
    ("warmup_iterations",): ("procedure", "warmup"),
    ("training_iterations",): ("procedure", "iterations"),
    ("hardware_types",): ("device",),
    ("training", "use_amp"): ("axes", "precision"),
    ("training", "learning_rate"): ("axes", "learning_rate"),
    ("training", "gradient_accumulation_steps"): ("axes", "grad_accumulation"),
    ("training", "optimizer"): ("axes", "optimizer"),
    ("training", "gradient_checkpointing"): ("axes", "gradient_checkpointing"),
    ("training", "epochs"): ("fit", "epochs"),
    ("benchmark", "batch_sizes"): ("axes", "batch_size"),
    ("benchmark", "num_workers_options"): ("axes", "num_workers"),
    ("benchmark", "steps_per_test"): ("procedure", "iterations"),
    ("benchmark", "test_mixed_precision"): ("axes", "precision"),
    ("benchmark", "test_pin_memory"): ("axes", "pin_memory"),
}
# What true and what false stands for; None: for nothing. Full and mixed precision are both measured, to be compared.
_TRUTHS: Mapping[KeyPath, tuple[Any, Any]] = {
    ("mixed_precision",): (["fp32", "bf16"], None),
    ("training", "use_amp"): ("bf16", "fp32"),
    ("benchmark", "test_mixed_precision"): (["fp32", "bf16"], None),
    ("benchmark", "test_pin_memory"): ([False, True], None),
}
_KEYS = {*(path[0] for path in _PLACES if path[0] != "training"), "model_families", "distributed_configs"}
_OF_TRAINING = {"training_iterations", "benchmark"}


def _values(source: ConfigFile, within: KeyPath, positions: dict[KeyPath, Position]) -> dict[KeyPath, Any]:
    """Return the values of one part of a file, by where they go in a run file. Raises UsageError at the user's key."""
    places = {path[-1]: place for path, place in _PLACES.items() if path[:-1] == within}
    given = source.data[str(within[0])] if within else source.data
    if not isinstance(given, dict) or not given:
        raise source.fault(within, f"must be a mapping with {', '.join(map(str, places))}")
    found: dict[KeyPath, Any] = {}
    for word, value in given.items():
        path = (*within, word)
        if word not in places:
            if within:
                raise source.unknown_key(path, [str(known) for known in places])
            continue
        if path in _TRUTHS and not isinstance(value, bool):
            raise source.fault(path, f"{value!r} is not true or false")
        meant = _TRUTHS[path][not value] if path in _TRUTHS else value
        if meant is not None or path not in _TRUTHS:
            found[places[word]] = meant
            move_positions(positions, path, places[word])
    return found


def _under(key: str, values: Mapping[KeyPath, Any]) -> dict[str, Any]:
    return {str(place[-1]): value for place, value in values.items() if place[0] == key}


def _with_own_axes(source: ConfigFile, axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes with those that the file has in the words of a run file."""
    own = source.data.get("axes")
    if own is not None and not isinstance(own, dict):
        raise source.fault(("axes",), "must be a mapping of names to values")
    return {**axes, **(own or {})}


def of_training_script(source: ConfigFile) -> ConfigFile:
    """Return the source in the words of a run file; itself where it has no part `training`.

    Raises UsageError at the user's key. `use_amp: true` is precision bf16.
    """
    if "training" not in source.data:
        return source
    positions = dict(source.positions)
    values = _values(source, ("training",), positions)
    result = {key: value for key, value in source.data.items() if key != "training"}
    axes: dict[str, Any] = {}
    if isinstance(data := source.data.get("data"), dict):
        for word in [word for word in DATALOADER_AXES if word in data]:  # what else is under `data` names it
            axes[word] = data[word]
            move_positions(positions, ("data", word), ("axes", word))
        result["data"] = {key: value for key, value in data.items() if key not in DATALOADER_AXES} or None
    if fit := _under("fit", values):
        own = result.get("fit") or {}
        result["fit"] = {**fit, **own} if isinstance(own, dict) else own
    result = {"task": "train", **result, "axes": _with_own_axes(source, {**axes, **_under("axes", values)})}
    return msgspec.structs.replace(source, data=result, positions=positions)


def translate_keys(source: ConfigFile) -> ConfigFile:
    """Return the source in the words of a run file; itself, if it is. Raises UsageError at the user's key.

    Without `task`, a file with training_iterations, learning_rates, optimizers, gradient_accumulation_steps or
    benchmark trains.
    """
    source = of_training_script(source)
    data = source.data
    foreign = [key for key in data if key in _KEYS]
    if not foreign:
        return source
    if "workloads" in data:
        raise source.fault((foreign[0],), "needs `model` or `model_families`, not `workloads`")
    positions = dict(source.positions)
    result = {key: value for key, value in data.items() if key not in foreign}
    finder = _values(source, ("benchmark",), positions) if "benchmark" in data else {}
    values = {**finder, **_values(source, (), positions)}
    axes = {**({"feed": "loader"} if "benchmark" in data else {}), **_under("axes", values)}
    if isinstance(axes.get("optimizer"), list):  # Adam, AdamW, SGD are written as classes there
        axes["optimizer"] = [word.lower() if isinstance(word, str) else word for word in axes["optimizer"]]
    if ("device",) in values:
        result["device"] = values["device",]
    procedure, own = _under("procedure", values), result.get("procedure")
    if procedure and (own is None or isinstance(own, dict)):
        result["procedure"] = {**procedure, **(own or {})}
    ranks = _distributed(source)
    training = _OF_TRAINING & set(data) or set(axes_of(AxisStage.OPTIMIZER)) & set(axes)
    training = training or set(axes_of(AxisStage.RANKS) if ranks else ())
    task = result.pop("task", None) or ("train" if training else "infer")
    shared: dict[str, Any] = {"task": task}
    shared.update({key: result.pop(key) for key in ("data", "options") if key in result})
    result.pop("axes", None)
    shared["axes"] = _with_own_axes(source, axes)
    models = _models(source)
    if "model" in result:
        models.insert(0, (result.pop("model"), ("model",)))
    if not models:
        raise source.fault((), "has no model: add --model NAME, or `model` or `model_families` in the file")
    unsuited = _unsuited(source, [model for model, _ in models], shared)
    others = {axis: those for axis, those in shared["axes"].items() if axis != _LENGTH}
    each = [(model, path, *more) for model, path in models for more in ranks or [({}, None)]]
    result["workloads"] = [
        {"model": model, **shared, "axes": {**(others if model in unsuited else shared["axes"]), **more}}
        for model, _, more, _ in each
    ]
    for index, (_, path, more, there) in enumerate(each):
        place = positions.get(path, (1, 1))
        positions["workloads", index] = positions["workloads", index, "model"] = place
        for key in ("task", "data", "options", "axes"):
            move_positions(positions, (key,), ("workloads", index, key))
        for axis in more if there is not None else ():
            positions["workloads", index, "axes", axis] = there or place
    return msgspec.structs.replace(source, data=result, positions=positions)


def _models(source: ConfigFile) -> list[tuple[str, KeyPath]]:
    families = source.data.get("model_families")
    if families is None:
        return []
    if not isinstance(families, dict):
        raise source.fault(("model_families",), "must be a mapping of a family to a list of models")
    found: list[tuple[str, KeyPath]] = []
    for family, models in families.items():
        path: KeyPath = ("model_families", family)
        if not isinstance(models, list):
            raise source.fault(path, "must be a list of models")
        for index, model in enumerate(models):
            if not isinstance(model, str) or not model.strip():
                raise source.fault((*path, index), f"{model!r} is not the name of a model")
            found.append((model if ":" in model else f"hf:{model}", (*path, index)))
    return found


def _unsuited(source: ConfigFile, models: list[Any], shared: Mapping[str, Any]) -> list[Any]:
    """Return the models that sequence_lengths is not for, among others that it is for: those of images and sound."""
    if "sequence_lengths" not in source.data:
        return []
    options = shared.get("options")
    unsuited = [model for model in models if not _takes_sequences(str(shared["task"]), model, options)]
    return unsuited if len(unsuited) < len(models) else []


def _takes_sequences(task: str, model: Any, options: Any) -> bool:
    try:
        return takes(task, str(model), options if isinstance(options, dict) else {}, _LENGTH)
    except TorchstoneError:  # no such task or model, or a library that is not there: the plan tells it, and its place
        return True


def _distributed(source: ConfigFile) -> list[tuple[dict[str, Any], Position | None]]:
    """Return the axes of each back end of `distributed_configs` with its sizes, and their place in the file.

    [{world_size: 1, backend: …}] alone is no axis: one process has no one to talk to.
    """
    configs = source.data.get("distributed_configs")
    if configs is not None and not isinstance(configs, list):
        raise source.fault(("distributed_configs",), "must be a list")
    found: dict[str, tuple[dict[str, Any], Position | None]] = {}
    several = False
    for index, one in enumerate(configs or []):
        place: KeyPath = ("distributed_configs", index)
        if not isinstance(one, dict):
            raise source.fault(place, "must be a mapping with world_size and backend")
        for key in one:
            if key not in (WORLD_SIZE, BACKEND, STRATEGY):
                raise source.unknown_key((*place, key), (WORLD_SIZE, BACKEND, STRATEGY))
        try:
            said = {axis: AXES[axis].parse(one.get(axis, AXES[axis].default)) for axis in AXES_OF_RANKS}
        except UsageError as fault:
            raise source.fault(place, str(fault)) from None
        alone = said[WORLD_SIZE] == 1
        several = several or not alone
        word = "" if alone else f"{said[BACKEND]} {said[STRATEGY]}"
        axes, _ = found.setdefault(word, ({WORLD_SIZE: []}, source.positions.get(place)))
        axes[WORLD_SIZE].append(said[WORLD_SIZE])
        axes.update({} if alone else {BACKEND: [said[BACKEND]], STRATEGY: [said[STRATEGY]]})
    return list(found.values()) if several else []
