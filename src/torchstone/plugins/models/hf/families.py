"""Which transformers models `hf:` knows by name, and which model types it takes from a folder. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from torchstone.core.schema.axis import Scalar


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


class Known(msgspec.Struct, frozen=True):
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
    "d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048,
    "decoder_layers": 6, "decoder_attention_heads": 8, "decoder_ffn_dim": 2048,
}  # fmt: skip
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
    **_WAV2VEC2, **_TINY_VIT, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    "classifier_proj_size": 32,
}  # fmt: skip
_TINY_WHISPER: Mapping[str, Any] = {
    "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 128,
    "max_source_positions": FRAMES_PER_S, "classifier_proj_size": 32,
}  # fmt: skip
_TINY_CLIP: Mapping[str, Any] = {
    "text_config": {**_TINY, "projection_dim": 32, "bos_token_id": 998, "eos_token_id": 999},
    "vision_config": {**_TINY_VIT, "projection_dim": 32},
    "projection_dim": 32,
}

MODELS: Mapping[str, Known] = {
    "distilbert-base-uncased": Known(
        "distilbert/distilbert-base-uncased", "distilbert", 66_362_880,
        vocabulary=30522, longest=512, aliases=("distilbert",),
    ),
    "bert-base-uncased": Known(
        "google-bert/bert-base-uncased", "bert", 109_482_240, vocabulary=30522, longest=512, aliases=("bert",)
    ),
    "roberta-base": Known(
        "FacebookAI/roberta-base", "roberta", 124_055_040, _ROBERTA,
        vocabulary=50265, longest=512, aliases=("roberta",),
    ),
    "all-MiniLM-L6-v2": Known(
        "sentence-transformers/all-MiniLM-L6-v2", "bert", 22_713_216, _MINILM,
        vocabulary=30522, longest=512, aliases=("minilm", "sentence-transformers/all-MiniLM-L6-v2"),
    ),
    "gpt2": Known("openai-community/gpt2", "gpt2", 124_439_808, vocabulary=50257, longest=1024, classes=None),
    "facebook/opt-125m": Known(
        "facebook/opt-125m", "opt", 125_239_296, vocabulary=50272, longest=2048, classes=None, aliases=("opt-125m",)
    ),
    "google/vit-base-patch16-224": Known(
        "google/vit-base-patch16-224", "vit", 85_798_656, classes=1000, aliases=("vit-base",)
    ),
    "microsoft/resnet-50": Known(
        "microsoft/resnet-50", "resnet", 23_508_032, classes=1000, aliases=("resnet-50",)
    ),
    "facebook/wav2vec2-base": Known(
        "facebook/wav2vec2-base", "wav2vec2", 94_371_712, _WAV2VEC2, aliases=("wav2vec2-base",)
    ),
    "openai/whisper-base": Known(
        "openai/whisper-base", "whisper", 20_590_592, _WHISPER_BASE, aliases=("whisper-base",), window_s=30.0
    ),
    "openai/whisper-tiny": Known(
        "openai/whisper-tiny", "whisper", 8_208_384, aliases=("whisper-tiny",), window_s=30.0
    ),
    "openai/clip-vit-base-patch32": Known(
        "openai/clip-vit-base-patch32", "clip", 151_277_313,
        vocabulary=49408, longest=77, classes=None, aliases=("clip-vit-base",),
    ),
    "distilbert-tiny": Known(None, "distilbert", 163_840, _TINY_DISTIL, vocabulary=1000, longest=512),
    "bert-tiny": Known(None, "bert", 168_128, _TINY, vocabulary=1000, longest=512),
    "roberta-tiny": Known(None, "roberta", 164_032, _TINY_ROBERTA, vocabulary=1000, longest=512),
    "gpt2-tiny": Known(None, "gpt2", 196_864, _TINY_GPT, vocabulary=1000, longest=512, classes=None),
    "opt-tiny": Known(None, "opt", 163_968, _TINY_OPT, vocabulary=1000, longest=512, classes=None),
    "vit-tiny": Known(None, "vit", 128_960, _TINY_VIT, classes=10),
    "resnet-tiny": Known(None, "resnet", 33_672, _TINY_RESNET, classes=10),
    "wav2vec2-tiny": Known(None, "wav2vec2", 102_544, _TINY_WAV2VEC2),
    "whisper-tiny-twin": Known(None, "whisper", 97_920, _TINY_WHISPER, window_s=1.0),
    "clip-tiny": Known(None, "clip", 407_169, _TINY_CLIP, vocabulary=1000, longest=77, classes=None),
}  # fmt: skip

ALIASES: Mapping[str, str] = {alias: name for name, known in MODELS.items() for alias in known.aliases}


def find(name: str) -> tuple[str, Known] | None:
    """Return the full name and the entry of a name or alias, a file after its @ or none; None: no such model."""
    bare = name.partition("@")[0]
    full = ALIASES.get(bare, bare)
    return (full, MODELS[full]) if full in MODELS else None


def usual(
    kind: str, longest: int | None, window_s: float | None = None, side: int | None = None
) -> Mapping[str, Scalar]:
    """Return the values of axes that suit a model better than everybody's: as much as it takes in at once."""
    found = {
        "sequence_length": longest if kind == "image_text" else None,
        "audio_s": window_s,
        "image_size": side if kind in ("image", "image_text") else None,
    }
    return {axis: value for axis, value in found.items() if value is not None}
