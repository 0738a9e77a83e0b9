"""Which transformers models `hf:` knows by name, and which model types it takes from a folder. No torch here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from torchstone.terms.axis import Scalar


class Architecture(msgspec.Struct, frozen=True):
    """What follows from a config's `model_type`: the family, what it eats, and which head it gets.

    `reserved`: how many rows of the position table are no positions (RoBERTa starts counting after its padding id).
    """

    family: str
    kind: str = "text"
    causal: bool = False
    reserved: int = 0


class Known(msgspec.Struct, frozen=True):
    """A model by name. `settings` are what its config says beyond its class's defaults, `body` its published size.

    `body` counts the parameters without the task's head, as the head's class builds it (ViT and RoBERTa: no pooler).
    """

    hub: str | None
    model_type: str
    body: int
    settings: Mapping[str, Scalar] = {}
    vocabulary: int | None = None
    longest: int | None = None
    classes: int | None = 2
    aliases: tuple[str, ...] = ()


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
}

_ROBERTA: Mapping[str, Scalar] = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
_MINILM: Mapping[str, Scalar] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
# Twins with the same operators and next to no work, for trying things out.
_TINY: Mapping[str, Scalar] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}
_TINY_DISTIL: Mapping[str, Scalar] = {"vocab_size": 1000, "dim": 64, "n_layers": 2, "n_heads": 2, "hidden_dim": 128}
_TINY_GPT: Mapping[str, Scalar] = {
    "vocab_size": 1000,
    "n_positions": 512,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 2,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_TINY_OPT: Mapping[str, Scalar] = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 128,
    "word_embed_proj_dim": 64,
    "max_position_embeddings": 512,
}
_TINY_VIT: Mapping[str, Scalar] = {k: v for k, v in _TINY.items() if k != "vocab_size"}

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
    "distilbert-tiny": Known(None, "distilbert", 163_840, _TINY_DISTIL, vocabulary=1000, longest=512),
    "bert-tiny": Known(None, "bert", 168_128, _TINY, vocabulary=1000, longest=512),
    "gpt2-tiny": Known(None, "gpt2", 196_864, _TINY_GPT, vocabulary=1000, longest=512, classes=None),
    "opt-tiny": Known(None, "opt", 163_968, _TINY_OPT, vocabulary=1000, longest=512, classes=None),
    "vit-tiny": Known(None, "vit", 128_960, _TINY_VIT, classes=10),
}  # fmt: skip

ALIASES: Mapping[str, str] = {alias: name for name, known in MODELS.items() for alias in known.aliases}


def find(name: str) -> tuple[str, Known] | None:
    """Return the full name and the entry of a name or alias; None if there is no such model."""
    full = ALIASES.get(name, name)
    return (full, MODELS[full]) if full in MODELS else None
