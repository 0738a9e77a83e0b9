"""Operations of one step, counted outside timing by torch's FlopCounterMode with its known gaps closed.

On a CPU torch 2.13 counts 0 for its flash-attention kernel, for the fast path of nn.TransformerEncoder and for oneDNN's
LSTM (pytorch/pytorch#195460): attention is counted by its plain formula, the fast path and oneDNN are switched off.
Of a convolution in groups it counts the gradient of the weights without the groups, many times too much: here each
gradient costs what the convolution does. A multiply-add is 2 operations; element-wise work is left out; causal
attention counts as full; recomputation under activation checkpointing is not counted, for it is not the model's work.
Traffic and operators are counted on the way (_traffic.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.counted import Counted
from torchstone.plugins.tasks._settings import switch_checkpointing
from torchstone.plugins.tasks._traffic import Attention, Traffic
from torchstone.plugins.tasks._twin import twin

Work = Callable[[Any, Mapping[str, Any]], Any]  # module, tensors → what to backpropagate, or None


_HALF = ("bf16", "fp16")


def count(module: torch.nn.Module, work: Work, tensors: Mapping[str, Any], precision: Scalar = "fp32") -> Counted:
    """Return what that work needs, or why it is not counted. Runs on meta tensors: no arithmetic, no memory."""
    try:
        with warnings.catch_warnings():
            # Switching oneDNN off makes torch 2.13 warn about TF32 on Intel GPUs, which nobody asked for.
            warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN", UserWarning)
            shapes = {name: tensor.to("meta") for name, tensor in tensors.items()}
            counted = _counted(_on_meta(module), work, shapes, Traffic(2 if precision in _HALF else 4))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        said = f"{type(error).__name__}: {_first_line(error)}"
        return Counted(why_not=Statement("not_on_meta", {"error": said}))
    if counted.flops == 0:
        return Counted(why_not=Statement("no_formula"))
    return counted


def _counted(module: torch.nn.Module, work: Work, tensors: Mapping[str, Any], traffic: Traffic) -> Counted:
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            sdpa_kernel(SDPBackend.MATH),
            torch.backends.mkldnn.flags(enabled=False),
            traffic,
            FlopCounterMode(display=False, custom_mapping=_FORMULAS) as counter,
        ):
            with Attention(traffic) as attention:
                loss = work(module, tensors)
            if loss is not None:
                loss.backward()
                attention.backpropagated()
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    return Counted(float(counter.get_total_flops()), float(traffic.bytes), float(traffic.operators))


def _convolution_backward(
    grad_out: Any, images: Any, weight: Any, _bias: Any, _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
    _output_padding: Any, _groups: Any, output_mask: Any, **_out: Any,
) -> int:  # fmt: skip
    """Return what the wanted gradients of inputs and weights cost, of the shapes of what goes in."""
    once = conv_flop_count(images, weight, grad_out, transposed)
    return once * (bool(output_mask[0]) + bool(output_mask[1]))


_FORMULAS = {torch.ops.aten.convolution_backward: _convolution_backward}


def _on_meta(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy whose parameters and buffers are shapes only."""
    shapes = twin(module, lambda tensor: tensor.to("meta"))
    switch_checkpointing(shapes, on=False)
    return shapes


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:120]
