"""A torch that believes in a device that is not there, for the length of a `with`: what CUDA would do, without data.

FakeTensorMode lets tensors say that they are on `cuda` in a build without it, and autocast, dropout and optimizers go
their CUDA ways by that. Three things ask for a real device all the same, and are answered here: whether autocast may be
used, which kernel scaled_dot_product_attention takes (without a device torch would take the plain formula, which keeps
every score), and whether an optimizer's loop over tensors is torch's own (foreach, which makes temporaries).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from torchstone.terms.axis import Scalar

_HALF = (torch.float16, torch.bfloat16)
_WIDEST_FLASH = 256  # numbers in a head


@contextmanager
def pretending(kind: str, kernel: Scalar, kernels: tuple[str, ...]) -> Iterator[Mapping[Any, Callable[..., Any]]]:
    """Enter FakeTensorMode, with a `cuda` in it if that is the kind; yield what is to be called instead of operators.

    kernel: of attention, as asked for (`auto` or a name); kernels: those that the device has.
    """
    fast_path = torch.backends.mha.get_fastpath_enabled()
    # No fallback: an operator without a shape function would be computed on real zeros, unseen.
    instead: dict[Any, Callable[..., Any]] = {}
    mode = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        torch.backends.mha.set_fastpath_enabled(False)  # the fast path of nn.TransformerEncoder has no shape function
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        if kind == "cuda":
            for target, name, value in (
                (torch.cuda, "is_available", lambda: False),  # a real one is not to be woken
                (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
                (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
            ):
                stack.enter_context(patch.object(target, name, value))
            attend = _attending(str(kernel or "auto"), kernels)
            stack.enter_context(_registered(attend))
            instead[torch.ops.aten.scaled_dot_product_attention.default] = attend
        # Backward passes run in this thread: a device's own thread does not exist without the device.
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        stack.enter_context(mode)
        yield instead


@contextmanager
def _registered(attend: Callable[..., Any]) -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("scaled_dot_product_attention", attend, "AutogradCUDA")
        yield
    finally:
        library._destroy()


def _attending(kernel: str, kernels: tuple[str, ...]) -> Callable[..., Any]:
    """Return scaled_dot_product_attention by the kernel that torch would take (sdp_utils.cpp), in its own order."""
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
    """Return a mask as the efficient kernel is given it: in the query's format, seen as items × heads × both lengths."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype)
    return mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
