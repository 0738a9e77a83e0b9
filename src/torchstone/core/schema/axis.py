"""Axes: what may vary in a Case, with type, default, meaning, and whether it changes the result or only the speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from torchstone.core.errors import UsageError, unknown

Scalar = str | int | float | bool | None


class AxisStage(StrEnum):
    """The part of a step that an axis acts on."""

    BATCH = "batch"  # how many items go together: the loader makes a batch, the device computes it
    ITEM = "item"  # the size of an item, for loader and device alike
    GENERATION = "generation"  # how much is generated for an item
    LOADER = "loader"  # how batches are loaded and handed over; the device does not see it
    HOST = "host"  # how many cores the process uses, for loading and computing
    RANKS = "ranks"  # over how many processes a step is spread, and how they exchange gradients
    MODEL = "model"  # how the model is computed
    OPTIMIZER = "optimizer"  # how the weights are updated
    SERVING = "serving"  # how queries that wait become a batch
    MEASUREMENT = "measurement"  # what is measured: no setting of a training


class Axis(msgspec.Struct, frozen=True):
    """One thing that may vary. `values` lists the allowed words; None means any value of `kind` from `least` up.

    `follows`: the axis that it is usually set by, where it changes no speed itself. `flag`: its own flag of a command,
    beside `--axis NAME=…`, which every axis has. `on_request`: a Configuration has it only where somebody named it.
    """

    name: str
    kind: str  # "int", "float", "bool", "str", "switch"
    default: Scalar
    changes_result: bool
    meaning: str
    values: tuple[str, ...] | None = None
    least: float | None = None
    stage: AxisStage = AxisStage.MODEL
    follows: str | None = None
    flag: str | None = None
    on_request: bool = False

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
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a word",
    "switch": "on, off or auto",
}


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


EAGER = "eager"  # the runtime that is torch itself
UNQUANTIZED = "none"
EIGHT_BIT = ("adam8bit", "adamw8bit")  # optimizers whose state is in 8 bits, by torchao
_S = AxisStage
# The shared vocabulary. An engine says which of these it has; a name means one thing everywhere.
AXES: Mapping[str, Axis] = _axes(
    Axis("batch_size", "int", 1, True, "items in one batch on one device",
         least=1, stage=_S.BATCH, flag="--batch-sizes"),
    Axis("sequence_length", "int", 128, True, "length in tokens (or frames) that items are padded or truncated to",
         least=1, stage=_S.ITEM, flag="--sequence-lengths"),
    Axis("new_tokens", "int", 32, True, "tokens generated after each prompt; no early stop",
         least=1, stage=_S.GENERATION),
    Axis("image_size", "int", 224, True, "side length in pixels that images are resized to", least=1, stage=_S.ITEM),
    Axis(
        "audio_s", "float", 1.0, True, "length in seconds that audio items are padded or truncated to", least=0.1,
        stage=_S.ITEM,
    ),
    Axis("precision", "str", "fp32", True,
         "number format of matrix products; bf16 and fp16 by autocast, fp16 with a loss scaler; auto: bf16, else tf32, "
         "where the device has it natively",
         values=("fp32", "tf32", "bf16", "fp16", "auto"), stage=_S.MODEL),
    Axis("compile", "str", "off", False, "torch.compile and its mode",
         values=("off", "default", "reduce-overhead", "max-autotune"), stage=_S.MODEL),
    Axis("runtime", "str", EAGER, False,
         "library that computes the model: eager (torch), or one that it is exported to (torchstone list runtimes)",
         stage=_S.MODEL, on_request=True),
    Axis("quantization", "str", UNQUANTIZED, True,
         "int8-dynamic, fp8-dynamic: weights and, while it computes, inputs of linear layers in 8 bits; int8-static: "
         "by ranges that other items gave before; int8-weights, int4-weights, fp8-weights: weights alone",
         values=(UNQUANTIZED, "int8-dynamic", "int8-static", "int8-weights", "int4-weights", "fp8-dynamic",
                 "fp8-weights"), stage=_S.MODEL, on_request=True),
    Axis("optimizer", "str", "adamw", True, "optimizer of the weights; 8bit: its state in 8 bits, by torchao",
         values=("sgd", "adam", "adamw", *EIGHT_BIT), stage=_S.OPTIMIZER, flag="--optimizers"),
    Axis("learning_rate", "float", 5e-5, True, "step size of the optimizer",
         least=0.0, stage=_S.OPTIMIZER, follows="batch_size", flag="--learning-rates"),
    Axis("grad_accumulation", "int", 1, True, "batches whose gradients are accumulated before an optimizer step",
         least=1, stage=_S.OPTIMIZER, flag="--grad-accumulation"),
    Axis("grad_clip", "float", 0.0, True, "maximum norm of the gradient; 0: no clipping",
         least=0.0, stage=_S.OPTIMIZER),
    Axis("lora", "int", 0, True,
         "rank of the adapters (LoRA, by peft) that are trained in place of the weights; 0: the weights are",
         least=0, stage=_S.MODEL, on_request=True),
    Axis("gradient_checkpointing", "bool", False, False,
         "recompute activations in the backward pass instead of keeping them", stage=_S.MODEL),
    Axis("channels_last", "switch", "auto", False,
         "NHWC memory format of images and weights; auto: for convolutional networks, where it makes the device faster",
         values=("auto", "on", "off"), stage=_S.MODEL),
    Axis("fused", "switch", "auto", False, "fused optimizer kernels; auto: where the device has them",
         values=("auto", "on", "off"), stage=_S.OPTIMIZER),
    Axis("sdpa", "str", "auto", False,
         "kernel of scaled_dot_product_attention; auto: PyTorch's order",
         values=("auto", "flash", "efficient", "cudnn", "math"), stage=_S.MODEL),
    Axis("threads", "int", 0, False, "threads of CPU operators; 0: one per available core",
         least=0, stage=_S.HOST),
    Axis("world_size", "int", 1, True,
         "processes (ranks) that train together, a device each; batch_size is that of one rank",
         least=1, stage=_S.RANKS, on_request=True),
    Axis("nodes", "int", 1, False,
         "machines that the ranks are spread over, as many on each, in an allocation of SLURM (torchstone submit)",
         least=1, stage=_S.RANKS, on_request=True),
    Axis("strategy", "str", "auto", False,
         "how ranks share the work: none (one process), ddp (DistributedDataParallel), fsdp2 (fully_shard); auto: none "
         "for one process, else ddp",
         values=("auto", "none", "ddp", "fsdp2"), stage=_S.RANKS, on_request=True),
    Axis("backend", "str", "auto", False,
         "what ranks communicate through; auto: nccl on NVIDIA and AMD (there RCCL), xccl on Intel, gloo on the CPU",
         values=("auto", "nccl", "rccl", "xccl", "gloo"), stage=_S.RANKS, on_request=True),
    Axis("num_workers", "int", 0, False, "DataLoader worker processes; 0: load in the trial's process",
         least=0, stage=_S.LOADER, flag="--num-workers"),
    Axis("pin_memory", "bool", False, False, "load batches into page-locked memory, so that transfers are asynchronous",
         stage=_S.LOADER),
    Axis("prefetch_factor", "int", 2, False, "batches prefetched by each worker", least=1, stage=_S.LOADER),
    Axis("feed", "str", "resident", False,
         "resident: a few batches already on the device; loader: a DataLoader and a transfer each step (the default "
         "for training on real data)",
         values=("resident", "loader"), stage=_S.MEASUREMENT),
    Axis("mode", "str", "both", False,
         "what inference measures: latency (closed loop), throughput (back to back), or both",
         values=("both", "latency", "throughput"), stage=_S.MEASUREMENT),
    Axis("max_wait_s", "float", 0.0, False,
         "how long a query waits for others until its batch begins, in seconds; 0: a batch is what waits",
         least=0.0, stage=_S.SERVING),
    Axis("scenario", "str", "single_stream", False,
         "how queries arrive, as in MLPerf: one after another (single_stream), one of several samples after another "
         "(multi_stream), all at once (offline), at random, target_qps a second (server)",
         values=("single_stream", "multi_stream", "offline", "server"), stage=_S.MEASUREMENT),
    Axis("target_qps", "float", 0.0, False, "queries that arrive in a second (Poisson process) in scenario server",
         least=0.0, stage=_S.MEASUREMENT),
    Axis("latency_bound_s", "float", 0.1, False,
         "what the 99th percentile of the latency must keep to in scenario server, in seconds",
         least=0.000001, stage=_S.MEASUREMENT),
    Axis("samples_per_query", "int", 8, True, "samples of a query in scenario multi_stream",
         least=1, stage=_S.MEASUREMENT),
)  # fmt: skip


def scalar_word(value: Scalar) -> str:
    """Return a value as it is typed: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def axes_of(*stages: AxisStage) -> tuple[str, ...]:
    """Return the names of the axes of these stages, in the order of the stages."""
    return tuple(axis.name for stage in stages for axis in AXES.values() if axis.stage == stage)


def followers(name: str) -> tuple[str, ...]:
    """Return the names of the axes that are usually set by that one, and change no speed."""
    return tuple(axis.name for axis in AXES.values() if axis.follows == name)


LOADER_AXES = axes_of(AxisStage.LOADER)  # they mean something only where a loader feeds
DATALOADER_AXES = axes_of(AxisStage.BATCH, AxisStage.LOADER)  # by the names of torch's DataLoader's arguments


def axis_named(name: str, among: Iterable[str] | None = None, of: str = "") -> Axis:
    """Return the Axis of that name. `among`: the axes that `of` has, for example "task infer and hf:bert-tiny".

    Raises UsageError for a name that is no axis, with the nearest spelling, or an axis that `of` has not.
    """
    known = tuple(AXES if among is None else among)
    if name not in AXES:
        raise unknown("axis", name, known)
    if name not in known:
        raise UsageError(f"axis {name} does not apply to {of}; its axes: {', '.join(known)}")
    return AXES[name]


def axis_values(name: str, values: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Return the values that the words `values` spell on an axis, each once. Raises UsageError naming the axis."""
    axis = axis_named(name)
    if not values:
        raise UsageError(f"axis {name} has no value; write {name}={axis.default}")
    return tuple(dict.fromkeys(axis.parse(value) for value in values))


VARIANT_AXES = ("runtime", "quantization")


def variant_name(configuration: Mapping[str, Scalar]) -> str:
    """Return what computes the model, and in which format: "onnxruntime int8-dynamic", "eager bf16"; "eager": fp32."""
    runtime, quantization = configuration.get("runtime") or EAGER, configuration.get("quantization") or UNQUANTIZED
    formats = quantization if quantization != UNQUANTIZED else "", str(configuration.get("precision") or "fp32")
    return " ".join(map(str, (runtime, *(one for one in formats if one not in ("", "fp32")))))
