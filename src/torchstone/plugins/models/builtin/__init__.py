"""`builtin:<name>`: small networks that need nothing but torch, from 0.01 M to 50 M parameters.

`builtin:<name>@<file>` is the same network with the weights of a file that torch.save or safetensors wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.model import InputSpec, LoadedModel, ModelCard
from torchstone.plugins.models import _weights_file
from torchstone.plugins.models.builtin.names import DENOISER_SIZES, GESTURE_SIZES, LONGEST, POSITIONS, TEXT_SIZES
from torchstone.plugins.protocols import ModelSource

_IMAGE = InputSpec("image", classes=10)
_SKELETON = InputSpec("features", classes=9, width=75)
_SIGNAL = InputSpec("features", width=2)
_TEXT = InputSpec("text", classes=2, vocabulary=8_000, longest=LONGEST)


class Builtin(ModelSource):
    """Model source `builtin`."""

    describes = "small networks that need only torch; builtin:NAME@FILE loads weights from a file"

    def names(self) -> Iterable[tuple[str, str]]:
        yield "cnn", "3 convolutions over 3-channel images, 10 classes, 0.6 M parameters"
        yield "mlp", "3 layers over the pixels, 10 classes, 0.9 M parameters at image_size=32"
        for name, (hidden, layers, parameters) in GESTURE_SIZES.items():
            size = f"{parameters / 1e6:.2f} M parameters"
            yield name, f"LSTM {layers} × {hidden} over skeletons (75 values a frame), 9 classes, {size}"
        for name, (depth, hidden, parameters) in DENOISER_SIZES.items():
            size = f"{parameters / 1e6:.2f} M parameters"
            yield name, f"transformer {depth} × {hidden} over every position of a sequence (2 values), {size}"
        for name, (depth, hidden, vocabulary, _) in TEXT_SIZES.items():
            yield name, f"transformer {depth} × {hidden} over {vocabulary:,} word pieces, 2 classes, 1.2 M parameters"

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        name, at, file = name.partition("@")
        known = dict(self.names())
        if name not in known:
            raise unknown("builtin model", name, known)
        _weights_file.refuse_option(f"builtin:{name}", options.get("weights", "random"))
        known_options = ["weights"] if name in DENOISER_SIZES else ["weights", "classes"]
        if others := sorted(set(options) - set(known_options)):
            raise unknown(f"option of builtin:{name}", others[0], known_options)
        fixed: dict[str, Scalar] = {"weights": "file" if at else "random", "source": "builtin"}
        if at and "weights" in options:
            raise UsageError(f"builtin:{name}@{file}: the weights are the file's; leave out the option weights")
        if at:
            fixed["weights_sha256"] = _weights_file.checked(f"builtin:{name}", file)[:16]
        full = _weights_file.in_full(name, file) if at else None
        item, family, spec, defaults = _described(name)
        if spec.classes is not None:
            spec = msgspec.structs.replace(spec, classes=_weights_file.classes_option(options, spec.classes))
            fixed["classes"] = spec.classes
        return ModelCard(item, spec, full, family, fixed, defaults=defaults, own=bool(at))

    def preload(self, name: str) -> None:
        import torchstone.plugins.models.builtin.nets  # noqa: F401

        if name.endswith(".safetensors"):
            import safetensors.torch  # noqa: F401

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.plugins.models.builtin import nets

        name, at, file = name.partition("@")
        _, _, spec, _ = _described(name)
        if spec.classes is not None:
            spec = msgspec.structs.replace(spec, classes=int(workload.fixed.get("classes") or spec.classes))
        built = nets.build_network(name, spec.classes or 0, configuration)
        if at:
            _weights_file.fill(built.module, f"builtin:{name}", file)
        tokenizer = _weights_file.tokenizer_beside(file) if at and spec.kind == "text" else None
        if at and spec.kind == "text" and tokenizer is None:
            _weights_file.refuse_other_tokens(f"builtin:{name}@{file}", workload.data)
        parameters = sum(p.numel() for p in built.module.parameters())
        facts = Facts(parameters=parameters, weights="file" if at else "random")
        return LoadedModel(
            built.module,
            built.forward,
            built.loss,
            spec,
            tokenizer=tokenizer,
            objection=_objection(name),
            facts=facts,
        )


def _described(name: str) -> tuple[str, str, InputSpec, Mapping[str, Scalar]]:
    """Return item, family, input and the defaults of axes."""
    if name in GESTURE_SIZES:
        return "sequence", "gesture", _SKELETON, {"sequence_length": 20}
    if name in DENOISER_SIZES:
        return "sequence", "denoiser", _SIGNAL, {"sequence_length": POSITIONS}
    if name in TEXT_SIZES:
        return "sequence", "embedding", _TEXT, {"sequence_length": 64}
    return "image", "vision", _IMAGE, {"image_size": 32}


def _objection(name: str) -> Callable[[str, Scalar], str | None]:
    def objection(axis: str, value: Scalar) -> str | None:
        if axis == "channels_last" and value and name != "cnn":
            return f"{name}: no convolution, there is no layout to change"
        if axis == "image_size" and name == "cnn" and int(value or 0) < 4:
            return "cnn: at least 4 pixels, it halves the image twice"
        return None

    return objection


PLUGIN: ModelSource = Builtin()
