"""Builds a transformers model on the CPU: random weights, the hub's, a file's, or a folder's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import transformers
from transformers.utils import logging

from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.plugins.models import _hub, _untrusted_weights, _weights_file
from torchstone.plugins.models.hf import families
from torchstone.plugins.models.hf.families import ARCHITECTURES, Architecture, Known
from torchstone.plugins.models.hf.folder import open_folder

_HEADS = {
    "text": "AutoModelForSequenceClassification", "image": "AutoModelForImageClassification",
    "audio": "AutoModelForAudioClassification", "image_text": "AutoModel",
}  # fmt: skip
_HEAD = "classifier."  # what transformers calls the layer, or layers, that answer with a class


class Built(msgspec.Struct):
    """A module with its config, and its tokenizer where files for one lie beside the weights.

    `new`: tensors that the weights do not bring, and that are random: the head of a fine-tuning, mostly.
    """

    module: Any
    config: Any
    tokenizer: Any = None
    new: tuple[str, ...] = ()


def build(name: str, weights: str, classes: int | None, configuration: Mapping[str, Scalar]) -> Built:
    """Build the model. Raises UsageError in one line if its files are absent, torn, do not fit or hold code."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    found = families.find(name)
    if found is None:
        return _from_folder(name, weights, classes, configuration)
    full, known = found
    if weights == "pretrained" and known.hub is not None:
        return _from_hub(full, known.hub, known, classes)
    wished = _wished(ARCHITECTURES[known.model_type], classes or known.classes)
    config = transformers.AutoConfig.for_model(known.model_type, **{**known.settings, **wished})
    built = _random(config, configuration)
    if weights == "file":
        _weights_file.fill(built.module, f"hf:{full}", name.partition("@")[2])
    return built


def _wished(shape: Architecture, classes: int | None) -> dict[str, Scalar]:
    return {"num_labels": classes} if classes and not shape.causal and shape.kind != "image_text" else {}


def _random(config: Any, configuration: Mapping[str, Scalar]) -> Built:
    eyes = getattr(config, "vision_config", config)
    if configuration.get("image_size") and hasattr(eyes, "image_size"):
        eyes.image_size = configuration["image_size"]
    kind = config.model_type
    module = _head(kind).from_config(config, **_kernels(ARCHITECTURES[kind]), trust_remote_code=False)
    return Built(module, module.config)


def _kernels(shape: Architecture) -> dict[str, str]:
    return {"attn_implementation": "sdpa"} if shape.attention else {}


def _from_hub(full: str, hub: str, known: Known, classes: int | None) -> Built:
    shape = ARCHITECTURES[known.model_type]
    with _untrusted_weights.one_line_errors(f"hf:{full}: weights=pretrained ({hub})", _hub.instead(f"hf:{full}")):
        config = transformers.AutoConfig.from_pretrained(hub, trust_remote_code=False, **_wished(shape, classes))
        module, new = _with_weights(hub, config, new_head=classes not in (None, known.classes))
        tokenizer = _untrusted_weights.load_tokenizer(hub) if shape.kind in ("text", "image_text") else None
    return Built(module, module.config, tokenizer, new)


def _from_folder(name: str, weights: str, classes: int | None, configuration: Mapping[str, Scalar]) -> Built:
    folder = open_folder(name, weights_needed=weights != "random")
    source, shape = str(folder.path), folder.architecture
    with _untrusted_weights.one_line_errors(f"hf:{name}"):
        config = transformers.AutoConfig.from_pretrained(
            source, trust_remote_code=False, local_files_only=True, **_wished(shape, classes)
        )
        reads = folder.has_tokenizer and shape.kind in ("text", "image_text")
        tokenizer = _untrusted_weights.load_tokenizer(source) if reads else None
        if weights == "random":
            built = _random(config, configuration)
            return Built(built.module, built.config, tokenizer)
        for file in folder.weights:
            if file.suffix != ".safetensors":
                _untrusted_weights.refuse_code(file)
        module, new = _with_weights(
            source, config, new_head=classes not in (None, folder.classes), local_files_only=True,
            use_safetensors=folder.weights[0].suffix == ".safetensors", weights_only=True,
        )  # fmt: skip
    return Built(module, module.config, tokenizer, new)


def _with_weights(source: str, config: Any, *, new_head: bool, **how: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the model with the weights of a folder or of the hub, and the names of the tensors they do not bring.

    `new_head`: another number of classes was asked for, so the head begins anew. Raises UsageError where any other
    tensor has another shape, or where the files bring less than half of the model: it would be a random one, untold.
    """
    module, told = _head(config.model_type).from_pretrained(
        source, config=config, **_kernels(ARCHITECTURES[config.model_type]), dtype="float32", trust_remote_code=False,
        ignore_mismatched_sizes=True, output_loading_info=True, **how,
    )  # fmt: skip
    others = sorted(one for one in told["mismatched_keys"] if not (new_head and one[0].startswith(_HEAD)))
    if others:
        name, theirs, ours = others[0]
        raise UsageError(
            f"hf:{source}: the weights do not fit config.json: {name} is {_shape(theirs)} there, {_shape(ours)} here"
        )
    new = {*told["missing_keys"], *(one[0] for one in told["mismatched_keys"])}
    sizes = {name: tensor.numel() for name, tensor in module.named_parameters()}
    if 2 * sum(sizes.get(name, 0) for name in new) > sum(sizes.values()):
        raise UsageError(
            f"hf:{source}: its weights are of another model: {len(new)} of {len(sizes)} tensors are missing, "
            f"such as {min(new)}"
        )
    return module, tuple(sorted(new))


def _shape(sizes: Any) -> str:
    return "×".join(map(str, sizes)) or "a scalar"


def _head(model_type: str) -> Any:
    shape = ARCHITECTURES[model_type]
    return getattr(transformers, "AutoModelForCausalLM" if shape.causal else _HEADS[shape.kind])
