"""`hf:<name>`: transformers models in full size with random weights, pretrained ones, or a folder of your own.

Text encoders, vision and audio models get a classification head, GPT-2 and OPT their language-model head, CLIP its two
projections; all tasks use it. Inference is one pass over the whole sequence; generation keeps a cache. Training a
language model takes the tokens as labels, with padding left out; training CLIP, the pairs of the batch.
`hf:<name>@<file>` takes the weights of a file that torch.save or safetensors wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.model import InputSpec, LoadedModel, ModelCard
from torchstone.plugins.models import _weights_file
from torchstone.plugins.models.hf import families
from torchstone.plugins.models.hf.families import ARCHITECTURES, ITEMS, Architecture, PublishedModel, open_folder
from torchstone.plugins.protocols import ModelSource


class Transformers(ModelSource):
    """Model source `hf`. Options: `weights` (random, pretrained) and `classes` (of the classification head)."""

    describes = "transformers models: NAME, NAME@FILE of weights, or a folder with config.json and weights"

    def names(self) -> Iterable[tuple[str, str]]:
        for name, known in families.MODELS.items():
            size = f"{known.body / 1e6:.{1 if known.body >= 1e6 else 2}f} M"
            line = f"{ARCHITECTURES[known.model_type].family}, {size} parameters without the head"
            yield name, line
            yield from ((alias, f"short for {name}") for alias in known.aliases)

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        if find_spec("transformers") is None:
            raise MissingError("hf: needs transformers: pip install 'torchstone[models]'")
        found = families.find_model(name)
        _, at, file = name.partition("@") if found is not None else (name, "", "")
        wish = _weights_file.weights_option(f"hf:{name}", options, at=at)
        if found is None:
            return self._folder_card(name, options)
        full, known = found
        shape = ARCHITECTURES[known.model_type]
        classes = _classes(options, known.classes, shape)
        spec = InputSpec(shape.kind, classes, known.vocabulary, known.longest, causal=shape.causal)
        fixed = _weights_of(full, known, name, wish)
        if classes:
            fixed["classes"] = classes
        return ModelCard(
            ITEMS[shape.kind],
            spec,
            _weights_file.in_full(full, file) if at else full,
            shape.family,
            fixed,
            _tasks(shape),
            families.suited_axes(shape.kind, known.longest, known.window_s),
            own=bool(at) or wish == "pretrained",
            pretrained=known.hub is not None and not at,
        )

    def _folder_card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        if not (name.startswith(("/", ".", "~")) or Path(name).is_dir()):
            raise UsageError(
                f"{unknown('model', name, [*families.MODELS, *families.ALIASES])}, or a folder: hf:./folder"
            )
        random = options.get("weights") == "random"
        folder = open_folder(name, weights_needed=not random)
        shape = folder.architecture
        classes = _classes(options, folder.classes, shape)
        words = folder.number("vocab_size") if shape.kind in ("text", "image_text") else None
        channels = folder.number("num_channels") or 3
        spec = InputSpec(shape.kind, classes, words, folder.longest, channels, causal=shape.causal)
        fixed: dict[str, Scalar] = {"weights": "random" if random else "folder", "source": "folder"}
        fixed["config_sha256"] = folder.config_sha256[:16]
        if not random:
            fixed["files_sha256"] = folder.files_sha256[:16]
        if classes:
            fixed["classes"] = classes
        return ModelCard(
            ITEMS[shape.kind],
            spec,
            None,
            shape.family,
            fixed,
            _tasks(shape),
            families.suited_axes(shape.kind, folder.longest, folder.window_s, folder.number("image_size")),
            own=True,
        )

    def preload(self, name: str) -> None:
        from torchstone.plugins.models.hf import building  # noqa: F401  for `load`

        _import_modelling(_model_type(name))

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.plugins.models.hf import building

        weights = str(workload.fixed.get("weights") or ("random" if families.find_model(name) else "folder"))
        classes = workload.fixed.get("classes")
        _import_modelling(_model_type(name))
        built = building.build_model(name, weights, int(classes) if classes else None, configuration)
        shape, config = ARCHITECTURES[built.config.model_type], built.config
        if built.tokenizer is None and weights != "random" and shape.kind in building.READING:
            _weights_file.refuse_other_tokens(f"hf:{name}", workload.data)
        spec = building.input_of(config, shape)
        facts = Facts(
            parameters=sum(p.numel() for p in built.module.parameters()),
            weights=weights,
            new_tensors=tuple(built.new),
            attention=str(config._attn_implementation) if shape.attention else None,
        )
        if shape.kind == "audio":
            building.fit_ears(built.module)
        calls = _calls(shape, config.model_type)
        fixed_size = weights in ("pretrained", "folder")
        return LoadedModel(
            built.module,
            calls.forward,
            calls.loss,
            spec,
            tokenizer=built.tokenizer,
            objection=building.objection_of(built.module, config, spec, fixed_size=fixed_size),
            facts=facts,
            decoding=building.decoding(config, configuration) if shape.causal else None,
        )


def _weights_of(full: str, known: PublishedModel, name: str, wish: Scalar) -> dict[str, Scalar]:
    """Return what is recorded of the weights. Raises UsageError if they are not there."""
    bare, at, file = name.partition("@")
    if at:
        return {"weights": "file", "source": full, "weights_sha256": _weights_file.checked(f"hf:{bare}", file)[:16]}
    if wish == "pretrained" and known.hub is None:
        raise UsageError(f"hf:{full}: a small twin, it has no pretrained weights; type --option weights=random")
    if wish == "pretrained" and known.hub is not None:
        _weights_file.refuse_absent(f"hf:{full}", known.hub)
    return {"weights": wish or "random", "source": full}


def _classes(options: Mapping[str, Scalar], default: int | None, shape: Architecture) -> int | None:
    if options.get("classes") is None:
        return default
    if shape.causal or shape.kind == "image_text":
        what = "a language model" if shape.causal else "a model of images and texts"
        raise UsageError(f"option classes: {what} has none")
    return _weights_file.classes_option(options, 2)


def _tasks(shape: Architecture) -> tuple[str, ...]:
    return ("infer", "train", "generate") if shape.causal else ("infer", "train")


def _model_type(name: str) -> str:
    found = families.find_model(name)
    if found is not None:
        return found[1].model_type
    return str(open_folder(name, weights_needed=False).config["model_type"])


def _import_modelling(model_type: str) -> None:
    package = model_type.replace("-", "_")
    import_module("transformers.models.auto.modeling_auto")
    import_module(f"transformers.models.{package}.modeling_{package}")


def _calls(shape: Architecture, model_type: str) -> Any:
    from torchstone.plugins.models.hf import building

    if shape.causal:
        return building.Continuing(model_type)
    others = {"audio": building.AudioClassification, "image_text": building.Matching}
    return others.get(shape.kind, building.Classifying)()


PLUGIN: ModelSource = Transformers()
