"""`builtin:<name>`: small networks that need nothing but torch, from 0.01 M to 50 M parameters.

`builtin:<name>@<file>` is the same network with the weights of a file that torch.save or safetensors wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from torchstone.errors import UsageError, unknown
from torchstone.extend import ModelSource
from torchstone.models import _builtin_weights
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
# Depth, hidden width, and the parameters they make: a denoiser of sequences of 5,160 × 2 in three sizes.
DENOISER_SIZES: Mapping[str, tuple[int, int, int]] = {
    "denoiser-small": (3, 16, 9_922),
    "denoiser-medium": (6, 64, 300_226),
    "denoiser-large": (12, 128, 2_379_906),
}
_POSITIONS = 5160
_NOISE = 0.1  # standard deviation of what is added to a sequence in training, and to be taken off again
_IMAGE = InputSpec("image", classes=10)
_SKELETON = InputSpec("features", classes=9, width=75)
_SIGNAL = InputSpec("features", width=2)


class Builtin:
    """Model source `builtin`."""

    describes = "small networks that need nothing but torch; builtin:NAME@FILE takes the weights of a file"

    def names(self) -> Iterable[tuple[str, str]]:
        yield "cnn", "3 convolutions over 3-channel images, 10 classes, 0.6 M parameters"
        yield "mlp", "3 layers over the pixels, 10 classes, 0.9 M parameters at image_size=32"
        for name, (hidden, layers, parameters) in GESTURE_SIZES.items():
            size = f"{parameters / 1e6:.2f} M parameters"
            yield name, f"LSTM {layers} × {hidden} over skeletons (75 values a frame), 9 classes, {size}"
        for name, (depth, hidden, parameters) in DENOISER_SIZES.items():
            size = f"{parameters / 1e6:.2f} M parameters"
            yield name, f"transformer {depth} × {hidden} over every position of a sequence (2 values), {size}"

    def card(self, name: str, options: Mapping[str, Scalar]) -> ModelCard:
        name, at, file = name.partition("@")
        known = dict(self.names())
        if name not in known:
            raise unknown("builtin model", name, known)
        _builtin_weights.refuse_option(name, options.get("weights", "random"))
        if others := sorted(set(options) - {"weights"}):
            raise unknown(f"option of builtin:{name}", others[0], ["weights"])
        fixed: dict[str, Scalar] = {"weights": "file" if at else "random", "source": "builtin"}
        if at and options:
            raise UsageError(f"builtin:{name}@{file}: the weights are the file's; leave out the option weights")
        if at:
            fixed["weights_sha256"] = _builtin_weights.checked(name, file)[:16]
        # Written with a folder, a file has the same case id wherever it lies: terms.case.portable strips folders.
        full = f"{name}@./{file}" if at and len(PurePath(file).parts) == 1 else None
        own = bool(at)
        if name in GESTURE_SIZES:
            return ModelCard("sequence", _SKELETON, full, "gesture", fixed, defaults={"sequence_length": 20}, own=own)
        if name in DENOISER_SIZES:
            return ModelCard(
                "sequence", _SIGNAL, full, "denoiser", fixed, defaults={"sequence_length": _POSITIONS}, own=own
            )
        return ModelCard("image", _IMAGE, full, "vision", fixed, defaults={"image_size": 32}, own=own)

    def preload(self, name: str) -> None:
        import torchstone.models._builtin_nets  # noqa: F401

        if name.endswith(".safetensors"):
            import safetensors.torch  # noqa: F401

    def load(self, name: str, workload: Workload, configuration: Mapping[str, Scalar]) -> LoadedModel:
        from torchstone.models import _builtin_nets

        name, at, file = name.partition("@")
        module: Any
        takes, loss, spec = "pixel_values", _cross_entropy("pixel_values"), _IMAGE
        if name in GESTURE_SIZES:
            hidden, layers, _ = GESTURE_SIZES[name]
            module = _builtin_nets.GestureNet(hidden, layers)
            takes, loss, spec = "features", _cross_entropy("features"), _SKELETON
        elif name in DENOISER_SIZES:
            depth, hidden, _ = DENOISER_SIZES[name]
            module = _builtin_nets.Denoiser(depth, hidden, int(configuration.get("sequence_length") or _POSITIONS))
            takes, loss, spec = "features", _reconstruction(), _SIGNAL
        else:
            side = int(configuration.get("image_size") or 32)
            module = _builtin_nets.SmallConvNet() if name == "cnn" else _builtin_nets.Perceptron(side)
        if at:
            _builtin_weights.fill(module, name, file)
        return LoadedModel(
            module,
            lambda network, tensors: network(tensors[takes]),
            loss,
            spec,
            objection=_objection(name),
            facts={"parameters": sum(p.numel() for p in module.parameters()), "weights": "file" if at else "random"},
        )


Loss = Callable[[Any, Mapping[str, Any]], Any]


def _cross_entropy(takes: str) -> Loss:
    from torch.nn.functional import cross_entropy

    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        if "labels" not in tensors:
            raise UsageError("task train: the data has no labels")
        return cross_entropy(network(tensors[takes]), tensors["labels"])

    return loss


def _reconstruction() -> Loss:
    """Mean squared error of what the network makes of a sequence with noise added: the sequence is the target."""
    from torch import randn_like
    from torch.nn.functional import mse_loss

    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        clean = tensors["features"]
        return mse_loss(network(clean + _NOISE * randn_like(clean)), clean)

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
