"""The configuration of a training script, with its parts `data` and `training`, turned into the words of a run file."""

from __future__ import annotations

from typing import Any

import msgspec

from torchstone.config.positions import KeyPath, moved
from torchstone.config.source import Source
from torchstone.core.schema.axis import DATALOADER_AXES

_TRAINING = {
    "use_amp": "precision", "learning_rate": "learning_rate", "gradient_accumulation_steps": "grad_accumulation",
    "optimizer": "optimizer", "gradient_checkpointing": "gradient_checkpointing",
}  # fmt: skip


def of_training_script(source: Source) -> Source:
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
            moved(positions, ("data", word), ("axes", word))
        result["data"] = {key: value for key, value in data.items() if key not in DATALOADER_AXES} or None
    for word, value in training.items():
        path: KeyPath = ("training", word)
        if word == "epochs":
            fit = result.get("fit") or {}
            result["fit"] = {"epochs": value, **fit} if isinstance(fit, dict) else fit
            moved(positions, path, ("fit", "epochs"))
        elif word not in _TRAINING:
            raise source.unknown_key(path, (*_TRAINING, "epochs"))
        else:
            axes[_TRAINING[word]] = _precision(source, path, value) if word == "use_amp" else value
            moved(positions, path, ("axes", _TRAINING[word]))
    own = result.get("axes")
    if own is not None and not isinstance(own, dict):
        raise source.fault(("axes",), "must be a mapping of names to values")
    result = {"task": "train", **result, "axes": {**axes, **(own or {})}}
    return msgspec.structs.replace(source, data=result, positions=positions)


def _precision(source: Source, path: KeyPath, value: Any) -> str:
    if not isinstance(value, bool):
        raise source.fault(path, f"{value!r} is not true or false")
    return "bf16" if value else "fp32"
