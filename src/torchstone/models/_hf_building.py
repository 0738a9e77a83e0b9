"""Builds a transformers model on the CPU: random weights, the hub's, or a folder's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import transformers
from transformers.utils import logging

from torchstone.models import _hf_families, _hf_folder, _hf_weights
from torchstone.models._hf_families import ARCHITECTURES, Architecture, Known
from torchstone.terms.axis import Scalar


class Built(msgspec.Struct):
    """A module with its config, and its tokenizer where files for one lie beside the weights."""

    module: Any
    config: Any
    tokenizer: Any = None


def build(name: str, weights: str, classes: int | None, configuration: Mapping[str, Scalar]) -> Built:
    """Build the model. Raises UsageError in one line if its files are absent, torn, do not fit or hold code."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    found = _hf_families.find(name)
    if found is None:
        return _from_folder(name, weights, classes, configuration)
    full, known = found
    if weights == "pretrained" and known.hub is not None:
        return _from_hub(full, known.hub, known, classes)
    settings = {**known.settings, **_asked(ARCHITECTURES[known.model_type], classes or known.classes, configuration)}
    return _random(transformers.AutoConfig.for_model(known.model_type, **settings))


def _asked(shape: Architecture, classes: int | None, configuration: Mapping[str, Scalar]) -> dict[str, Scalar]:
    asked: dict[str, Scalar] = {}
    if classes and not shape.causal:
        asked["num_labels"] = classes
    if shape.kind == "image" and configuration.get("image_size"):
        asked["image_size"] = configuration["image_size"]
    return asked


def _random(config: Any) -> Built:
    module = _head(config.model_type).from_config(config, attn_implementation="sdpa", trust_remote_code=False)
    return Built(module, module.config)


def _from_hub(full: str, hub: str, known: Known, classes: int | None) -> Built:
    with _hf_weights.one_line_errors(f"hf:{full}: weights=pretrained ({hub})"):
        wished = {} if ARCHITECTURES[known.model_type].causal or not classes else {"num_labels": classes}
        config = transformers.AutoConfig.from_pretrained(hub, trust_remote_code=False, **wished)
        module = _head(known.model_type).from_pretrained(
            hub, config=config, attn_implementation="sdpa", dtype="float32", trust_remote_code=False
        )
        tokenizer = _hf_weights.load_tokenizer(hub) if ARCHITECTURES[known.model_type].kind == "text" else None
    return Built(module, module.config, tokenizer)


def _from_folder(name: str, weights: str, classes: int | None, configuration: Mapping[str, Scalar]) -> Built:
    folder = _hf_folder.open_folder(name, weights_needed=weights != "random")
    source, shape = str(folder.path), folder.architecture
    with _hf_weights.one_line_errors(f"hf:{name}"):
        asked = _asked(shape, classes, configuration if weights == "random" else {})
        config = transformers.AutoConfig.from_pretrained(
            source, trust_remote_code=False, local_files_only=True, **asked
        )
        tokenizer = _hf_weights.load_tokenizer(source) if folder.has_tokenizer and shape.kind == "text" else None
        if weights == "random":
            built = _random(config)
            return Built(built.module, built.config, tokenizer)
        for file in folder.weights:
            if file.suffix != ".safetensors":
                _hf_weights.refuse_code(file)
        module = _head(config.model_type).from_pretrained(
            source, config=config, attn_implementation="sdpa", dtype="float32", trust_remote_code=False,
            local_files_only=True, use_safetensors=folder.weights[0].suffix == ".safetensors", weights_only=True,
        )  # fmt: skip
    return Built(module, module.config, tokenizer)


def _head(model_type: str) -> Any:
    shape = ARCHITECTURES[model_type]
    if shape.causal:
        return transformers.AutoModelForCausalLM
    if shape.kind == "image":
        return transformers.AutoModelForImageClassification
    return transformers.AutoModelForSequenceClassification
