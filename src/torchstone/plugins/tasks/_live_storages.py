"""Tracks every storage of a device from allocation to release, without data: live bytes over time.

A TorchDispatchMode above FakeTensorMode sees each operator that reaches a kernel with what it returns; a weak reference
on each new storage tells its end. Python frees at once what nothing refers to, and autograd what its nodes let go, so
that the order of births and deaths is that of a real step. What a kernel allocates and frees inside of itself is not
seen (workspace of convolutions, buffers of threads): docs/memory.md has what that costs.

torch.distributed._tools.mem_tracker.MemTracker does the same with hooks on every module. It is not used here: its
package is private and imports torch.distributed, which not every build has; it takes one iteration of a module and no
second (the peak of a training is in its second step, when the optimizer has its state); it books inputs as "other" and
the temporaries of an optimizer as its state; and it knows no course over time, from which a caching allocator's
reserve follows. The idea of kinds by origin is also that of DNNMem (Gao et al., ESEC/FSE 2020), which walks a graph
with a formula for each operator; here each operator's own shape function is asked.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_VALUE = torch.ops.aten._local_scalar_dense.default
# What work would have found in a tensor that has none: a mask has a hole, a count is 1, nothing is infinite.
_TOLD = {torch.bool: False}


class Birth(NamedTuple):
    """An allocation: its bytes, the phase in which it was made, and whether gradients were on while it was."""

    size: int
    phase: str
    recorded: bool


class LiveStorages(TorchDispatchMode):
    """Use as a context manager, inside of FakeTensorMode.

    granule: bytes that a size is rounded up to. instead: what is called in place of an operator. inner: operator,
    arguments, result → the result with what it keeps, and the bytes that lived only inside of it.
    births: by number. course: (number, bytes) in order, negative where a storage dies. phase: set from outside.
    """

    def __init__(
        self,
        granule: int = 1,
        instead: Mapping[Any, Callable[..., Any]] | None = None,
        inner: Callable[[Any, tuple[Any, ...], Any], tuple[Any, int]] | None = None,
    ) -> None:
        super().__init__()
        self._granule, self._instead, self._inner = granule, instead or {}, inner
        self._numbers: dict[int, int] = {}
        self._watched: dict[int, Any] = {}
        self.phase = "build"
        self.births: list[Birth] = []
        self.course: list[tuple[int, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and take note of what it allocated."""
        kwargs = kwargs or {}
        if func is _VALUE:
            return _value(args[0])
        if func in self._instead:
            with self:
                return self._instead[func](*args, **kwargs)
        if torch.is_inference_mode_enabled() and _has_parts(func):
            # Inference tensors have no autograd key, under which composite operators fall into their parts. Not
            # `decompose`: of some it takes a Python version, which lets go of its tensors earlier.
            with self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        if func.overloadpacket.__name__.startswith("_fused_") and not func._schema.returns:
            return None  # an update in place: it allocates nothing, and not all have a shape function
        result = func(*args, **kwargs)
        result, passing = (result, 0) if self._inner is None else self._inner(func, args, result)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        self._pass(passing)
        return result

    def _pass(self, size: int) -> None:
        """Take note of bytes that lived while an operator was computed."""
        if size:
            number = len(self.births)
            self.births.append(Birth(size, self.phase, False))
            self.course += [(number, size), (number, -size)]

    def see(self, tensor: torch.Tensor) -> None:
        """Take note of a tensor's storage, where it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._numbers:
            return
        size = -(-storage.nbytes() // self._granule) * self._granule
        if size == 0:
            return
        number = len(self.births)
        self._numbers[key] = number
        self.births.append(Birth(size, self.phase, torch.is_grad_enabled()))
        self.course.append((number, size))
        self._watched[number] = weakref.ref(storage, lambda _: self._died(number, key))

    def _died(self, number: int, key: int) -> None:
        del self._numbers[key]
        del self._watched[number]
        self.course.append((number, -self.births[number].size))

    def numbers_of(self, tensors: Iterable[Any]) -> set[int]:
        """Return the numbers of the storages of tensors; None and what is elsewhere have none."""
        found = {self._numbers.get(tensor.untyped_storage()._cdata) for tensor in tensors if tensor is not None}
        return {number for number in found if number is not None}

    @property
    def alive(self) -> set[int]:
        """The numbers of what lives now."""
        return set(self._numbers.values())

    def since(self, begin: int) -> Iterator[tuple[int, int]]:
        """Yield (place in the course, bytes alive after it) from a place on."""
        alive = 0
        for place, (_, size) in enumerate(self.course):
            alive += size
            if place >= begin:
                yield place, alive

    def alive_at(self, place: int) -> set[int]:
        """Return the numbers of what lived after that place of the course."""
        living: set[int] = set()
        for number, size in self.course[: place + 1]:
            if size > 0:
                living.add(number)
            else:
                living.discard(number)
        return living


def _has_parts(func: Any) -> bool:
    if func.namespace != "aten":  # prim's are not in the dispatcher
        return False
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE.name))


def _value(tensor: Any) -> bool | int | float:
    """Return what `.item()` tells: the value where it is known, else one that leads on."""
    known = getattr(tensor, "constant", None)
    if known is not None:
        found: bool | int | float = known.item()
        return found
    if tensor.dtype in _TOLD:
        return _TOLD[tensor.dtype]
    return 1.0 if tensor.dtype.is_floating_point else 1
