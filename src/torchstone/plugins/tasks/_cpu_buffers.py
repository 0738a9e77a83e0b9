"""What kernels of a CPU allocate inside of themselves, where that is not small: no operator shows it.

An LSTM layer of oneDNN keeps a workspace for the backward pass (gates, states, cells and the gradients of the latter)
and works in a scratchpad; its weights are reordered before, and their gradients after. Sizes are those of
oneDNN 3.12, src/cpu/rnn/rnn_utils.hpp (init_conf, set_workspace_sizes), for its kernels without AVX-512; rows are
padded as in get_good_ld. 3.7, of torch 2.8 to 2.10, keeps more copies of the states: a small layer tells how many.
What is allocated when: lstm.hpp of ideep, and aten/src/ATen/native/mkldnn/RNN.cpp.

A convolution in half precision, on a CPU whose instructions do not take that format, unfolds its input to columns
(aten/src/ATen/native/ConvolutionMM2d.cpp).
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

_LSTM, _LSTM_BACKWARD = torch.ops.aten.mkldnn_rnn_layer.default, torch.ops.aten.mkldnn_rnn_layer_backward.default
_CONVOLUTION, _CONVOLUTION_BACKWARD = torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default
_WORKSPACE = 3  # place among the results of an LSTM layer
_GRADIENT = 10  # place among the arguments of its backward pass, before those of the gradients of its states
_LINE_BYTES, _ALIASED = 64, 256  # a row fills lines of the cache, and is no multiple of 256 numbers
_SMALL = (15, 16, 64)  # steps, items and width of a layer whose parts are large beside a page, which each begins anew
_FEW_ITEMS = 128  # below so many, training multiplies the inputs of all steps at once


def with_buffers(func: Any, args: tuple[Any, ...], result: Any) -> tuple[Any, int]:
    """Return the result with what it keeps for the backward pass, and the bytes that lived while it was computed."""
    if func is _LSTM:
        layer, trains = _Layer.of(args), torch.is_grad_enabled()
        if trains:
            result = (*result[:_WORKSPACE], torch.empty(layer.kept_bytes, dtype=torch.uint8))
        return result, layer.forward_bytes(trains=trains) + _copied_bytes(args[0])
    if func is _LSTM_BACKWARD:
        given, states = args[_GRADIENT], args[_GRADIENT + 1 : _GRADIENT + 3]
        zeros = sum(_bytes(state) for state, of in zip(args[5:7], states, strict=True) if of is None)
        return result, _Layer.of(args).backward_bytes + zeros + (0 if given is None else _copied_bytes(given))
    if func is _CONVOLUTION and _unfolds(args[0]):
        return result, _columns_bytes(args[1], result)
    if func is _CONVOLUTION_BACKWARD and _unfolds(args[1]):
        return result, _columns_bytes(args[2], args[0])
    return result, 0


class _Layer(NamedTuple):
    """An LSTM layer in one direction: so many steps of so many items, of `inputs` and `width` numbers."""

    steps: int
    items: int
    inputs: int
    width: int
    number: int  # bytes

    @classmethod
    def of(cls, args: tuple[Any, ...]) -> _Layer:
        """Return that of the arguments of mkldnn_rnn_layer, which begin as those of its backward pass do."""
        steps, items, inputs = args[0].shape
        return cls(steps, items, inputs, args[5].shape[-1], args[0].element_size())

    @property
    def _states_bytes(self) -> int:
        """States and cells, before the first step and after each, of what goes in and of what comes out."""
        row = self._padded(max(self.inputs, self.width)) + self.width
        return 2 * (self.steps + 1) * self.items * row * self.number

    @property
    def _gradients_bytes(self) -> int:
        """Gradients of inputs, states and cells, for as many: always in fp32."""
        row = 2 * _padded(max(self.inputs, self.width), 4) + self.width
        return 2 * (self.steps + 1) * self.items * row * 4

    @property
    def kept_bytes(self) -> int:
        """The workspace of the backward pass."""
        return self._least_bytes + _more_copies() * self._copy_bytes

    @property
    def _least_bytes(self) -> int:
        gates = self.steps * self.items * (self._padded(4 * self.width) + self._padded(self.width)) * self.number
        return gates + self._states_bytes + self._gradients_bytes

    @property
    def _copy_bytes(self) -> int:
        """One more copy of the states that go in, before the first step and after each, of what goes in and comes out.

        In fp32; whether half precision has all of them in fp32, too, was not measured.
        """
        return 2 * (self.steps + 1) * self.items * _padded(max(self.inputs, self.width), 4) * 4

    def forward_bytes(self, *, trains: bool) -> int:
        """Weights as the kernel wants them, and its scratchpad."""
        weights = (self.inputs + self.width) * self._padded(4 * self.width) * self.number
        at_once = self.steps if trains and self.items < _FEW_ITEMS else 1
        return weights + self._scratch_bytes(at_once, 2 if trains else 1) + (0 if trains else self._states_bytes)

    @property
    def backward_bytes(self) -> int:
        """Weights as the backward kernel wants them, their gradients, and the scratchpad."""
        weights = 4 * self.width * (self._padded(self.inputs) + self._padded(self.width)) * self.number
        gradients = (self.inputs + self.width) * _padded(4 * self.width, 4) * 4
        return weights + gradients + self._scratch_bytes(self.steps, 2)

    def _scratch_bytes(self, at_once: int, states: int) -> int:
        """Gates of as many steps as are multiplied at once, a state and in training its gradient, in fp32."""
        return self.items * (at_once * _padded(4 * self.width, 4) + states * _padded(self.width, 4)) * 4

    def _padded(self, numbers: int) -> int:
        return _padded(numbers, self.number)


@cache
def _more_copies() -> int:
    """Return how many copies of the states this oneDNN keeps beyond those of 3.12: 3.7 keeps two."""
    steps, items, width = _SMALL
    numbers: Any = {"device": "cpu", "dtype": torch.float32}
    # Where gradients are off nothing is kept, and within a mode that follows operators nothing is computed.
    with _disable_current_modes(), torch.inference_mode(mode=False), torch.enable_grad():
        sequence, state = torch.zeros(steps, items, width, **numbers), torch.zeros(1, items, width, **numbers)
        weights = (*torch.zeros(2, 4 * width, width, **numbers), *torch.zeros(2, 4 * width, **numbers))
        few = (sequence, *weights, state, state.clone(), False, [], 2, width, 1, True, False, False, True)
        kept = _bytes(_LSTM(*few)[_WORKSPACE])
    layer = _Layer.of(few)
    return max(0, round((kept - layer._least_bytes) / layer._copy_bytes))


def _padded(numbers: int, size: int) -> int:
    """Return the length of a row that holds so many numbers of that size in bytes."""
    line = _LINE_BYTES // size
    row = -(-numbers // line) * line
    return row + line if row % _ALIASED == 0 else row


def _copied_bytes(tensor: Any) -> int:
    """Return the bytes of the copy that is made of what does not lie in one piece."""
    return 0 if tensor.is_contiguous() else _bytes(tensor)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _unfolds(images: Any) -> bool:
    if images.dtype == torch.bfloat16:
        return images.dim() == 4 and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return images.dtype == torch.float16 and images.dim() == 4 and not torch.ops.mkldnn._is_mkldnn_fp16_supported()


def _columns_bytes(weight: Any, out: Any) -> int:
    """Return the columns of a whole batch: one for each pixel that comes out; none for a kernel of one pixel."""
    if prod(weight.shape[2:]) == 1:
        return 0
    return int(out.shape[0] * prod(weight.shape[1:]) * prod(out.shape[2:]) * weight.element_size())
