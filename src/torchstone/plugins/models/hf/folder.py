"""A folder with a model in transformers' layout, checked without torch: what is there, and whether it may be opened."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.plugins.models import _weights_file
from torchstone.plugins.models.hf.families import ARCHITECTURES, FRAMES_PER_S, Architecture

WEIGHTS = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
)  # fmt: skip
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")
_LARGEST_CONFIG_BYTES = 1 << 20
_LARGEST_INDEX_BYTES = 1 << 24
_PARTS = ("text_config", "vision_config")  # of the config of a model of images and texts
_SIZES = (
    "vocab_size", "max_position_embeddings", "n_positions", "hidden_size", "dim", "n_embd", "num_hidden_layers",
    "n_layers", "n_layer", "num_attention_heads", "n_heads", "n_head", "intermediate_size", "hidden_dim", "ffn_dim",
    "image_size", "patch_size", "num_channels", "num_labels", "embedding_size", "hidden_sizes", "depths", "conv_dim",
    "conv_kernel", "conv_stride", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups", "classifier_proj_size",
    "d_model", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "max_source_positions", "num_mel_bins",
    "projection_dim",
)  # fmt: skip
_LARGEST_SIZE = 10_000_000  # no table of any model has so many rows; a config that says so is broken or hostile


class Folder(msgspec.Struct, frozen=True):
    """What is in the folder. `weights` are the files to open, in transformers' order of preference; empty if none."""

    path: Path
    config: Mapping[str, Any]
    architecture: Architecture
    config_sha256: str
    weights: tuple[Path, ...]
    has_tokenizer: bool

    def number(self, *names: str) -> int | None:
        """Return the first of these entries of config.json, or of its parts, that is there."""
        found = (part.get(name) for _, part in _parts(self.config) for name in names)
        return next((value for value in found if type(value) is int), None)

    @property
    def classes(self) -> int | None:
        """How many classes the head has: two where config.json does not say, None for a model without such a head."""
        if self.architecture.causal or self.architecture.kind == "image_text":
            return None
        labels = self.config.get("id2label")
        return len(labels) if isinstance(labels, dict) and labels else self.number("num_labels") or 2

    @property
    def longest(self) -> int | None:
        """How many positions a sequence may have, in tokens; None where config.json does not say."""
        if self.architecture.kind not in ("text", "image_text"):
            return None
        rows = self.number("max_position_embeddings", "n_positions")
        return rows - self.architecture.reserved if rows is not None else self.architecture.longest

    @property
    def window_s(self) -> float | None:
        """The length of sound that the model takes, always; None where it takes any."""
        positions = self.number("max_source_positions")
        return positions / FRAMES_PER_S if positions is not None and self.architecture.kind == "audio" else None

    @property
    def files_sha256(self) -> str:
        """SHA-256 of the names and sizes of the weights' files: cheap, and other weights seldom have both."""
        told = "\n".join(f"{file.name} {file.stat().st_size}" for file in self.weights)
        return hashlib.sha256(told.encode()).hexdigest()


def open_folder(name: str, *, weights_needed: bool) -> Folder:
    """Check a folder and return what is in it. Raises UsageError naming the folder and the files looked for."""
    path = Path(name).expanduser()
    if not path.is_dir():
        raise UsageError(f"hf:{name}: there is no folder {path}; looked for config.json and {_either()} in it")
    file = path / "config.json"
    data = _read(file, _LARGEST_CONFIG_BYTES, f"hf:{name}: no config.json in {path} (also needed: {_either()})")
    config = _parsed(data, file)
    for prefix, part in _parts(config):
        for key in _SIZES:
            value = part.get(key)
            for number in value if isinstance(value, list) else [value]:
                _check_size(file, f"{prefix}{key}", number)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise UsageError(f"{file}: model_type is {str(kind)[:40]!r}; known: {', '.join(sorted(ARCHITECTURES))}")
    weights = _weights(path)
    if weights_needed and not weights:
        raise UsageError(f"hf:{name}: no weights in {path}; looked for {_either()}. Without them: weights=random")
    for one in weights if weights_needed else ():
        if one.suffix == ".safetensors":
            _weights_file.refuse_torn(one)
    has_tokenizer = any((path / file).is_file() for file in TOKENIZERS)
    return Folder(path, config, ARCHITECTURES[kind], hashlib.sha256(data).hexdigest(), weights, has_tokenizer)


def _parts(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "", config
    yield from ((f"{name}.", config[name]) for name in _PARTS if isinstance(config.get(name), dict))


def _check_size(file: Path, key: str, value: Any) -> None:
    if value is not None and (type(value) is not int or not 1 <= value <= _LARGEST_SIZE):
        raise UsageError(f"{file}: {key} is {str(value)[:40]!r}, not a whole number from 1 to {_LARGEST_SIZE}")


def _either() -> str:
    return "one of " + ", ".join(WEIGHTS)


def _read(file: Path, most: int, absent: str) -> bytes:
    if not file.is_file():
        raise UsageError(absent)
    try:
        with file.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise UsageError(f"{file}: larger than {most} bytes; this is not the file that transformers writes")
    return data


def _parsed(data: bytes, file: Path) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not valid JSON: {str(error)[:100]}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{file}: not a JSON object")
    return found


def _weights(path: Path) -> tuple[Path, ...]:
    for name in WEIGHTS:
        file = path / name
        if not file.is_file():
            continue
        if not name.endswith(".index.json"):
            return (file,)
        table = _parsed(_read(file, _LARGEST_INDEX_BYTES, f"{file}: gone"), file).get("weight_map")
        shards = sorted({str(s) for s in table.values()}) if isinstance(table, dict) else []
        wrong = [s for s in shards if Path(s).name != s or not (path / s).is_file()]
        if wrong or not shards:
            raise UsageError(f"{file}: names {wrong[0][:80] if wrong else 'no file'}, which is not in {path}")
        return tuple(path / s for s in shards)
    return ()
