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
from torchstone.plugins.model_choice import takes

_TRAINING = {
    "use_amp": "precision",
    "learning_rate": "learning_rate",
    "gradient_accumulation_steps": "grad_accumulation",
    "optimizer": "optimizer",
    "gradient_checkpointing": "gradient_checkpointing",
}


def of_training_script(source: ConfigFile) -> ConfigFile:
    """Return the source in the words of a run file; itself where it has no part `training`.

    Raises UsageError at the user's key. `use_amp: true` is precision bf16.
    """
    if "training" not in source.data:
        return source
    data, training = source.data.get("data"), source.data["training"]
    if not isinstance(training, dict) or not training:
        raise source.fault(("training",), f"must be a mapping with {', '.join((*_TRAINING, 'epochs'))}")
    axes: dict[str, Any] = {}
    result = {key: value for key, value in source.data.items() if key != "training"}
    positions = dict(source.positions)
    if isinstance(data, dict):
        for word in [word for word in DATALOADER_AXES if word in data]:  # what else is under `data` names it
            axes[word] = data[word]
            move_positions(positions, ("data", word), ("axes", word))
        result["data"] = {key: value for key, value in data.items() if key not in DATALOADER_AXES} or None
    for word, value in training.items():
        path: KeyPath = ("training", word)
        if word == "epochs":
            fit = result.get("fit") or {}
            result["fit"] = {"epochs": value, **fit} if isinstance(fit, dict) else fit
            move_positions(positions, path, ("fit", "epochs"))
        elif word not in _TRAINING:
            raise source.unknown_key(path, (*_TRAINING, "epochs"))
        else:
            axes[_TRAINING[word]] = _precision(source, path, value) if word == "use_amp" else value
            move_positions(positions, path, ("axes", _TRAINING[word]))
    own = result.get("axes")
    if own is not None and not isinstance(own, dict):
        raise source.fault(("axes",), "must be a mapping of names to values")
    result = {"task": "train", **result, "axes": {**axes, **(own or {})}}
    return msgspec.structs.replace(source, data=result, positions=positions)


def _precision(source: ConfigFile, path: KeyPath, value: Any) -> str:
    if not isinstance(value, bool):
        raise source.fault(path, f"{value!r} is not true or false")
    return "bf16" if value else "fp32"


_AXES = {
    "batch_sizes": "batch_size",
    "sequence_lengths": "sequence_length",
    "learning_rates": "learning_rate",
    "optimizers": "optimizer",
    "gradient_accumulation_steps": "grad_accumulation",
}
_LENGTH = "sequence_length"
_PROCEDURE = {"warmup_iterations": "warmup", "training_iterations": "iterations"}
_OTHERS = ("mixed_precision", "model_families", "hardware_types", "distributed_configs", "benchmark")
# The part `benchmark:` of a finder of the best training settings: its words, and where they go. It trains, and loads.
_FINDER = {
    "batch_sizes": ("axes", "batch_size"),
    "num_workers_options": ("axes", "num_workers"),
    "steps_per_test": ("procedure", "iterations"),
}
_FINDER_TESTS: Mapping[str, tuple[str, list[Any]]] = {
    "test_mixed_precision": ("precision", ["fp32", "bf16"]),
    "test_pin_memory": ("pin_memory", [False, True]),
}


def translate_keys(source: ConfigFile) -> ConfigFile:
    """Return the source in the words of a run file; itself, if it is. Raises UsageError at the user's key.

    `mixed_precision: true` becomes precision [fp32, bf16]: full and mixed are measured, so that they can be compared.
    Without `task`, a file with training_iterations, learning_rates, optimizers, gradient_accumulation_steps or
    benchmark trains.
    """
    source = of_training_script(source)
    data = source.data
    foreign = [key for key in data if key in _AXES or key in _PROCEDURE or key in _OTHERS]
    if not foreign:
        return source
    if "workloads" in data:
        raise source.fault((foreign[0],), "needs `model` or `model_families`, not `workloads`")
    positions = dict(source.positions)
    result = {key: value for key, value in data.items() if key not in foreign}
    finder = _finder(source, positions)
    _procedure(source, result, positions, finder["procedure"])
    axes = {**finder["axes"], **_axes(source, positions)}
    if "hardware_types" in data:
        move_positions(positions, ("hardware_types",), ("device",))
        result["device"] = data["hardware_types"]
    ranks = _distributed(source)
    training = {"training_iterations", "benchmark"} & set(data) or set(axes_of(AxisStage.OPTIMIZER)) & set(axes)
    training = training or set(axes_of(AxisStage.RANKS) if ranks else ())
    task = result.pop("task", None) or ("train" if training else "infer")
    shared: dict[str, Any] = {"task": task}
    shared.update({key: result.pop(key) for key in ("data", "options") if key in result})
    own = result.pop("axes", None)
    if own is not None and not isinstance(own, dict):
        raise source.fault(("axes",), "must be a mapping of names to values")
    shared["axes"] = {**axes, **(own or {})}
    models = _models(source)
    if "model" in result:
        models.insert(0, (result.pop("model"), ("model",)))
    if not models:
        raise source.fault((), "has no model: add --model NAME, or `model` or `model_families` in the file")
    unsuited = _unsuited(source, [model for model, _ in models], shared)
    others = {axis: values for axis, values in shared["axes"].items() if axis != _LENGTH}
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


def _axes(source: ConfigFile, positions: dict[KeyPath, Position]) -> dict[str, Any]:
    axes = {axis: source.data[word] for word, axis in _AXES.items() if word in source.data}
    for word, axis in _AXES.items():
        move_positions(positions, (word,), ("axes", axis))
    if isinstance(axes.get("optimizer"), list):  # Adam, AdamW, SGD are written as classes there
        axes["optimizer"] = [word.lower() if isinstance(word, str) else word for word in axes["optimizer"]]
    mixed = source.data.get("mixed_precision")
    if mixed is not None and not isinstance(mixed, bool):
        raise source.fault(("mixed_precision",), f"{mixed!r} is not true or false")
    if mixed:
        axes["precision"] = ["fp32", "bf16"]
        move_positions(positions, ("mixed_precision",), ("axes", "precision"))
    return axes


def _finder(source: ConfigFile, positions: dict[KeyPath, Position]) -> dict[str, dict[str, Any]]:
    """Return axes and procedure of `benchmark:` (batch_sizes, num_workers_options, steps_per_test, test_…)."""
    found: dict[str, dict[str, Any]] = {"axes": {}, "procedure": {}}
    part = source.data.get("benchmark")
    if "benchmark" not in source.data:
        return found
    if not isinstance(part, dict) or not part:
        raise source.fault(("benchmark",), f"must be a mapping with {', '.join((*_FINDER, *_FINDER_TESTS))}")
    found["axes"]["feed"] = "loader"
    for word, value in part.items():
        path: KeyPath = ("benchmark", word)
        if word in _FINDER:
            kind, name = _FINDER[word]
            found[kind][name] = value
            move_positions(positions, path, (kind, name))
        elif word not in _FINDER_TESTS:
            raise source.unknown_key(path, (*_FINDER, *_FINDER_TESTS))
        elif not isinstance(value, bool):
            raise source.fault(path, f"{value!r} is not true or false")
        elif value:
            name, values = _FINDER_TESTS[word]
            found["axes"][name] = values
            move_positions(positions, path, ("axes", name))
    return found


def _procedure(
    source: ConfigFile, result: dict[str, Any], positions: dict[KeyPath, Position], finder: Mapping[str, Any]
) -> None:
    given = {**finder, **{name: source.data[word] for word, name in _PROCEDURE.items() if word in source.data}}
    own = result.get("procedure")
    if given and (own is None or isinstance(own, dict)):
        result["procedure"] = {**given, **(own or {})}
        for word, name in _PROCEDURE.items():
            if name not in (own or {}):
                move_positions(positions, (word,), ("procedure", name))


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
