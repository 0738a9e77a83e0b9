"""`builtin:<name>`: small networks that need nothing but torch, from 0.1 M to 50 M parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torchstone.errors import UsageError, unknown
from torchstone.extend import ModelSource
from torchstone.terms.axis import Scalar
from torchstone.terms.case import Workload
from torchstone.terms.model import InputSpec, LoadedModel, ModelCard

# Hidden width, layers, and the parameters they make.
GESTURE_SIZES: Mapping[str, tuple[int, int, int]] = {
    "gesture-tiny": (96, 2, 141_801),
    "gesture-small": (256, 2, 869_641),
    "gesture-medium": (448, 3, 4_163_273),
    "gesture-large": (640, 4, 11_687_049),
    "gesture-xlarge": (896, 4, 22_784_393),
    "gesture-xxlarge": (1152, 5, 48_177_801),
}
_IMAGE = InputSpec("image", classes=10)
_SKELETON = InputSpec("features", classes=9, width=75)


class Builtin:
    """Model source `builtin`."""

    describes = "small networks that need nothing but torch"

    def names(self) -> Iterable[tuple[str, str]]:
        yield "cnn", "3 convolutions over 3-channel images, 10 classes, 0.6 M parameters"
        yield "mlp", "3 layers over the pixels, 10 classes, 0.9 M parameters at image_size=32"
        for name, (hidden, layers, parameters) in GESTURE_SIZES.items():
            size = f"{parameters / 1e6:.2f} M parameters"
            yield name, f"LSTM {layers} × {hidden} over skeletons (75 values a frame), 9 classes, {size}"

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        known = dict(self.names())
        if name not in known:
            raise unknown("builtin model", name, known)
        if options.get("weights", "random") != "random":
            raise UsageError(f"builtin:{name}: has random weights only; use weights=random")
        if others := sorted(set(options) - {"weights"}):
            raise unknown(f"option of builtin:{name}", others[0], ["weights"])
        fixed: Mapping[str, Scalar] = {"weights": "random", "source": "builtin"}
        if name in GESTURE_SIZES:
            return ModelCard("sequence", _SKELETON, family="gesture", fixed=fixed, defaults={"sequence_length": 20})
        return ModelCard("image", _IMAGE, family="vision", fixed=fixed, defaults={"image_size": 32})

    def preload(self, name: str) -> None:
        import torchstone.models._builtin_nets  # noqa: F401

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torch.nn.functional import cross_entropy

        from torchstone.models import _builtin_nets

        if name in GESTURE_SIZES:
            hidden, layers, _ = GESTURE_SIZES[name]
            module: Any = _builtin_nets.GestureNet(hidden, layers)
        else:
            side = int(configuration.get("image_size") or 32)
            module = _builtin_nets.SmallConvNet() if name == "cnn" else _builtin_nets.Perceptron(side)
        takes = "features" if name in GESTURE_SIZES else "pixel_values"
        return LoadedModel(
            module,
            lambda network, tensors: network(tensors[takes]),
            _loss(takes, cross_entropy),
            _SKELETON if name in GESTURE_SIZES else _IMAGE,
            objection=_objection(name),
            facts={"parameters": sum(p.numel() for p in module.parameters()), "weights": "random"},
        )


def _loss(takes: str, cross_entropy: Callable[..., Any]) -> Callable[[Any, Mapping[str, Any]], Any]:
    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return cross_entropy(network(tensors[takes]), tensors["labels"])

    return loss


def _objection(name: str) -> Callable[[str, Scalar], str | None]:
    def objection(axis: str, value: Scalar) -> str | None:
        if axis == "channels_last" and value and name != "cnn":
            return f"{name}: no convolution, there is no layout to change"
        if axis == "image_size" and name == "cnn" and int(value or 0) < 4:
            return "cnn: at least 4 pixels, it halves the image twice"
        return None

    return objection


PLUGIN: ModelSource = Builtin()
