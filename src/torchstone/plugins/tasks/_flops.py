"""Operations of one step, counted outside timing by torch's FlopCounterMode with its known gaps closed.

On a CPU torch 2.13 counts 0 for its flash-attention kernel, for the fast path of nn.TransformerEncoder and for oneDNN's
LSTM (pytorch/pytorch#195460): attention is counted by its plain formula, the fast path and oneDNN are switched off.
Of a convolution in groups it counts the gradient of the weights without the groups, many times too much: here each
gradient costs what the convolution does. A multiply-add is 2 operations; element-wise work is left out; causal
attention counts as full; recomputation under activation checkpointing is not counted, for it is not the model's work.
Traffic and operators are counted on the way.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count, flop_registry

from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.machine import StepCounts
from torchstone.plugins.tasks._settings import switch_checkpointing


def twin(module: torch.nn.Module, place: Callable[[Any], Any]) -> torch.nn.Module:
    """Return a copy with `place(tensor)` for every parameter and buffer; the memo keeps deepcopy from their data.

    Tensors that several modules share stay shared.
    """
    memo: dict[int, Any] = {}
    for parameter in module.parameters():
        memo[id(parameter)] = torch.nn.Parameter(place(parameter.detach()), requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        memo[id(buffer)] = place(buffer.detach())
    return copy.deepcopy(module, memo)


# The traffic and the operators of a step, counted on shapes: what every product reads and writes, each byte once.
#
# Attention through scaled_dot_product_attention counts as one product: queries, keys and values in, the result out, and
# twice that for its gradients, as in the kernels that never write the scores (Dao et al., FlashAttention, NeurIPS
# 2022).

_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_NO_WORK = ("empty", "new_empty", "detach", "alias", "lift_fresh")  # operators that make room or names only


class Traffic(TorchDispatchMode):
    """Counts while it is entered. `width_bytes`: of a number in a product; autocast narrows those that are wider."""

    def __init__(self, width_bytes: int) -> None:
        super().__init__()
        self.bytes = 0
        self.operators = 0
        self._width_bytes = width_bytes

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Carry out one operator, and count it."""
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        if packet in flop_registry:
            self.bytes += self.of((args, out))
        if not _is_view(func) and not packet.__name__.startswith(_NO_WORK):
            self.operators += 1
        return out

    def of(self, parts: Any) -> int:
        """Return the bytes of all tensors in `parts`; what is repeated by its strides is there once."""
        return sum(
            min(tensor.numel(), tensor.untyped_storage().nbytes() // max(1, tensor.element_size()))
            * min(tensor.element_size(), self._width_bytes)
            for tensor in _tensors(parts)
        )


class Attention(TorchFunctionMode):
    """Keeps account of attention while it is entered: what its parts moved, and what a fused kernel would have."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic
        self._excess = 0  # of the parts over the whole, where gradients follow

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function; count attention as one product."""
        if func is not _ATTENTION:
            return func(*args, **(kwargs or {}))
        before = self._traffic.bytes
        out = func(*args, **(kwargs or {}))
        whole = self._traffic.of((args, dict(kwargs or {}), out))
        excess = max(0, self._traffic.bytes - before - whole)
        self._traffic.bytes -= excess
        self._excess += excess if out.requires_grad else 0
        return out

    def backpropagated(self) -> None:
        """Take the excess off the gradients, too: each of the parts has two, of the same size as itself."""
        self._traffic.bytes -= 2 * self._excess


def _tensors(parts: Any) -> Iterator[Any]:
    if isinstance(parts, torch.Tensor):
        yield parts
    elif isinstance(parts, Mapping):
        for part in parts.values():
            yield from _tensors(part)
    elif isinstance(parts, list | tuple):
        for part in parts:
            yield from _tensors(part)


def _is_view(func: Any) -> bool:
    aliases = [argument.alias_info for argument in func._schema.arguments]
    return any(alias is not None and not alias.is_write for alias in aliases)


Work = Callable[[Any, Mapping[str, Any]], Any]  # module, tensors → what to backpropagate, or None


_HALF = ("bf16", "fp16")


def count(module: torch.nn.Module, work: Work, tensors: Mapping[str, Any], precision: Scalar = "fp32") -> StepCounts:
    """Return what that work needs, or why it is not counted. Runs on meta tensors: no arithmetic, no memory."""
    try:
        with warnings.catch_warnings():
            # Switching oneDNN off makes torch 2.13 warn about TF32 on Intel GPUs, which nobody asked for.
            warnings.filterwarnings("ignore", "TF32 acceleration on top of oneDNN", UserWarning)
            shapes = {name: tensor.to("meta") for name, tensor in tensors.items()}
            counted = _counted(_on_meta(module), work, shapes, Traffic(2 if precision in _HALF else 4))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        said = f"{type(error).__name__}: {_first_line(error)}"
        return StepCounts(why_not=Statement("not_on_meta", {"error": said}))
    if counted.flops == 0:
        return StepCounts(why_not=Statement("no_formula"))
    return counted


def _counted(module: torch.nn.Module, work: Work, tensors: Mapping[str, Any], traffic: Traffic) -> StepCounts:
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
    return StepCounts(float(counter.get_total_flops()), float(traffic.bytes), float(traffic.operators))


def _convolution_backward(
    grad_out: Any,
    images: Any,
    weight: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: Any,
    output_mask: Any,
    **_out: Any,
) -> int:
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
