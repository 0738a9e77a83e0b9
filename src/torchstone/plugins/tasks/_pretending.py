"""Runs torch on tensors without data, on request with an accelerator's code paths.

Tensors say `cpu` all the same: autograd refuses a device that the build has no runtime for (2.13: "PyTorch is not
linked with support for cuda devices"), and a card that is here must not be woken. Where CUDA allocates otherwise than a
CPU does for the same call, the call is given CUDA's way for the length of the `with`, by kernels registered in Python:

autocast  casts to fp32 what CUDA's lists say (torch.amp, "CUDA Ops that can autocast to float32"): a CPU's are shorter
dropout   keeps a byte a number (native_dropout), where a CPU keeps a number
attention takes the kernel that torch would choose there (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from torchstone.core.schema.axis import Scalar

Instead = Mapping[Any, Callable[..., Any]]  # operator → what is called in its place

_HALF = (torch.float16, torch.bfloat16)
_WIDEST_FLASH = 256  # numbers in a head
# Of CUDA's list, what models and losses call; a CPU's own list has the other losses.
_IN_FP32 = (
    "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "pow.Tensor_Scalar", "pow.Tensor_Tensor",
    "pow.Scalar", "softplus", "layer_norm", "group_norm", "cosine_similarity", "kl_div", "logsumexp", "renorm", "dist",
    "binary_cross_entropy_with_logits", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss",
)  # fmt: skip
_INTO_FP32 = ("softmax.int", "log_softmax.int", "cumsum", "cumprod", "sum", "sum.dim_IntList", "prod", "prod.dim_int")


@contextmanager
def pretending(kernel: Scalar, kernels: tuple[str, ...] | None) -> Iterator[Instead]:
    """Enter FakeTensorMode; yield what is to be called in place of operators where there is no autograd.

    kernel: of attention, as asked for (`auto` or a name). kernels: those that an accelerator has; None: it is the CPU.
    """
    # No fallback: an operator without a shape function would be computed on real zeros, unseen.
    mode = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    instead: dict[Any, Callable[..., Any]] = {}
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        torch.backends.mha.set_fastpath_enabled(False)  # the fast path of nn.TransformerEncoder has no shape function
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        if kernels is not None:
            stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
            attend = _attending(str(kernel or "auto"), kernels)
            stack.enter_context(_as_on_cuda(attend))
            instead[torch.ops.aten.scaled_dot_product_attention.default] = attend
        stack.enter_context(mode)
        yield instead


@contextmanager
def _as_on_cuda(attend: Callable[..., Any]) -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("scaled_dot_product_attention", attend, "AutogradCPU")
        library.impl("dropout", _drop, "AutogradCPU")
        for name in _IN_FP32:
            library.impl(name, _in_fp32(_operator(name)), "AutocastCPU")
        for name in _INTO_FP32:
            library.impl(name, _into_fp32(_operator(name)), "AutocastCPU")
        yield
    finally:
        library._destroy()


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _in_fp32(operator: Any) -> Callable[..., Any]:
    """Return the operator with half precision cast to fp32 before it."""

    def cast(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype in _HALF else value

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            return operator(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})

    return run


def _into_fp32(operator: Any) -> Callable[..., Any]:
    """Return the operator with fp32 as the format of its result, unless another was asked for."""

    def run(*args: Any, **kwargs: Any) -> Any:
        first = args[0]
        names = [argument.name for argument in operator._schema.arguments]
        given = dict(zip(names, args, strict=False))
        if first.dtype in _HALF and given.get("dtype") is None and kwargs.get("dtype") is None:
            args = args[: names.index("dtype")] if "dtype" in given else args
            kwargs["dtype"] = torch.float32
        with torch.autocast("cpu", enabled=False):
            return operator(*args, **kwargs)

    return run


def _drop(values: Any, p: float, train: bool) -> Any:
    if not train or p == 0.0:
        return values
    return torch.ops.aten.native_dropout(values, p, train)[0]


def _attending(kernel: str, kernels: tuple[str, ...]) -> Callable[..., Any]:
    """Return scaled_dot_product_attention by the kernel that torch would take, in its own order."""
    aten = torch.ops.aten

    def attend(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        *, scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        taken = _taken(kernel, kernels, query, value, attn_mask)
        if taken == "flash":
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
        if enable_gqa and key.size(1) != query.size(1):  # only flash reads a head several times
            repeats = query.size(1) // key.size(1)
            key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        if taken == "efficient":
            differentiates = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, _bias(attn_mask, query, key), differentiates, dropout_p, is_causal, scale=scale
            )[0]
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale
        )[0]

    return attend


def _taken(kernel: str, kernels: tuple[str, ...], query: Any, value: Any, mask: Any) -> str:
    """Return flash, efficient or math. cuDNN's kernel keeps what flash keeps."""
    half = query.dtype in _HALF and mask is None and query.dim() == 4 and query.size(-1) <= _WIDEST_FLASH
    fused = query.dim() == 4 and query.size(-1) == value.size(-1) and not (mask is not None and mask.requires_grad)
    can = {"flash": half, "cudnn": half, "efficient": fused}
    wanted = ("flash", "efficient") if kernel == "auto" else (kernel,)
    found = next((name for name in wanted if name in kernels and can.get(name, False)), "math")
    return "flash" if found == "cudnn" else found


def _bias(mask: Any, query: Any, key: Any) -> Any:
    """Return a mask as the efficient kernel takes it: in the query's format, seen as items × heads × both lengths."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype)
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
