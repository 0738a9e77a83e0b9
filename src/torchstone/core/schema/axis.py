"""Axes: what may vary in a Case, with type, default, meaning, and whether it changes the result or only the speed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from torchstone.core.errors import UsageError, unknown

Scalar = str | int | float | bool | None


class Axis(msgspec.Struct, frozen=True):
    """One thing that may vary. `values` lists the allowed words; None means any value of `kind` from `least` up.

    `before`: words that came later, and what the ids of older records have in their place (None: no such axis).
    """

    name: str
    kind: str  # "int", "float", "bool", "str", "switch"
    default: Scalar
    changes_result: bool
    meaning: str
    values: tuple[str, ...] | None = None
    least: float | None = None
    before: Mapping[str, Scalar] = {}

    def parse(self, text: str | int | float | bool | None, where: str = "") -> Scalar:
        """Return the value that `text` spells on this axis, or raise UsageError naming the axis and the fault."""
        at = where or f"axis {self.name}"
        value = _READ[self.kind](text)
        if value is None:
            raise UsageError(f"{at}: {text!r} is not {_ARTICLE[self.kind]}{self._range()}")
        if self.values is not None and value not in self.values:
            raise UsageError(f"{at}: {unknown('value', str(value), self.values)!s}")
        if self.least is not None and isinstance(value, int | float) and value < self.least:
            raise UsageError(f"{at}: {text!r} is too small{self._range()}")
        return value

    def _range(self) -> str:
        if self.values is not None:
            return f" ({', '.join(self.values)})"
        return f" (a value from {self.least:g} up)" if self.least is not None else ""


_ARTICLE = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word", "switch": "on, off or auto",
}  # fmt: skip


def _whole(value: Scalar) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        text = value.strip()
        return int(text) if text.lstrip("+-").isascii() and text.lstrip("+-").isdigit() else None
    return None


def _number(value: Scalar) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _truth(value: Scalar) -> bool | None:
    return value if isinstance(value, bool) else _TRUTH.get(str(value).strip().lower())


def _word(value: Scalar) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    return str(value).strip() or None


def _switch(value: Scalar) -> str | None:
    truth = _truth(value)
    return _word(value) if truth is None else "on" if truth else "off"


_READ = {"int": _whole, "float": _number, "bool": _truth, "str": _word, "switch": _switch}


def _axes(*axes: Axis) -> Mapping[str, Axis]:
    return {axis.name: axis for axis in axes}


# The shared vocabulary. An engine says which of these it has; a name means one thing everywhere.
AXES: Mapping[str, Axis] = _axes(
    Axis("batch_size", "int", 1, True, "items in one batch on one device", least=1),
    Axis("sequence_length", "int", 128, True, "tokens (or frames) an item is padded or cut to", least=1),
    Axis("new_tokens", "int", 32, True, "tokens generated after each prompt; no token ends it sooner", least=1),
    Axis("image_size", "int", 224, True, "pixels on each side an image is resized to", least=1),
    Axis("audio_s", "float", 1.0, True, "seconds of sound an item is padded or cut to", least=0.1),
    Axis(
        "precision",
        "str",
        "fp32",
        True,
        "number format of matrix products; bf16 and fp16 by autocast, fp16 with a loss scaler; auto: bf16, else tf32, "
        "where the device has it natively",
        values=("fp32", "tf32", "bf16", "fp16", "auto"),
    ),
    Axis(
        "compile",
        "str",
        "off",
        False,
        "torch.compile and its mode",
        values=("off", "default", "reduce-overhead", "max-autotune"),
    ),
    Axis("optimizer", "str", "adamw", True, "how weights are updated", values=("sgd", "adam", "adamw")),
    Axis("learning_rate", "float", 5e-5, True, "step size of the optimizer", least=0.0),
    Axis("grad_accumulation", "int", 1, True, "batches whose gradients are added before one optimizer step", least=1),
    Axis("grad_clip", "float", 0.0, True, "largest norm of the gradient; 0 leaves it unclipped", least=0.0),
    Axis(
        "gradient_checkpointing",
        "bool",
        False,
        False,
        "recompute activations in the backward pass instead of keeping them",
    ),
    Axis(
        "channels_last",
        "switch",
        "auto",
        False,
        "image tensors and weights laid out as NHWC; auto: of convolution nets, where the device is faster with it",
        values=("auto", "on", "off"),
        before={"auto": False, "on": True},
    ),
    Axis(
        "fused",
        "switch",
        "auto",
        False,
        "fused optimizer kernels: auto takes them where the device has them",
        values=("auto", "on", "off"),
    ),
    Axis(
        "sdpa",
        "str",
        "auto",
        False,
        "the only kernel that torch may take for scaled_dot_product_attention; auto: torch's own order",
        values=("auto", "flash", "efficient", "cudnn", "math"),
        before={"auto": None},
    ),
    Axis("threads", "int", 0, False, "threads for CPU operators; 0: one for each core that is ours", least=0),
    Axis("num_workers", "int", 0, False, "processes that load data; 0 loads in the trial's own process", least=0),
    Axis("pin_memory", "bool", False, False, "loader puts batches into page-locked memory, transfers do not wait"),
    Axis("prefetch_factor", "int", 2, False, "batches each loader process keeps ready", least=1),
    Axis(
        "feed",
        "str",
        "resident",
        False,
        "resident: a few batches already on the device; loader: a DataLoader and a transfer each step, as where real "
        "data are trained on and nobody says otherwise",
        values=("resident", "loader"),
    ),
    Axis(
        "mode",
        "str",
        "both",
        False,
        "what inference measures: latency (closed loop), throughput (back to back), or both in turn",
        values=("both", "latency", "throughput"),
    ),
)
