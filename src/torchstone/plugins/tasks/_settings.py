"""Turns a Configuration into torch's own switches, as a user would set them; refuses what cannot be done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.metric import DATA, TRANSFER
from torchstone.core.schema.model import Batch, LoadedModel
from torchstone.plugins.machine_protocols import Device
from torchstone.plugins.protocols import Mark

Work = Callable[[Any, Mapping[str, Any]], Any]

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
# What a model's attention goes through. A mode sees nn.MultiheadAttention as one call, and not what it calls in turn.
_CALLS = {
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
    "_transformer_encoder_layer_fwd",
    "_native_multi_head_attention",
}
_NONE_FITS = ("No available kernel", "No viable backend")  # how torch's messages begin, on devices and on CPUs
_NEEDS = {
    "flash": "on a GPU it takes fp16 and bf16 without a mask, on a CPU no dropout",
    "cudnn": "it takes fp16 and bf16",
}

_held = ExitStack()
_set: Mapping[str, bool] = {}  # the switches as they were left here
_seen: WeakSet[Any] = WeakSet()


def allow(kernel: Scalar) -> None:
    """Let torch take that kernel and no other from here on, or with `auto` those it had at first.

    For the whole process: a checkpointed forward pass is done again in the backward pass, outside of any `with`.
    Where others have set the switches since, as a user's own process may, what there was at first is theirs.
    """
    global _set
    if _switches() != _set:
        _held.pop_all()
    _held.close()
    if kernel not in ("auto", None):
        _held.enter_context(sdpa_kernel(_KERNELS[str(kernel)]))
    _set = _switches()


def _switches() -> Mapping[str, bool]:
    return {name: getattr(cuda, f"{name}_sdp_enabled")() for name in ("flash", "mem_efficient", "math", "cudnn")}


def insisting(work: Work, kernel: Scalar, *, compiles: bool) -> Work:
    """Return `work` raising Unsupported where a model's attention cannot use that kernel, or where there is none.

    Only the first call for each module is watched: a mode costs microseconds an operator. Compiled code is not: it
    would be compiled a second time without the mode.
    """
    if kernel in ("auto", None):
        return work

    def insists(module: Any, tensors: Mapping[str, Any]) -> Any:
        try:
            if compiles or module in _seen:
                return work(module, tensors)
            with _Watch() as watch:
                result = work(module, tensors)
        except RuntimeError as error:
            if not any(words in str(error) for words in _NONE_FITS):
                raise
            needs = f": {_NEEDS[str(kernel)]}" if kernel in _NEEDS else ""
            raise Unsupported(f"sdpa={kernel}: torch has no such kernel for this model's attention{needs}") from error
        if not watch.called:
            raise Unsupported(f"sdpa={kernel}: the model does not call scaled_dot_product_attention")
        _seen.add(module)
        return result

    return insists


class _Watch(TorchFunctionMode):
    """Notes whether attention is among what torch is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.called = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _CALLS:
            self.called = True
        return func(*args, **(kwargs or {}))


_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def refuse(configuration: Mapping[str, Scalar], model: LoadedModel, device: Device) -> None:
    """Raise Unsupported, with the reason, for the first value that the device or the model cannot do."""
    for axis, value in configuration.items():
        for says in (device.objection, model.objection):
            reason = says(axis, value) if says is not None else None
            if reason is not None:
                raise Unsupported(f"{axis}={value}: {reason}")


def set_numerics(configuration: Mapping[str, Scalar]) -> None:
    """Set the process-wide switches: threads, the kernel of attention, and whether fp32 products may run in TF32."""
    threads = configuration.get("threads")
    if threads:
        torch.set_num_threads(int(threads))
    allow(configuration.get("sdpa"))
    tf32 = configuration.get("precision") == "tf32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32


@contextmanager
def full_precision(configuration: Mapping[str, Scalar]) -> Iterator[None]:
    """Compute fp32 products in fp32, by any kernel; then as the Configuration says again."""
    set_numerics({"precision": "fp32"})
    try:
        yield
    finally:
        set_numerics(configuration)


def in_effect(configuration: Mapping[str, Scalar], device: Device) -> Facts:
    """Return what torch has settled on by itself, and how the precision is carried out, for the record."""
    kind = torch.device(device.torch_device).type
    return Facts(
        threads_in_effect=torch.get_num_threads(),
        float32_matmul_precision=torch.get_float32_matmul_precision(),
        flash_attention_allowed=torch.backends.cuda.flash_sdp_enabled(),
        precision_in_effect=_carried_out(str(configuration.get("precision")), kind),
    )


def _carried_out(precision: str, kind: str) -> str | None:
    """Return what a number format's name leaves open, which others may do otherwise; None: nothing."""
    if precision in _DTYPES:
        return "autocast"
    if kind != "cuda" or torch.version.hip is not None:
        return None
    return {"fp32": "tf32_off", "tf32": "tf32_on"}.get(precision)


Pull = Callable[[], Batch]


def in_precision(work: Work, configuration: Mapping[str, Scalar], device: Device) -> Work:
    """Return `work` under autocast for bf16 and fp16, and insisting on the kernel of attention that was asked for.

    For the other formats, and torch's own order of kernels, it is as it was, at no cost a step.
    """
    work = insisting(work, configuration.get("sdpa"), compiles=configuration.get("compile", "off") != "off")
    dtype = _DTYPES.get(str(configuration.get("precision")))
    if dtype is None:
        return work
    kind = torch.device(device.torch_device).type

    def under_autocast(module: Any, tensors: Mapping[str, Any]) -> Any:
        with torch.autocast(device_type=kind, dtype=dtype):
            return work(module, tensors)

    return under_autocast


def move_to_device(module: torch.nn.Module, configuration: Mapping[str, Scalar], device: Device) -> torch.nn.Module:
    """Move the module to the device, with the memory layout and checkpointing asked for."""
    if configuration.get("gradient_checkpointing"):
        switch_checkpointing(module, on=True)
    if nhwc(configuration):
        if not any(parameter.dim() == 4 for parameter in module.parameters()):
            raise Unsupported("channels_last=on: the model has no convolutions")
        layout: Any = {"memory_format": torch.channels_last}  # torch's stub does not know the keyword
        module = module.to(**layout)
    return module.to(device.torch_device)


def nhwc(configuration: Mapping[str, Scalar]) -> bool:
    """Say whether images are laid out as NHWC. An `auto` that nobody decided is as torch has it: NCHW."""
    return configuration.get("channels_last") in (True, "on")


def switch_checkpointing(module: Any, *, on: bool) -> None:
    """Switch activation checkpointing by the method that the models of transformers and timm, or the user's, have."""
    word = "enable" if on else "disable"
    for name in (
        f"activation_checkpointing_{word}",
        f"gradient_checkpointing_{word}",
    ):  # the second: transformers < 5.20
        if hasattr(module, name):
            getattr(module, name)()
            return
    if hasattr(module, "set_grad_checkpointing"):  # timm
        module.set_grad_checkpointing(on)
        return
    if on:
        raise Unsupported(
            "gradient_checkpointing=True: the model has no gradient_checkpointing_enable(); add one, "
            "or call torch.utils.checkpoint in its forward"
        )


def compiled(module: torch.nn.Module, configuration: Mapping[str, Scalar]) -> Any:
    """Return the module under torch.compile in the mode asked for, or as it is."""
    mode = configuration.get("compile", "off")
    if mode == "off":
        return module
    return torch.compile(module, mode=None if mode == "default" else str(mode))


def fetcher(configuration: Mapping[str, Scalar], device: Device) -> Callable[[Pull, Mark], Mapping[str, Any]]:
    """Return what pulls a batch and brings it to the device, in the layout asked for. Resident batches are there."""
    if configuration.get("feed") == "resident":

        def take(pull: Pull, mark: Mark) -> Mapping[str, Any]:
            tensors = pull().tensors
            mark(DATA)
            return tensors

        return take
    pinned, last = bool(configuration.get("pin_memory")), nhwc(configuration)

    def move(pull: Pull, mark: Mark) -> Mapping[str, Any]:
        tensors = pull().tensors
        mark(DATA)
        moved = {name: tensor.to(device.torch_device, non_blocking=pinned) for name, tensor in tensors.items()}
        if last:
            for name, tensor in moved.items():
                if tensor.dim() == 4:
                    moved[name] = tensor.contiguous(memory_format=torch.channels_last)
        mark(TRANSFER)
        return moved

    return move
