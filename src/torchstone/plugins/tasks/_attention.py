"""Which kernel torch may take for scaled_dot_product_attention, and whether a model calls it at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet

from torch.backends import cuda
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar

Work = Callable[[Any, Mapping[str, Any]], Any]

_KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH,
}  # fmt: skip
# What a model's attention goes through. A mode sees nn.MultiheadAttention as one call, and not what it calls in turn.
_CALLS = {
    "scaled_dot_product_attention", "multi_head_attention_forward", "_transformer_encoder_layer_fwd",
    "_native_multi_head_attention",
}  # fmt: skip
_NONE_FITS = ("No available kernel", "No viable backend")  # how torch's messages begin, on devices and on CPUs
_NEEDS = {
    "flash": "on a GPU it takes fp16 and bf16 without a mask, on a CPU no dropout", "cudnn": "it takes fp16 and bf16",
}  # fmt: skip

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
