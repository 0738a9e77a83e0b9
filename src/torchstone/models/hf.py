"""`hf:<name>`: transformers models in full size with random weights, pretrained ones, or a folder of your own.

Text encoders and vision models get a classification head, GPT-2 and OPT their language-model head; both tasks use it.
Inference is one forward pass over the whole sequence, without a cache. Training a language model takes the tokens as
labels, with padding left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.errors import MissingError, UsageError, unknown
from torchstone.extend import ModelSource
from torchstone.models import _hf_families, _hf_folder
from torchstone.models._hf_families import ARCHITECTURES, Architecture
from torchstone.terms.axis import AXES, Scalar
from torchstone.terms.case import Workload
from torchstone.terms.model import InputSpec, LoadedModel, ModelCard

_OPTIONS = ("weights", "classes")
_WEIGHTS = ("random", "pretrained")


class Transformers:
    """Model source `hf`. Options: `weights` (random, pretrained) and `classes` (of the classification head)."""

    describes = "transformers models by name, or a folder with config.json and weights"

    def names(self) -> Iterable[tuple[str, str]]:
        for name, known in _hf_families.MODELS.items():
            line = f"{ARCHITECTURES[known.model_type].family}, {known.body / 1e6:.1f} M parameters without the head"
            yield name, line
            yield from ((alias, f"short for {name}") for alias in known.aliases)

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        if find_spec("transformers") is None:
            raise MissingError("hf: needs transformers: pip install 'torchstone[models]'")
        for option in options:
            if option not in _OPTIONS:
                raise unknown(f"option of hf:{name}", option, _OPTIONS)
        wish = options.get("weights")
        if wish is not None and wish not in _WEIGHTS:
            raise UsageError(f"hf:{name}: {unknown('weights', str(wish), _WEIGHTS)}")
        found = _hf_families.find(name)
        if found is None:
            return self._folder_card(name, options)
        full, known = found
        if wish == "pretrained":
            _refuse_absent(full, known.hub)
        shape = ARCHITECTURES[known.model_type]
        classes = _classes(options, known.classes, shape)
        spec = InputSpec(shape.kind, classes, known.vocabulary, known.longest, causal=shape.causal)
        fixed: dict[str, Scalar] = {"weights": wish or "random", "source": full}
        if classes:
            fixed["classes"] = classes
        return ModelCard(_item(shape), spec, full, shape.family, fixed)

    def _folder_card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        if not (name.startswith(("/", ".", "~")) or Path(name).is_dir()):
            raise UsageError(
                f"{unknown('model', name, [*_hf_families.MODELS, *_hf_families.ALIASES])}, or a folder: hf:./folder"
            )
        random = options.get("weights") == "random"
        folder = _hf_folder.open_folder(name, weights_needed=not random)
        shape = folder.architecture
        classes = _classes(options, folder.classes, shape)
        words, channels = folder.number("vocab_size"), folder.number("num_channels") or 3
        spec = InputSpec(shape.kind, classes, words, folder.longest, channels, causal=shape.causal)
        fixed: dict[str, Scalar] = {"weights": "random" if random else "folder", "source": "folder"}
        fixed["config_sha256"] = folder.config_sha256[:16]
        if classes:
            fixed["classes"] = classes
        return ModelCard(_item(shape), spec, None, shape.family, fixed, own=True)

    def preload(self, name: str) -> None:
        _import_modelling(_model_type(name))

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.models import _hf_building, _hf_calls

        weights = str(workload.fixed.get("weights") or ("random" if _hf_families.find(name) else "folder"))
        classes = workload.fixed.get("classes")
        _import_modelling(_model_type(name))
        built = _hf_building.build(name, weights, int(classes) if classes else None, configuration)
        shape, config = ARCHITECTURES[built.config.model_type], built.config
        rows = getattr(config, "max_position_embeddings", None)
        longest = rows - shape.reserved if isinstance(rows, int) and shape.kind == "text" else None
        spec = InputSpec(
            shape.kind,
            None if shape.causal else int(config.num_labels),
            getattr(config, "vocab_size", None),
            longest,
            getattr(config, "num_channels", 3),
            causal=shape.causal,
        )
        facts: dict[str, Scalar] = {
            "parameters": sum(p.numel() for p in built.module.parameters()),
            "attention": str(config._attn_implementation),
            "weights": weights,
        }
        calls = _hf_calls.Continuing(config.model_type) if shape.causal else _hf_calls.Classifying()
        objection = _objection(built.module, config, longest, fixed_size=weights != "random")
        return LoadedModel(
            built.module, calls.forward, calls.loss, spec, tokenizer=built.tokenizer, objection=objection, facts=facts
        )


def _classes(options: Mapping[str, Scalar], default: int | None, shape: Architecture) -> int | None:
    asked = options.get("classes")
    if asked is None:
        return default
    number = AXES["batch_size"].parse(asked, "option classes")  # the same words: a whole number from 1 up
    if shape.causal or not isinstance(number, int) or number < 2:
        raise UsageError("option classes: a language model has none" if shape.causal else "option classes: at least 2")
    return number


def _item(shape: Architecture) -> str:
    return "sequence" if shape.kind == "text" else "image"


def _refuse_absent(full: str, hub: str | None) -> None:
    if hub is None:
        raise UsageError(f"hf:{full}: a twin for trying things out, it has no pretrained weights; use weights=random")
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    if offline and not (cache / ("models--" + hub.replace("/", "--"))).is_dir():
        raise UsageError(
            f"hf:{full}: weights=pretrained: {hub} is not in {cache}, and HF_HUB_OFFLINE is set; use weights=random"
        )


def _model_type(name: str) -> str:
    found = _hf_families.find(name)
    if found is not None:
        return found[1].model_type
    return str(_hf_folder.open_folder(name, weights_needed=False).config["model_type"])


def _import_modelling(model_type: str) -> None:
    package = model_type.replace("-", "_")
    import_module("transformers.models.auto.modeling_auto")
    import_module(f"transformers.models.{package}.modeling_{package}")


def _objection(
    module: Any, config: Any, longest: int | None, *, fixed_size: bool
) -> Callable[[str, Scalar], str | None]:
    kind = config.model_type
    patch, side = getattr(config, "patch_size", None), getattr(config, "image_size", None)

    def objection(axis: str, value: Scalar) -> str | None:
        if axis == "sequence_length" and longest is not None and int(value or 0) > longest:
            return f"{kind}: at most {longest} positions"
        if axis == "image_size" and patch and (int(value or 0) < patch or int(value or 0) % patch):
            return f"{kind}: a multiple of its patch size, {patch}"
        if axis == "image_size" and fixed_size and side and value != side:
            return f"{kind}: these weights are for image_size={side}"
        if axis == "channels_last" and value and patch is None:
            return f"{kind}: text has no channels"
        if axis == "gradient_checkpointing" and value and not module.supports_gradient_checkpointing:
            return f"{kind}: transformers has no gradient checkpointing for it"
        return None

    return objection


PLUGIN: ModelSource = Transformers()
