"""How training configurations call each setting, and how they write its values.

The names are those of torch's DataLoader, Hugging Face's TrainingArguments, Lightning's Trainer, accelerate, timm, and
of scripts people write themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from torchstone.core.schema.axis import AXES, AxisStage, Scalar, axes_of

NAMES: Mapping[str, tuple[str, ...]] = {
    "batch_size": (
        "batch_size", "per_device_train_batch_size", "per_gpu_train_batch_size", "train_batch_size",
        "micro_batch_size", "train_micro_batch_size_per_gpu", "batch",
    ),
    "num_workers": ("num_workers", "dataloader_num_workers", "num_dataloader_workers", "workers", "n_workers"),
    "pin_memory": ("pin_memory", "dataloader_pin_memory", "pin_mem"),
    "prefetch_factor": ("prefetch_factor", "dataloader_prefetch_factor"),
    "precision": ("precision", "mixed_precision", "use_mixed_precision", "use_amp", "amp"),
    "compile": ("compile", "torch_compile", "use_compile", "compile_model"),
    "grad_accumulation": (
        "gradient_accumulation_steps", "grad_accumulation", "accumulate_grad_batches", "gradient_accumulation",
        "grad_accumulation_steps", "grad_accum_steps", "accumulation_steps", "grad_accum", "accum_iter",
    ),
    "learning_rate": ("learning_rate", "lr"),
    "gradient_checkpointing": ("gradient_checkpointing", "activation_checkpointing", "grad_checkpointing"),
    "grad_clip": ("grad_clip", "max_grad_norm", "gradient_clip_val", "clip_grad_norm"),
    "optimizer": ("optimizer", "optim"),
    "sequence_length": ("sequence_length", "max_seq_length", "seq_length", "seq_len"),
    "image_size": ("image_size", "img_size"),
}  # fmt: skip
_HUGGING_FACE = {
    "batch_size": "per_device_train_batch_size", "num_workers": "dataloader_num_workers",
    "pin_memory": "dataloader_pin_memory", "prefetch_factor": "dataloader_prefetch_factor",
    "compile": "torch_compile",
}  # fmt: skip
_FLAGS = ("bf16", "fp16")  # of TrainingArguments: one key a format
_TF32 = ("tf32", "allow_tf32")
_MODES = ("torch_compile_mode", "compile_mode")
_OURS_ALONE = axes_of(AxisStage.MEASUREMENT)  # no training configuration says it
# What a script does that is not told: torch's own defaults. A setting without one must stand in the file.
_UNTOLD: Mapping[str, Scalar] = {
    "num_workers": 0, "pin_memory": False, "prefetch_factor": 2, "precision": "fp32", "compile": "off",
    "grad_accumulation": 1, "gradient_checkpointing": False, "grad_clip": 0.0, "channels_last": False,
    "fused": "auto", "sdpa": "auto", "threads": 0,
}  # fmt: skip
TRUTHS = {"true": "false", "yes": "no", "on": "off", "1": "0"}
_LIGHTNING = {"fp32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
_ACCELERATE = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}


class Part(msgspec.Struct, frozen=True):
    """One key that a setting needs: what it may be called (best first), its value, and whether it may be absent."""

    setting: str
    names: tuple[str, ...]
    value: Scalar
    optional: bool


class Unfit(Exception):
    """A value that stands where a setting belongs, and is of another kind; the text says of which."""


def word(key: object) -> str:
    """Return a key as the tables have it: BATCH-SIZE and batch_size are one."""
    return str(key).strip().lower().replace("-", "_")


def parts_of(settings: Mapping[str, Scalar], values: Sequence[tuple[str, Any]]) -> list[Part]:
    """Return the keys that a foreign configuration needs for these settings. `values`: (key as `word`, value) in it."""
    there = {key for key, _ in values}
    hugging = bool(there & (set(_HUGGING_FACE.values()) | set(_FLAGS)))
    found: list[Part] = []
    for setting, chosen in settings.items():
        # A switch of ours that is true or false everywhere else.
        value = {"on": True, "off": False}.get(str(chosen), chosen) if setting == "channels_last" else chosen
        if setting in _OURS_ALONE or (setting == "prefetch_factor" and settings.get("num_workers") == 0):
            continue  # torch refuses a prefetch_factor without workers
        names = NAMES.get(setting, (setting,))
        if hugging and setting in _HUGGING_FACE:
            names = (_HUGGING_FACE[setting], *(name for name in names if name != _HUGGING_FACE[setting]))
        untold = True if hugging and setting == "pin_memory" else _UNTOLD.get(setting)
        whole = Part(setting, names, value, optional=setting in _UNTOLD and value == untold)
        if setting == "precision":
            found += _precision(whole, values, hugging=hugging)
        elif setting == "compile":
            found += _compile(whole, values)
        else:
            found.append(whole)
    return found


def _precision(whole: Part, values: Sequence[tuple[str, Any]], *, hugging: bool) -> list[Part]:
    wanted, there = str(whole.value), dict(values)
    if hugging and not there.keys() & set(whole.names):
        found = [Part("precision", (flag,), wanted == flag, optional=wanted != flag) for flag in _FLAGS]
    else:  # where both kinds stand in one file, it is ambiguous which one counts
        found = [msgspec.structs.replace(whole, names=(*whole.names, *_FLAGS) if hugging else whole.names)]
    told = any(there.get(name) in (AXES["precision"].values or ()) for name in whole.names)
    if wanted in ("fp32", "tf32") and not told:  # whether fp32 products may use TF32 is a switch of its own
        found.append(Part("precision", _TF32, wanted == "tf32", optional=wanted == "fp32"))
    return found


def _compile(whole: Part, values: Sequence[tuple[str, Any]]) -> list[Part]:
    switches = any(key in whole.names and not isinstance(value, str) for key, value in values)
    if whole.value in ("off", "default") or not switches:
        return [whole]
    return [whole, Part("compile", _MODES, whole.value, optional=False)]


def fitted(part: Part, key: str, old: Scalar | list[Any] | dict[str, Any]) -> Scalar:
    """Return the part's value in the way in which `old`, the value of `key`, is written. Raises Unfit."""
    if isinstance(old, list | dict):
        raise Unfit("is a list" if isinstance(old, list) else "is a mapping")
    if part.setting == "precision" and isinstance(part.value, str):
        return _as_precision(part.value, key, old)
    if part.setting == "compile" and part.names != _MODES and not _is_own(part, old):
        return _as_truth(part.value != "off", old)
    if isinstance(part.value, bool):
        return _as_truth(part.value, old)
    if isinstance(part.value, int | float):
        return _as_number(part.value, old)
    if old is not None and not isinstance(old, str):
        raise Unfit(f"is {old!r}, not a word")
    return old if str(old).lower() == str(part.value).lower() else part.value


def _is_own(part: Part, old: Scalar) -> bool:
    return isinstance(old, str) and old in (AXES[part.setting].values or ())


def _as_truth(wanted: bool, old: Scalar) -> Scalar:
    if old is None or isinstance(old, bool):
        return wanted
    if isinstance(old, int) and old in (0, 1):
        return int(wanted)
    for yes, no in TRUTHS.items():
        if str(old).lower() in (yes, no):
            return yes if wanted else no
    raise Unfit(f"is {old!r}, not true or false")


def _as_number(wanted: float, old: Scalar) -> Scalar:
    if old is None or str(old).lower() == "auto":
        return wanted
    try:
        number = None if isinstance(old, bool) else float(old)
    except (TypeError, ValueError):  # a date is neither
        number = None
    if number is None:
        raise Unfit(f"is {old!r}, not a number")
    if number == wanted:
        return old
    return str(wanted) if isinstance(old, str) else wanted


def _as_precision(wanted: str, key: str, old: Scalar) -> Scalar:
    text = str(old).lower()
    if key == "mixed_precision" and text in ("no", "fp16", "bf16"):
        if wanted not in _ACCELERATE:
            raise Unfit(f"does not support {wanted}")
        return _ACCELERATE[wanted]
    if text in (AXES["precision"].values or ()) or (old is None and key == "precision"):
        return wanted
    if text in ("16", "32", "64") or text.endswith(("-mixed", "-true")):
        told = _LIGHTNING[wanted]
        same = text in (told, told.partition("-")[0])
        return old if same else told
    return _as_truth(wanted in ("bf16", "fp16"), old)
