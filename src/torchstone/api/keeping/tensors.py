"""Keeps a tensor: its values in host memory, and in place its memory, device, format, gradient and class."""

from __future__ import annotations

from typing import Any

Memory = tuple[Any, ...]  # where values lie: tensors that share it are kept once


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # dictionaries, made with the first hook


class KeptTensor:
    """One tensor as it is now. Its values are copied by `KeptMemory`; here is what else there is to it."""

    def __init__(self, tensor: Any) -> None:
        from torch.nn.parameter import is_lazy

        self.tensor = tensor
        self._kind = type(tensor)
        # A second name for the same memory: whatever the module is moved or converted to, this stays where it is.
        self._data = tensor.data
        self._needs_gradient = tensor.requires_grad
        self._grad = tensor.grad if tensor.is_leaf else None
        self._without_hooks = [name for name in _HOOKS if getattr(tensor, name, None) is None]
        self.memory = None if is_lazy(tensor) else KeptMemory(self._data)

    def without_gradient(self) -> None:
        """Set the gradient aside: nothing is added to it, and nothing of it to what is measured."""
        if self._grad is not None:
            self.tensor.grad = None

    def put_back(self) -> None:
        """Put all but the values back."""
        tensor = self.tensor
        if tensor.is_leaf and tensor.grad is not None and tensor.grad is not self._grad:
            tensor.grad = None  # of another device, it would not let the memory be changed
        if self.memory is None or not _alike(tensor, self._data):
            tensor.data = self._data
        if type(tensor) is not self._kind:
            tensor.__class__ = self._kind
        if tensor.is_leaf and tensor.requires_grad != self._needs_gradient:
            tensor.requires_grad_(self._needs_gradient)
        for name in self._without_hooks:
            if getattr(tensor, name, None) is not None:
                setattr(tensor, name, None)
        if self._grad is not None and tensor.grad is not self._grad:
            tensor.grad = self._grad


class KeptMemory:
    """The values that lie in the memory of a tensor."""

    def __init__(self, data: Any) -> None:
        self._place, flat = _flat(data)
        self.size_bytes = sum(part.numel() * part.element_size() for part in _parts(self._place))
        self.key: Memory = (data.device, flat.data_ptr(), flat.numel(), flat.dtype) if flat is not None else (id(data),)
        self._values: Any = None

    def copy(self) -> None:
        """Copy the values into host memory."""
        if self.size_bytes:
            self._values = self._place.detach().to("cpu", copy=True)

    def put_back(self) -> None:
        """Write the values back where they were."""
        import torch

        if self._values is not None:
            with torch.inference_mode():  # which is also allowed to write to what was made in it
                self._place.copy_(self._values)


def _flat(data: Any) -> tuple[Any, Any]:
    """Return the tensor to copy, and the same if it is a flat view of memory, None if that is not known.

    Flat, an expanded tensor is no larger than what it expands, and one whose rows overlap can be written to.
    """
    import torch

    plain = type(data) is torch.Tensor and data.layout is torch.strided and not data.is_quantized
    if not plain or not data.numel() or data.device.type == "meta":
        return data, None
    extent = 1 + sum((size - 1) * stride for size, stride in zip(data.shape, data.stride(), strict=True))
    flat = data.as_strided((extent,), (1,), data.storage_offset())
    return flat, flat


def _parts(data: Any) -> tuple[Any, ...]:
    """Return the tensors in which the values of a tensor lie: itself, unless it is sparse."""
    import torch

    if data.device.type == "meta":
        return ()
    if data.layout is torch.sparse_coo:
        return (data._indices(), data._values())
    return (data,) if data.layout is torch.strided else (data.values(),)


def _alike(tensor: Any, data: Any) -> bool:
    import torch

    if (tensor.device, tensor.dtype, tensor.shape) != (data.device, data.dtype, data.shape):
        return False
    if _flat(data)[1] is None or tensor.layout is not torch.strided:
        return False
    return bool(tensor.stride() == data.stride() and tensor.data_ptr() == data.data_ptr())
