"""Tuned settings, written into the user's own YAML, JSON or TOML file: only the characters of their values change.

Values are replaced where they stand; no library writes the file anew. What comes out is read again, and must mean
what the file meant, but for the settings.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from torchstone.config.run_file import read_request
from torchstone.config.source import (
    FORMATS,
    MOST_BYTES,
    ConfigFile,
    KeyPath,
    KeySpan,
    Layout,
    decode_text,
    key_text,
    parse_with_layout,
    positions_of,
    read_file,
)
from torchstone.core.errors import TorchstoneError, UsageError, unknown
from torchstone.core.own_files import flush_folder
from torchstone.core.schema.axis import AXES, DATALOADER_AXES, AxisStage, Scalar, axes_of

# How training configurations call each setting, and how they write its values.
#
# The names are those of torch's DataLoader, Hugging Face's TrainingArguments, Lightning's Trainer, accelerate, timm,
# and of scripts people write themselves.

NAMES: Mapping[str, tuple[str, ...]] = {
    "batch_size": (
        "batch_size",
        "per_device_train_batch_size",
        "per_gpu_train_batch_size",
        "train_batch_size",
        "micro_batch_size",
        "train_micro_batch_size_per_gpu",
        "batch",
    ),
    "num_workers": ("num_workers", "dataloader_num_workers", "num_dataloader_workers", "workers", "n_workers"),
    "pin_memory": ("pin_memory", "dataloader_pin_memory", "pin_mem"),
    "prefetch_factor": ("prefetch_factor", "dataloader_prefetch_factor"),
    "precision": ("precision", "mixed_precision", "use_mixed_precision", "use_amp", "amp"),
    "compile": ("compile", "torch_compile", "use_compile", "compile_model"),
    "grad_accumulation": (
        "gradient_accumulation_steps",
        "grad_accumulation",
        "accumulate_grad_batches",
        "gradient_accumulation",
        "grad_accumulation_steps",
        "grad_accum_steps",
        "accumulation_steps",
        "grad_accum",
        "accum_iter",
    ),
    "learning_rate": ("learning_rate", "lr"),
    "gradient_checkpointing": ("gradient_checkpointing", "activation_checkpointing", "grad_checkpointing"),
    "grad_clip": ("grad_clip", "max_grad_norm", "gradient_clip_val", "clip_grad_norm"),
    "optimizer": ("optimizer", "optim"),
    "sequence_length": ("sequence_length", "max_seq_length", "seq_length", "seq_len"),
    "image_size": ("image_size", "img_size"),
    "lora": ("lora_r", "lora_rank", "lora"),
}
_HUGGING_FACE = {
    "batch_size": "per_device_train_batch_size",
    "num_workers": "dataloader_num_workers",
    "pin_memory": "dataloader_pin_memory",
    "prefetch_factor": "dataloader_prefetch_factor",
    "compile": "torch_compile",
}
_FLAGS = ("bf16", "fp16")  # of TrainingArguments: one key a format
_TF32 = ("tf32", "allow_tf32")
_MODES = ("torch_compile_mode", "compile_mode")
_OURS_ALONE = axes_of(AxisStage.MEASUREMENT)  # no training configuration says it
# What a script does that is not told: torch's own defaults. A setting without one must stand in the file.
_TORCH_DEFAULTS: Mapping[str, Scalar] = {
    "num_workers": 0,
    "pin_memory": False,
    "prefetch_factor": 2,
    "precision": "fp32",
    "compile": "off",
    "grad_accumulation": 1,
    "gradient_checkpointing": False,
    "grad_clip": 0.0,
    "channels_last": False,
    "fused": "auto",
    "sdpa": "auto",
    "threads": 0,
    "lora": 0,
}
TRUTHS = {"true": "false", "yes": "no", "on": "off", "1": "0"}
_LIGHTNING = {"fp32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
_ACCELERATE = {"fp32": "no", "bf16": "bf16", "fp16": "fp16"}


class KeyPart(msgspec.Struct, frozen=True):
    """One key that a setting needs: what it may be called (best first), its value, and whether it may be absent."""

    setting: str
    names: tuple[str, ...]
    value: Scalar
    optional: bool


class Unfit(Exception):
    """A value that stands where a setting belongs, and is of another kind; the text says of which."""


def _fold(key: object) -> str:
    """Return a key as the tables have it: BATCH-SIZE and batch_size are one."""
    return str(key).strip().lower().replace("-", "_")


def _key_parts(settings: Mapping[str, Scalar], values: Sequence[tuple[str, Any]]) -> list[KeyPart]:
    """Return the keys that a foreign configuration needs for these settings. `values`: (key as `word`, value) in it."""
    there = {key for key, _ in values}
    hugging = bool(there & (set(_HUGGING_FACE.values()) | set(_FLAGS)))
    found: list[KeyPart] = []
    for setting, chosen in settings.items():
        # A switch of ours that is true or false everywhere else.
        value = {"on": True, "off": False}.get(str(chosen), chosen) if setting == "channels_last" else chosen
        if setting in _OURS_ALONE or (setting == "prefetch_factor" and settings.get("num_workers") == 0):
            continue  # torch refuses a prefetch_factor without workers
        names = NAMES.get(setting, (setting,))
        if hugging and setting in _HUGGING_FACE:
            names = (_HUGGING_FACE[setting], *(name for name in names if name != _HUGGING_FACE[setting]))
        untold = True if hugging and setting == "pin_memory" else _TORCH_DEFAULTS.get(setting)
        whole = KeyPart(setting, names, value, optional=setting in _TORCH_DEFAULTS and value == untold)
        if setting == "precision":
            found += _precision(whole, values, hugging=hugging)
        elif setting == "compile":
            found += _compile(whole, values)
        else:
            found.append(whole)
    return found


def _precision(whole: KeyPart, values: Sequence[tuple[str, Any]], *, hugging: bool) -> list[KeyPart]:
    wanted, there = str(whole.value), dict(values)
    if hugging and not there.keys() & set(whole.names):
        found = [KeyPart("precision", (flag,), wanted == flag, optional=wanted != flag) for flag in _FLAGS]
    else:  # where both kinds stand in one file, it is ambiguous which one counts
        found = [msgspec.structs.replace(whole, names=(*whole.names, *_FLAGS) if hugging else whole.names)]
    told = any(there.get(name) in (AXES["precision"].values or ()) for name in whole.names)
    if wanted in ("fp32", "tf32") and not told:  # whether fp32 products may use TF32 is a switch of its own
        found.append(KeyPart("precision", _TF32, wanted == "tf32", optional=wanted == "fp32"))
    return found


def _compile(whole: KeyPart, values: Sequence[tuple[str, Any]]) -> list[KeyPart]:
    switches = any(key in whole.names and not isinstance(value, str) for key, value in values)
    if whole.value in ("off", "default") or not switches:
        return [whole]
    return [whole, KeyPart("compile", _MODES, whole.value, optional=False)]


def _fit(part: KeyPart, key: str, old: Scalar | list[Any] | dict[str, Any]) -> Scalar:
    """Return the part's value in the way in which `old`, the value of `key`, is written. Raises Unfit."""
    if isinstance(old, list | dict):
        raise Unfit("is a list" if isinstance(old, list) else "is a mapping")
    if part.setting == "precision" and isinstance(part.value, str):
        text = str(old).lower()
        if key == "mixed_precision" and text in ("no", "fp16", "bf16"):
            if part.value not in _ACCELERATE:
                raise Unfit(f"does not support {part.value}")
            return _ACCELERATE[part.value]
        if text in (AXES["precision"].values or ()) or (old is None and key == "precision"):
            return part.value
        if text in ("16", "32", "64") or text.endswith(("-mixed", "-true")):
            told = _LIGHTNING[part.value]
            same = text in (told, told.partition("-")[0])
            return old if same else told
        return _as_truth(part.value in ("bf16", "fp16"), old)
    if part.setting == "compile" and part.names != _MODES and not _is_own(part, old):
        return _as_truth(part.value != "off", old)
    if isinstance(part.value, bool):
        return _as_truth(part.value, old)
    if isinstance(part.value, int | float):
        if part.setting == "lora" and not part.value and key != "lora":
            raise Unfit("is a rank, and without adapters there is none: take them out of the script")
        return _as_number(part.value, old)
    if old is not None and not isinstance(old, str):
        raise Unfit(f"is {old!r}, not a word")
    return old if str(old).lower() == str(part.value).lower() else part.value


def _is_own(part: KeyPart, old: Scalar) -> bool:
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


_OF_THE_MODEL = axes_of(AxisStage.ITEM)  # a model may have defaults of its own for these


class SettingPlaces(msgspec.Struct):
    """Where settings go. `changes`: a key's path and its new value; `missing`: mapping, name, value."""

    changes: list[tuple[KeyPath, Scalar]] = []
    missing: list[tuple[KeyPath, str, Scalar]] = []
    problems: list[str] = []
    workload: int | None = None  # of a run file: which of its workloads


def _keys_of(data: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each key with a value that is no mapping, by its path; what is inside lists, too."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        here = (*path, str(key) if isinstance(data, dict) else key)
        if isinstance(data, dict) and not (isinstance(value, dict) and value):
            yield here, value
        if isinstance(value, dict | list):
            yield from _keys_of(value, here)


def _place_settings(
    path: Path, data: Mapping[Any, Any], settings: Mapping[str, Scalar], task: str | None
) -> SettingPlaces:
    """Return where the settings belong in a file that was read. `task`: of which workload, where there are several."""
    keys = dict(_keys_of(data))
    settings = {name: value for name, value in settings.items() if value is not None}
    if "training" in data:  # a training script's own, though torchstone reads it too (config/legacy_keys.py)
        return _in_any_file(keys, settings)
    try:
        request = read_request(read_file(path))
    except UsageError:  # not one of torchstone's own
        return _in_any_file(keys, settings)
    listed = "workloads" in data
    found = SettingPlaces()
    tasks = [workload.task for workload in request.workloads]
    chosen = [i for i, of in enumerate(tasks) if of == (task or "train")] if listed and len(tasks) > 1 else [0]
    if len(chosen) != 1:
        found.problems.append(f"it has {len(tasks)} workloads ({', '.join(tasks)}); which one to change is not clear")
        return found
    found.workload = chosen[0]
    axes: KeyPath = ("workloads", chosen[0], "axes") if listed else ("axes",)
    axes_there = request.workloads[chosen[0]].axes
    for setting, value in settings.items():
        there, now = (*axes, setting), axes_there.get(setting)
        if now == (value,) or (now is None and value == AXES[setting].default and setting not in _OF_THE_MODEL):
            continue
        if there not in keys:
            found.missing.append((axes, setting, value))
        elif isinstance(keys[there], list):
            found.changes.append((there, value))
        else:
            _change(found, there, keys[there], KeyPart(setting, (setting,), value, optional=False))
    return found


def _in_any_file(keys: Mapping[KeyPath, Any], settings: Mapping[str, Scalar]) -> SettingPlaces:
    found = SettingPlaces()
    parts = _key_parts(settings, [(_fold(path[-1]), value) for path, value in keys.items()])
    homes: dict[bool, KeyPath] = {}
    missing: list[KeyPart] = []
    for part in parts:
        there = [path for path in keys if _fold(path[-1]) in part.names]
        if len(there) == 1:
            homes[part.setting in DATALOADER_AXES] = there[0][:-1]
            _change(found, there[0], keys[there[0]], part)
        elif there and any(not _says(part, path, keys[path]) for path in there):
            places = ", ".join(f"{key_text(path)} = {str(keys[path])[:40]}" for path in there)
            found.problems.append(f"{part.setting} is in several places ({places})")
        elif not there and not part.optional:
            missing.append(part)
    for part in missing:
        # People write a loader's settings side by side: what is missing is shown beside one of its group.
        group = part.setting in DATALOADER_AXES
        home = homes.get(group, homes.get(not group, ()))
        found.missing.append((home, part.names[0], part.value))
        found.problems.append(f"no key for {part.setting} ({', '.join(part.names[:3])})")
    return found


def _says(part: KeyPart, path: KeyPath, old: Any) -> bool:
    try:
        return bool(_fit(part, _fold(path[-1]), old) == old)
    except Unfit:
        return False


def _change(found: SettingPlaces, path: KeyPath, old: Any, part: KeyPart) -> None:
    try:
        new = _fit(part, _fold(path[-1]), old)
    except Unfit as fault:
        found.problems.append(f"{key_text(path)} {fault}")
        return
    if new != old:
        found.changes.append((path, new))


_MOST_BACKUPS = 1000
_BOM = b"\xef\xbb\xbf"


class Configuration(msgspec.Struct, frozen=True):
    """A configuration file as it was read. `text` is without its byte order mark, its line ends as they are."""

    path: Path
    raw: bytes
    text: str
    data: Mapping[Any, Any]
    layout: Layout

    @property
    def suffix(self) -> str:
        """Return the kind of file: .yaml, .yml, .json, .toml."""
        return self.path.suffix.lower()

    def encoded(self, text: str) -> bytes:
        """Return a changed text as the bytes of the file."""
        return (_BOM if self.raw.startswith(_BOM) else b"") + text.encode("utf-8")


def _read_writable(path: Path) -> Configuration:
    """Read a file that is to be changed. Raises UsageError, one line, for one that cannot be read or replaced."""
    if path.suffix.lower() not in FORMATS:
        raise unknown("kind of file", path.suffix or path.name, FORMATS)
    try:
        _check_writable(path)
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}") from None
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES} bytes: too large for a configuration")
    text = decode_text(raw, path)
    data, layout = parse_with_layout(text, path)
    if not isinstance(data, dict):
        raise UsageError(f"{path}:1:1: must contain a mapping of names to values")
    return Configuration(path, raw, text, data, layout)


def _check_writable(path: Path) -> None:
    if path.is_symlink():
        raise UsageError(f"{path} is a symbolic link: name the file itself, {path.resolve()}")
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise UsageError(f"{path} is {'a folder' if stat.S_ISDIR(facts.st_mode) else 'not a file'}: name a file")
    # Root may write anything, so the bits are asked, too: who took them away did not want the file changed.
    if not facts.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise UsageError(f"{path} is read-only: chmod u+w it, or apply to a copy")
    if os.geteuid() not in (0, facts.st_uid):
        raise UsageError(f"{path} belongs to another user and cannot be replaced: apply to a copy")
    folder = path.parent
    if not folder.stat().st_mode & 0o222:
        raise UsageError(f"{folder} is read-only: the backup goes there; apply to a copy elsewhere")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        raise UsageError(f"{folder} cannot be written ({fault.strerror}): apply to a copy elsewhere") from None


def _back_up(path: Path, before: bytes) -> Path:
    for number in range(_MOST_BACKUPS):
        backup = path.with_name(f"{path.name}.bak{f'.{number}' if number else ''}")
        try:
            with backup.open("xb") as file:
                _write(file, before)
        except FileExistsError:
            continue
        except OSError:
            backup.unlink(missing_ok=True)
            raise
        shutil.copystat(path, backup)
        return backup
    raise UsageError(f"{path}.bak and {_MOST_BACKUPS - 1} more backups exist already: remove some; nothing written")


def _write(file: Any, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


YAML = (".yaml", ".yml")
Edit = tuple[int, int, str]  # from, to, what stands there instead
_PLAIN = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_TRUTHS = {"true", "false", "yes", "no", "on", "off"}
_RESERVED = {*_TRUTHS, "null", "y", "n"}  # no words in one version of YAML or another
_BEFORE_COMMA = re.compile(r"(?:\s|#[^\n]*\n)*,")


def _edit(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits made; those at one place in their order."""
    result, done = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        result += [text[done:start], new]
        done = max(done, end)
    return "".join((*result, text[done:]))


def _spell(value: Scalar, suffix: str, old: str = "") -> str:
    """Return a value as the format writes it, in the quotes or capitals of the text it replaces."""
    quote = old[:1] if old[:1] in ("'", '"') else ""
    if isinstance(value, bool) or (suffix in YAML and old.lower() in _TRUTHS and str(value) in _TRUTHS):
        text = str(value).lower()
        return quote + (text.upper() if old.isupper() else text.title() if old.istitle() else text) + quote
    if isinstance(value, float):
        # With a dot even before an exponent: PyYAML takes 5e-05 for a word.
        mantissa, e, exponent = repr(value).partition("e")
        return f"{quote}{mantissa}{'.0' if e and '.' not in mantissa else ''}{e}{exponent}{quote}"
    if isinstance(value, int) or quote:
        return f"{quote}{value}{quote}"
    plain = suffix in YAML and _PLAIN.fullmatch(str(value)) and str(value).lower() not in _RESERVED
    return str(value) if plain else json.dumps(str(value))


def _replace_value(text: str, place: KeySpan, value: Scalar, suffix: str) -> tuple[list[Edit], Scalar | list[Scalar]]:
    """Return the edits that put `value` in a place, and what then is there: a list with comments stays a list."""
    if place.kind == "scalar":
        new = _spell(value, suffix, text[place.start : place.end])
        apart = " " if place.start == place.end and not text[place.start - 1].isspace() else ""
        return [(place.start, place.end, apart + new)], value
    new = _spell(value, suffix)
    begin = place.start
    if text[begin] != "[":  # a block of YAML: all behind the colon goes
        begin = text.index(":", place.key_end) + 1
        new = f" {new}"
    if place.items and "#" in text[begin : place.end]:
        return list(_emptied(text, place, new.strip())), [value]
    return [(begin, place.end, new)], value


def _emptied(text: str, place: KeySpan, new: str) -> Iterator[Edit]:
    """Put the value in the place of a list's first item and take the others out, but no comment."""
    yield (*place.items[0], new)
    behind = place.items[0][1]
    for start, end in place.items[1:]:
        if text[place.start] == "[":
            comma = _BEFORE_COMMA.match(text, behind)
            if comma is not None:
                yield comma.end() - 1, comma.end(), ""
            yield start, end, ""
        else:
            dash = text.rfind("-", behind, start)
            begin, close = text.rfind("\n", 0, dash) + 1, text.find("\n", end) + 1 or len(text)
            alone = not text[begin:dash].strip() and not text[end:close].strip()
            rest = end + len(text[end:close]) - len(text[end:close].lstrip(" "))  # up to the comment behind it
            yield (begin, close, "") if alone else (dash, rest, "")
        behind = end


def _add_pairs(text: str, layout: Layout, mapping: KeyPath, pairs: Mapping[str, str], suffix: str) -> Iterator[Edit]:
    """Yield the edits that add keys with values (both as the format writes them) to a mapping that has some already."""
    children = [place for path, place in layout.items() if path and path[:-1] == mapping]
    beside = [place for place in children if _ends_where_its_text_does(text, place)]
    if mapping in layout and layout[mapping].kind == "table":
        beside.append(layout[mapping])  # the header
    within = [place for path, place in layout.items() if path[: len(mapping)] == mapping and path != mapping]
    for name, value in pairs.items():
        if beside:
            at, new = _after(text, max(beside, key=lambda place: place.end), name, value, suffix)
        else:
            at, new = _before(text, min(within, key=lambda place: place.key_start), name, value, suffix)
        yield at, at, new


def _inline(pairs: Mapping[str, str], suffix: str) -> str:
    """Return a mapping on one line."""
    colon = " = " if suffix == ".toml" else ": "
    quote = '"' if suffix == ".json" else ""
    return "{" + ", ".join(f"{quote}{name}{quote}{colon}{value}" for name, value in pairs.items()) + "}"


def _ends_where_its_text_does(text: str, place: KeySpan) -> bool:
    """Tell whether another key can follow: behind a block of YAML its comments may."""
    return place.kind in ("scalar", "list") or (place.kind == "mapping" and text[place.start] == "{")


def _after(text: str, place: KeySpan, name: str, value: str, suffix: str) -> tuple[int, str]:
    """Return where a key is added behind another, and the text of it."""
    key = _key(text, place, name)
    if place.braced or suffix == ".json":
        before = text[: place.key_start]
        blank = before[len(before.rstrip()) :]
        space = blank if "\n" in blank else " "  # a line of its own, or the same line
        between = text[place.key_end : place.start]
        colon = between if between.strip() in (":", "=") and "\n" not in between else ": "
        return place.end, f",{space}{key}{colon}{value}"
    begin, line_end = text.rfind("\n", 0, place.key_start) + 1, text.find("\n", place.end)
    line_end = len(text) if line_end < 0 else line_end - text[:line_end].endswith("\r")
    newline = _newline(text)
    if suffix == ".toml":
        whole = text[place.key_start : place.key_end]
        dotted = whole[: whole.rfind(".") + 1] if place.kind != "table" else ""
        return line_end, f"{newline}{text[begin : place.key_start]}{dotted}{name} = {value}"
    return line_end, f"{newline}{' ' * (place.key_start - begin)}{key}: {value}"


def _before(text: str, place: KeySpan, name: str, value: str, suffix: str) -> tuple[int, str]:
    """Return where a key is added in front of another, and the text of it."""
    if place.braced or suffix == ".json":
        return place.key_start, f"{_key(text, place, name)}: {value}, "
    if suffix == ".toml":
        return place.key_start, f"{name} = {value}{_newline(text)}"
    indent = " " * (place.key_start - text.rfind("\n", 0, place.key_start) - 1)
    return place.key_start, f"{_key(text, place, name)}: {value}{_newline(text)}{indent}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _key(text: str, beside: KeySpan, name: str) -> str:
    """Return a key in the quotes of the one beside it."""
    quote = text[beside.key_start : beside.key_start + 1]
    return f"{quote}{name}{quote}" if quote in ("'", '"') else name


def present_settings(path: Path) -> dict[str, Scalar]:
    """Return what a configuration says of the axes, as far as it can be told for certain: a key of a known name, once.

    Raises UsageError, with file, line and column where there is one, for a file that cannot be read or replaced.
    """
    keys = dict(_keys_of(_read_writable(path).data))
    found = {setting: _present_value(setting, names, keys) for setting, names in NAMES.items()}
    return {setting: value for setting, value in found.items() if value is not None}


def _present_value(setting: str, names: tuple[str, ...], keys: Mapping[KeyPath, Any]) -> Scalar:
    values = [value for path, value in keys.items() if _fold(path[-1]) in names]
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


Leaves = dict[KeyPath, Any]


class Changes(msgspec.Struct, frozen=True):
    """What is to be written: the file as it was read, as it will be, and why it cannot be written, if so.

    With `problems`, `after` is what would be needed, as far as that can be told.
    """

    path: Path
    before: bytes
    after: bytes
    problems: tuple[str, ...] = ()


def check_target(path: Path) -> None:
    """Check that a file can be read, understood and replaced. Raises UsageError saying, in one line, why it cannot."""
    _read_writable(path)


def plan_changes(path: Path, settings: Mapping[str, Scalar], task: str | None = None) -> Changes:
    """Return what must change in a file for it to say these settings (axis → value). Nothing is written.

    A run file of torchstone gets them as axes of its workload: its only one, or the one of that task ("train"). In any
    other file a setting goes to the one key that has a known name for it (batch_size, per_device_train_batch_size, …),
    wherever it stands, in the form its value has there: `use_amp: true` for bf16. Settings that have no key, or
    several, are problems; one that has what goes without saying (no accumulation) needs none.

    Raises UsageError, with file, line and column where there is one, for a file that cannot be read or replaced.
    """
    file = _read_writable(path)
    found = _place_settings(path, file.data, settings, task)
    layout = file.layout
    problems = list(found.problems)
    edits: list[Edit] = []
    expected = _leaves(file.data)
    for key, value in found.changes:
        if key not in layout or layout[key].kind not in ("scalar", "list"):
            problems.append(f"{key_text(key)} comes from an anchor elsewhere in the file, or is a folded text")
            continue
        own, new = _replace_value(file.text, layout[key], value, file.suffix)
        edits += own
        expected = _set(expected, key, new)
    text = _edit(file.text, edits)
    for mapping, name, value in found.missing:
        expected = _set(expected, (*mapping, name), value)
    try:
        if found.missing:
            text = _edit(text, _additions(file, text, parse_with_layout(text, path)[1], found))
        data, layout = parse_with_layout(text, path)
    except UsageError as fault:
        problems.append(f"it cannot be changed in place ({fault})")
    else:
        problems += _surprises(data, expected)
        if found.workload is not None:
            after = ConfigFile(str(path), data, positions_of(text, layout))
            problems += _unmeant(after, found.workload, settings)
    return Changes(path, file.raw, file.encoded(text), tuple(problems))


def write(changes: Changes) -> Path | None:
    """Write the changes and return the path of the backup beside the file; None where nothing changes.

    Raises UsageError in one line, with nothing written, if there are problems, or if the file is no longer what it was.
    """
    if changes.problems:
        raise UsageError(f"{changes.path}: nothing written: {'; '.join(changes.problems)}")
    if changes.before == changes.after:
        return None
    # Replace a file, keep what it held beside it, and return the backup's path.
    try:
        _check_writable(changes.path)
        if changes.path.read_bytes() != changes.before:
            raise UsageError(f"{changes.path} was changed meanwhile: nothing written; try again")
        facts = changes.path.stat()
        descriptor, name = tempfile.mkstemp(dir=changes.path.parent, prefix=f".{changes.path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.chown(name, facts.st_uid, facts.st_gid)
                _write(file, changes.after)
            shutil.copymode(changes.path, name)
            backup = _back_up(changes.path, changes.before)
            Path(name).replace(changes.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        flush_folder(changes.path.parent)
    except OSError as fault:
        raise TorchstoneError(f"{changes.path} not changed: {fault.strerror}") from None
    return backup


def diff_text(changes: Changes) -> str:
    """Return the changes as a unified diff; empty where there are none."""
    before, after = (raw.decode("utf-8-sig").splitlines() for raw in (changes.before, changes.after))
    name = str(changes.path)
    lines = difflib.unified_diff(before, after, name, f"{name} (tuned)", lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _additions(file: Configuration, text: str, layout: Layout, found: SettingPlaces) -> Iterator[Edit]:
    """Yield the edits that add what is missing, each mapping's keys together."""
    mappings: dict[KeyPath, dict[str, str]] = {}
    for mapping, name, value in found.missing:
        mappings.setdefault(mapping, {})[name] = _spell(value, file.suffix)
    for mapping, pairs in mappings.items():
        if any(key[: len(mapping)] == mapping and key != mapping for key in layout):
            yield from _add_pairs(text, layout, mapping, pairs, file.suffix)
        elif mapping in layout and layout[mapping].kind != "table":  # there, but empty
            place = layout[mapping]
            apart = " " if place.start == place.end else ""
            yield place.start, place.end, apart + _inline(pairs, file.suffix)
        elif mapping in layout:
            yield from _add_pairs(text, layout, mapping, pairs, file.suffix)
        else:
            whole = {str(mapping[-1]): _inline(pairs, file.suffix)}
            yield from _add_pairs(text, layout, mapping[:-1], whole, file.suffix)


def _leaves(data: Any, path: KeyPath = ()) -> Leaves:
    """Return every scalar and every empty mapping or list, by its path."""
    if not isinstance(data, dict | list) or not data:
        return {path: data}
    items = ((str(key), value) for key, value in data.items()) if isinstance(data, dict) else enumerate(data)
    return {key: leaf for step, value in items for key, leaf in _leaves(value, (*path, step)).items()}


def _set(leaves: Leaves, path: KeyPath, value: Any) -> Leaves:
    """Return the leaves with another value at a path, in place of all that was there (or of an empty mapping above)."""
    kept = {key: leaf for key, leaf in leaves.items() if key[: len(path)] != path and path[: len(key)] != key}
    return {**kept, **_leaves(value, path)}


def _surprises(after: Any, expected: Leaves) -> Iterator[str]:
    """Yield what the changed file means besides what was asked: a value that others refer to, say."""
    found = _leaves(after)
    # By type and spelling: 1 is not true, 1.0 is not 1, and NaN is itself.
    wrong = [
        key
        for key in dict.fromkeys((*found, *expected))
        if key not in found or key not in expected or repr(found[key]) != repr(expected[key])
    ]
    if wrong:
        yield f"{', '.join(map(key_text, wrong))} would change as well"


def _unmeant(after: ConfigFile, workload: int, settings: Mapping[str, Scalar]) -> Iterator[str]:
    """Yield the settings that torchstone itself would not read from the changed run file."""
    axes = read_request(after).workloads[workload].axes
    for setting, value in settings.items():
        found = axes.get(setting, (AXES[setting].default,))
        if value is not None and found != (value,):
            yield f"{setting} would still be {', '.join(map(str, found))}"
