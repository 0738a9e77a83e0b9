"""What kernels of a CPU allocate inside of themselves, where that is not small: no operator shows it.

Found by letting the allocator report to the profiler (benchmarks/memory_model.py), of torch 2.13:

An LSTM layer of oneDNN keeps a workspace for the backward pass of 16 numbers for each of steps × items × width (gates,
states and cells; src/cpu/rnn/rnn_utils.cpp), works in four to five more, and reorders its weights. A convolution in half
precision, on a CPU whose instructions do not take that format, unfolds its input to columns (aten/src/ATen/native/ConvolutionMM2d.cpp).
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

_LSTM, _LSTM_BACKWARD = torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default
_CONVOLUTION, _CONVOLUTION_BACKWARD = torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default
_KEPT, _WORKED_IN = 16.0, 4.5  # numbers for each step, item and unit of an LSTM
_TRAINS, _WORKSPACE = 15, 3  # places among the arguments and the results of an LSTM layer


def with_buffers(func: Any, args: tuple[Any, ...], result: Any) -> tuple[Any, int]:
    """Return the result with what it keeps for the backward pass, and the bytes that lived while it was computed."""
    if func is _LSTM:
        numbers = _lstm_numbers(args[0], args[5])
        if args[_TRAINS]:
            kept = torch.empty(int(_KEPT * numbers * args[0].element_size()), dtype=torch.uint8)
            result = (*result[:_WORKSPACE], kept)
        return result, _lstm_bytes(args, numbers)
    if func is _LSTM_BACKWARD:
        return result, _lstm_bytes(args, _lstm_numbers(args[0], args[5]))
    if func is _CONVOLUTION and _unfolds(args[0]):
        return result, _columns_bytes(args[1], result)
    if func is _CONVOLUTION_BACKWARD and _unfolds(args[1]):
        return result, _columns_bytes(args[2], args[0])
    return result, 0


def _lstm_numbers(sequence: Any, state: Any) -> int:
    """Return steps × items × width."""
    return int(prod(sequence.shape[:2]) * state.shape[-1])


def _lstm_bytes(args: tuple[Any, ...], numbers: int) -> int:
    weights = sum(weight.numel() for weight in args[1:3])
    return int((_WORKED_IN * numbers + weights) * args[0].element_size())


def _unfolds(images: Any) -> bool:
    if images.dtype == torch.bfloat16:
        return images.dim() == 4 and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return images.dtype == torch.float16 and images.dim() == 4 and not torch.ops.mkldnn._is_mkldnn_fp16_supported()


def _columns_bytes(weight: Any, out: Any) -> int:
    """Return the columns of a whole batch: one for each pixel that comes out; none for a kernel of one pixel."""
    if prod(weight.shape[2:]) == 1:
        return 0
    return int(out.shape[0] * prod(weight.shape[1:]) * prod(out.shape[2:]) * weight.element_size())
