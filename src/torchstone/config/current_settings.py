"""The settings that a person has now, read from the training configuration that tuned ones will be written into."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchstone.config._apply_file import read_writable
from torchstone.config._apply_places import keys_of
from torchstone.config._apply_words import NAMES, TRUTHS, word
from torchstone.config.positions import KeyPath
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES, Scalar


def present_settings(path: Path) -> dict[str, Scalar]:
    """Return what a configuration says of the axes, as far as it can be told for certain: a key of a known name, once.

    Raises UsageError, with file, line and column where there is one, for a file that cannot be read or replaced.
    """
    keys = dict(keys_of(read_writable(path).data))
    found = {setting: _told(setting, names, keys) for setting, names in NAMES.items()}
    return {setting: value for setting, value in found.items() if value is not None}


def _told(setting: str, names: tuple[str, ...], keys: Mapping[KeyPath, Any]) -> Scalar:
    values = [value for path, value in keys.items() if word(path[-1]) in names]
    if len(values) != 1 or isinstance(values[0], list | dict) or values[0] is None:
        return None
    try:
        return AXES[setting].parse(_in_our_words(setting, values[0]))
    except UsageError:  # said in words of another library: what it means is not known for certain
        return None


def _in_our_words(setting: str, value: Any) -> Any:
    text = str(value).lower()
    if setting == "precision":
        switched = {**dict.fromkeys(TRUTHS, "bf16"), **dict.fromkeys(TRUTHS.values(), "fp32"), "no": "fp32"}
        lightning = {"32": "fp32", "32-true": "fp32", "16": "fp16", "16-mixed": "fp16", "bf16-mixed": "bf16"}
        return {**switched, **lightning}.get(text, text)
    if setting == "compile":
        return "default" if text in TRUTHS else "off" if text in TRUTHS.values() else text
    return value
