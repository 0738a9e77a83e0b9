"""The traffic and the operators of a step, counted on shapes: what every product reads and writes, each byte once.

Attention through scaled_dot_product_attention counts as one product: queries, keys and values in, the result out, and
twice that for its gradients, as in the kernels that never write the scores (Dao et al., FlashAttention, NeurIPS 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

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
