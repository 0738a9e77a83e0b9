"""Which transformers models `hf:` knows by name, and which model types it takes from a folder. No torch here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.models import _weights_file

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model")
_LARGEST_CONFIG_BYTES = 1 << 20
_LARGEST_INDEX_BYTES = 1 << 24
_PARTS = ("text_config", "vision_config")  # of the config of a model of images and texts
_SIZES = (
    *("vocab_size", "max_position_embeddings", "n_positions", "hidden_size", "dim", "n_embd", "num_hidden_layers"),
    *("n_layers", "n_layer", "num_attention_heads", "n_heads", "n_head", "intermediate_size", "hidden_dim", "ffn_dim"),
    *("image_size", "patch_size", "num_channels", "num_labels", "embedding_size", "hidden_sizes", "depths", "conv_dim"),
    *("conv_kernel", "conv_stride", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups", "classifier_proj_size"),
    *(
        "d_model",
        "encoder_layers",
        "encoder_attention_heads",
        "encoder_ffn_dim",
        "max_source_positions",
        "num_mel_bins",
    ),
    *("projection_dim"),
)
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


class Architecture(msgspec.Struct, frozen=True):
    """What follows from a config's `model_type`: the family, its inputs, and which head it gets.

    `reserved`: how many rows of the position table are no positions (RoBERTa starts counting after its padding id).
    `longest`: positions of a text, where a config in two parts leaves out what is usual.
    `attention`: whether it has any, for which there are kernels to choose from.
    """

    family: str
    kind: str = "text"
    causal: bool = False
    reserved: int = 0
    longest: int | None = None
    attention: bool = True


class PublishedModel(msgspec.Struct, frozen=True):
    """A model by name. `settings` are what its config says beyond its class's defaults, `body` its published size.

    `body` counts the parameters without the task's head, as the head's class builds it (ViT and RoBERTa: no pooler;
    Whisper: the encoder). `window_s`: the length of sound that it takes, always.
    """

    hub: str | None
    model_type: str
    body: int
    settings: Mapping[str, Any] = {}
    vocabulary: int | None = None
    longest: int | None = None
    classes: int | None = 2
    aliases: tuple[str, ...] = ()
    window_s: float | None = None


ARCHITECTURES: Mapping[str, Architecture] = {
    "distilbert": Architecture("embedding"),
    "bert": Architecture("embedding"),
    "roberta": Architecture("embedding", reserved=2),
    "xlm-roberta": Architecture("embedding", reserved=2),
    "electra": Architecture("embedding"),
    "gpt2": Architecture("text_generation", causal=True),
    "opt": Architecture("text_generation", causal=True),
    "llama": Architecture("text_generation", causal=True),
    "mistral": Architecture("text_generation", causal=True),
    "qwen2": Architecture("text_generation", causal=True),
    "vit": Architecture("vision", kind="image"),
    "deit": Architecture("vision", kind="image"),
    "resnet": Architecture("vision", kind="image", attention=False),
    "wav2vec2": Architecture("audio", kind="audio"),
    "whisper": Architecture("audio", kind="audio"),
    "clip": Architecture("multimodal", kind="image_text", longest=77),
}
ITEMS: Mapping[str, str] = {"text": "sequence", "image": "image", "audio": "clip", "image_text": "pair"}
FRAMES_PER_S = 50  # of Whisper's encoder: a position every 20 ms

_ROBERTA: Mapping[str, Any] = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
_MINILM: Mapping[str, Any] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
# No layer is skipped at random: steps of equal work can be compared.
_WAV2VEC2: Mapping[str, Any] = {"layerdrop": 0.0}
_WHISPER_BASE: Mapping[str, Any] = {
    "d_model": 512,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 2048,
}
# Twins with the same operators and next to no work, for trying things out.
_TINY: Mapping[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
_TINY_ROBERTA: Mapping[str, Any] = {**_ROBERTA, **_TINY}
_TINY_DISTIL: Mapping[str, Any] = {"vocab_size": 1000, "dim": 64, "n_layers": 2, "n_heads": 2, "hidden_dim": 128}
_TINY_GPT: Mapping[str, Any] = {
    "vocab_size": 1000,
    "n_positions": 512,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 2,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_TINY_OPT: Mapping[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 128,
    "word_embed_proj_dim": 64,
    "max_position_embeddings": 512,
}
_TINY_VIT: Mapping[str, Any] = {k: v for k, v in _TINY.items() if k != "vocab_size"}
_TINY_RESNET: Mapping[str, Any] = {"embedding_size": 8, "hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1]}
_TINY_WAV2VEC2: Mapping[str, Any] = {
    **_WAV2VEC2,
    **_TINY_VIT,
    "conv_dim": [32] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "classifier_proj_size": 32,
}
_TINY_WHISPER: Mapping[str, Any] = {
    "d_model": 64,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 128,
    "max_source_positions": FRAMES_PER_S,
    "classifier_proj_size": 32,
}
_TINY_CLIP: Mapping[str, Any] = {
    "text_config": {**_TINY, "projection_dim": 32, "bos_token_id": 998, "eos_token_id": 999},
    "vision_config": {**_TINY_VIT, "projection_dim": 32},
    "projection_dim": 32,
}

MODELS: Mapping[str, PublishedModel] = {
    "distilbert-base-uncased": PublishedModel(
        "distilbert/distilbert-base-uncased",
        "distilbert",
        66_362_880,
        vocabulary=30522,
        longest=512,
        aliases=("distilbert",),
    ),
    "bert-base-uncased": PublishedModel(
        "google-bert/bert-base-uncased", "bert", 109_482_240, vocabulary=30522, longest=512, aliases=("bert",)
    ),
    "roberta-base": PublishedModel(
        "FacebookAI/roberta-base", "roberta", 124_055_040, _ROBERTA, vocabulary=50265, longest=512, aliases=("roberta",)
    ),
    "all-MiniLM-L6-v2": PublishedModel(
        "sentence-transformers/all-MiniLM-L6-v2",
        "bert",
        22_713_216,
        _MINILM,
        vocabulary=30522,
        longest=512,
        aliases=("minilm", "sentence-transformers/all-MiniLM-L6-v2"),
    ),
    "gpt2": PublishedModel("openai-community/gpt2", "gpt2", 124_439_808, vocabulary=50257, longest=1024, classes=None),
    "facebook/opt-125m": PublishedModel(
        "facebook/opt-125m", "opt", 125_239_296, vocabulary=50272, longest=2048, classes=None, aliases=("opt-125m",)
    ),
    "google/vit-base-patch16-224": PublishedModel(
        "google/vit-base-patch16-224", "vit", 85_798_656, classes=1000, aliases=("vit-base",)
    ),
    "microsoft/resnet-50": PublishedModel(
        "microsoft/resnet-50", "resnet", 23_508_032, classes=1000, aliases=("resnet-50",)
    ),
    "facebook/wav2vec2-base": PublishedModel(
        "facebook/wav2vec2-base", "wav2vec2", 94_371_712, _WAV2VEC2, aliases=("wav2vec2-base",)
    ),
    "openai/whisper-base": PublishedModel(
        "openai/whisper-base", "whisper", 20_590_592, _WHISPER_BASE, aliases=("whisper-base",), window_s=30.0
    ),
    "openai/whisper-tiny": PublishedModel(
        "openai/whisper-tiny", "whisper", 8_208_384, aliases=("whisper-tiny",), window_s=30.0
    ),
    "openai/clip-vit-base-patch32": PublishedModel(
        "openai/clip-vit-base-patch32",
        "clip",
        151_277_313,
        vocabulary=49408,
        longest=77,
        classes=None,
        aliases=("clip-vit-base",),
    ),
    "distilbert-tiny": PublishedModel(None, "distilbert", 163_840, _TINY_DISTIL, vocabulary=1000, longest=512),
    "bert-tiny": PublishedModel(None, "bert", 168_128, _TINY, vocabulary=1000, longest=512),
    "roberta-tiny": PublishedModel(None, "roberta", 164_032, _TINY_ROBERTA, vocabulary=1000, longest=512),
    "gpt2-tiny": PublishedModel(None, "gpt2", 196_864, _TINY_GPT, vocabulary=1000, longest=512, classes=None),
    "opt-tiny": PublishedModel(None, "opt", 163_968, _TINY_OPT, vocabulary=1000, longest=512, classes=None),
    "vit-tiny": PublishedModel(None, "vit", 128_960, _TINY_VIT, classes=10),
    "resnet-tiny": PublishedModel(None, "resnet", 33_672, _TINY_RESNET, classes=10),
    "wav2vec2-tiny": PublishedModel(None, "wav2vec2", 102_544, _TINY_WAV2VEC2),
    "whisper-tiny-twin": PublishedModel(None, "whisper", 97_920, _TINY_WHISPER, window_s=1.0),
    "clip-tiny": PublishedModel(None, "clip", 407_169, _TINY_CLIP, vocabulary=1000, longest=77, classes=None),
}

ALIASES: Mapping[str, str] = {alias: name for name, known in MODELS.items() for alias in known.aliases}


def find_model(name: str) -> tuple[str, PublishedModel] | None:
    """Return the full name and the entry of a name or alias, a file after its @ or none; None: no such model."""
    bare = name.partition("@")[0]
    full = ALIASES.get(bare, bare)
    return (full, MODELS[full]) if full in MODELS else None


def suited_axes(
    kind: str, longest: int | None, window_s: float | None = None, side: int | None = None
) -> Mapping[str, Scalar]:
    """Return the values of axes that suit a model better than everybody's: as much as it takes in at once."""
    found = {
        "sequence_length": longest if kind == "image_text" else None,
        "audio_s": window_s,
        "image_size": side if kind in ("image", "image_text") else None,
    }
    return {axis: value for axis, value in found.items() if value is not None}
