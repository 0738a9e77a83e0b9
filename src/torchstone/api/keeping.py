"""What measuring in the user's own process would change, kept beforehand and put back afterwards."""

from __future__ import annotations

import random
import signal
import sys
import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from torchstone.core import units
from torchstone.core.errors import MissingError
from torchstone.core.schema.facts import Facts
from torchstone.execution.host_memory import available_bytes
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.train_loop import awake

Undo = Callable[[], object]

_ATOMS = (str, bytes, bool, int, float, complex, type(None), type)


def reached(roots: Iterable[Any], known: Iterable[Any] = ()) -> Iterator[Any]:
    """Yield each module, optimizer, container, tensor and source of random numbers that is reached and not `known`.

    The way goes through modules, optimizers and the containers of Python. Other objects, such as a trainer or a logger
    that a module refers to, are not entered: they hold threads, files and processes that nobody could put back.
    """
    import torch

    waiting = list(roots)
    seen = {id(one): one for one in known}  # the objects too, so that they live: an id is one's own only so long
    while waiting:
        one = waiting.pop()
        if isinstance(one, _ATOMS) or id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, torch.nn.Module):
            # A scripted module has its tensors and its parts outside of its attributes.
            waiting += (vars(one), *one.parameters(recurse=False), *one.buffers(recurse=False), *one.children())
        elif is_optimizer(one):
            waiting.append(vars(one))
        elif isinstance(one, torch.Tensor):
            waiting += (vars(one), one._backward_hooks, one._post_accumulate_grad_hooks)
        elif isinstance(one, dict):
            waiting += (*one.keys(), *one.values())
        elif isinstance(one, list | tuple | set | frozenset | deque):
            waiting += one
        elif random_undo(one) is None:
            continue
        yield one


def is_optimizer(one: Any) -> bool:
    """Say whether it is an optimizer of torch, or one of the user's own that only looks like it."""
    import torch

    alike = hasattr(one, "param_groups") and hasattr(one, "step") and hasattr(one, "__dict__")
    return isinstance(one, torch.optim.Optimizer) or (alike and not isinstance(one, type))


def undo_of(one: Any) -> Undo | None:
    """Return what puts a container, a module's class and mode, or a source of random numbers back; None: nothing can.

    A container that is as it was is left alone. Subclasses are filled by the methods of their base: their own may do
    more than store.
    """
    import torch

    if isinstance(one, torch.nn.Module):
        kind, training = type(one), one.training
        return lambda: _be(one, kind, training)
    if isinstance(one, dict):
        items = list(one.items())
        return lambda: None if _same_items(one, items) else _refill(one, items)
    if isinstance(one, list | deque):
        parts = list(one)
        return lambda: None if _same(one, parts) else _fill(one, one.extend, parts)
    if isinstance(one, set):
        members = set(one)
        return lambda: None if one == members else _fill(one, one.update, members)
    return random_undo(one)


def random_undo(one: Any) -> Undo | None:
    """Return what puts a source of random numbers back (of torch, Python or numpy); None for anything else."""
    import torch

    if isinstance(one, torch.Generator):
        state = one.get_state()
        return lambda: one.set_state(state)
    if isinstance(one, random.Random):
        drawn = one.getstate()
        return lambda: one.setstate(drawn)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(one, numpy.random.Generator):
        bits = one.bit_generator.state
        return lambda: setattr(one.bit_generator, "state", bits)
    if numpy is not None and isinstance(one, numpy.random.RandomState):
        legacy = one.get_state()
        return lambda: one.set_state(legacy)
    return None


def _be(module: Any, kind: type, training: bool) -> None:
    if type(module) is not kind:  # one of torch's lazy modules has become an ordinary one
        module.__class__ = kind
    if module.training != training:
        module.training = training


def _fill(one: Any, add: Callable[[Any], None], parts: Iterable[Any]) -> None:
    one.clear()
    add(parts)


def _refill(one: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
    base: Any = OrderedDict if isinstance(one, OrderedDict) else dict
    base.clear(one)
    for key, value in items:
        base.__setitem__(one, key, value)


def _same_items(one: dict[Any, Any], items: list[tuple[Any, Any]]) -> bool:
    return len(one) == len(items) and all(
        k is key and v is value for (k, v), (key, value) in zip(one.items(), items, strict=True)
    )


def _same(one: Iterable[Any], parts: list[Any]) -> bool:
    now = list(one)
    return len(now) == len(parts) and all(a is b for a, b in zip(now, parts, strict=True))


Switch = tuple[Callable[[], Any], Callable[[Any], object]]  # what reads it, what sets it

_FLAGS = (
    "backends.cudnn.enabled",
    "backends.cudnn.benchmark",
    "backends.cudnn.deterministic",
    "backends.cudnn.allow_tf32",
    "backends.cuda.matmul.allow_tf32",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    # The newer words for TF32. The older ones, above, change them, and so they are set last.
    "backends.cuda.matmul.fp32_precision",
    "backends.cudnn.fp32_precision",
    "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision",
    "backends.mkldnn.fp32_precision",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.mkldnn.conv.fp32_precision",
    "backends.mkldnn.rnn.fp32_precision",
)
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
_KINDS = ("cpu", "cuda", "xpu", "mps")


class RandomStates:
    """Python's, numpy's and torch's own sources of random numbers as they are now; a device's, once it is awake."""

    def __init__(self) -> None:
        import torch

        drawn, of_host = random.getstate(), torch.get_rng_state()
        self._undo: list[Undo] = [lambda: random.setstate(drawn), lambda: torch.set_rng_state(of_host)]
        self._numpy: Any = sys.modules.get("numpy")  # where it is not imported, nobody has drawn from it
        if self._numpy is not None:
            legacy = self._numpy.random.get_state()
            self._undo.append(lambda: self._numpy.random.set_state(legacy))
        self._devices: dict[str, Any] = {}
        self.look_at_devices()

    def look_at_devices(self) -> None:
        """Keep the states of devices initialised since: their generators were not used before."""
        for kind, module in awake():
            if kind not in self._devices:
                self._devices[kind] = module
                self._undo.append(_device_undo(module))

    def seed(self, seed: int) -> None:
        """Seed all that is kept, and nothing else: torch.manual_seed would also reach devices that sleep."""
        import torch

        random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if self._numpy is not None:
            self._numpy.random.seed(seed)
        for module in self._devices.values():
            (module.manual_seed_all if hasattr(module, "manual_seed_all") else module.manual_seed)(seed)

    def put_back(self) -> None:
        """Let the next numbers be those that would have come."""
        for undo in self._undo:
            undo()


class Switches:
    """Torch's threads, grad mode, determinism, autocast, precision, kernels and current device, as they are now."""

    def __init__(self) -> None:
        self._devices = CurrentDevices()
        self._found = [(read, write, _read(read)) for read, write in _switches()]

    def put_back(self) -> None:
        """Set what has been changed; what was not changed is not touched: setting may have effects of its own."""
        for read, write, before in self._found:
            if _read(read) != before:
                write(before)
        self._devices.put_back()


class CurrentDevices:
    """Which device of each kind is torch's current one: opening another makes that the current one."""

    def __init__(self) -> None:
        self._before = {kind: module.current_device() for kind, module in _with_current()}

    def put_back(self) -> None:
        """Make them current again; of a kind that slept before it was the first."""
        for kind, module in _with_current():
            if module.current_device() != self._before.get(kind, 0):
                module.set_device(self._before.get(kind, 0))


class _Unreadable:
    """Stands for a precision that torch refuses to tell: it was set by the newer words, and has no older one."""


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError:
        return _Unreadable


def _switches() -> Iterator[Switch]:
    import torch

    yield torch.get_num_threads, torch.set_num_threads
    yield torch.is_grad_enabled, torch.set_grad_enabled
    yield torch.get_default_dtype, torch.set_default_dtype
    yield _determinism, lambda how: torch.use_deterministic_algorithms(how[0], warn_only=how[1])
    yield torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled
    for kind in _KINDS:
        yield from _autocast(kind)
    yield torch.get_float32_matmul_precision, _older_precision
    for place in _FLAGS:
        where, _, name = place.rpartition(".")
        holder = _holder(where)
        if _read(lambda holder=holder, name=name: hasattr(holder, name)) is True:  # type: ignore[misc]
            yield _flag(holder, name)
    cuda: Any = torch.backends.cuda
    for name in _ATTENTION:
        yield getattr(cuda, f"{name}_sdp_enabled"), getattr(cuda, f"enable_{name}_sdp")
    yield torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled
    yield _steps_marked, _set_steps_marked
    if (inductor := sys.modules.get("torch._inductor.config")) is not None:
        yield _flag(inductor, "compile_threads")


def _steps_marked() -> int:
    """Return torch's count of steps that were marked for its CUDA graphs: while it is not 0, each has to be marked."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    return int(trees.MarkStepBox.mark_step_counter) if trees is not None else 0


def _set_steps_marked(count: int) -> None:
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        trees.MarkStepBox.mark_step_counter = count


def _determinism() -> tuple[bool, bool]:
    import torch

    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _autocast(kind: str) -> Iterator[Switch]:
    import torch

    yield lambda: torch.is_autocast_enabled(kind), lambda on: torch.set_autocast_enabled(kind, on)
    yield lambda: torch.get_autocast_dtype(kind), lambda dtype: torch.set_autocast_dtype(kind, dtype)


def _older_precision(before: Any) -> None:
    import torch

    # It was not set by the older word, then: what that had at first fits any newer one.
    torch.set_float32_matmul_precision("highest" if before is _Unreadable else before)


def _holder(place: str) -> Any:
    import torch

    holder: Any = torch
    for part in place.split("."):
        holder = getattr(holder, part, None)
    return holder


def _flag(holder: Any, name: str) -> Switch:
    return lambda: getattr(holder, name), lambda value: None if value is _Unreadable else setattr(holder, name, value)


def _with_current() -> Iterator[tuple[str, Any]]:
    yield from ((kind, module) for kind, module in awake() if hasattr(module, "set_device"))


def _device_undo(module: Any) -> Undo:
    if hasattr(module, "get_rng_state_all"):
        states = module.get_rng_state_all()
        return lambda: module.set_rng_state_all(states)
    state = module.get_rng_state()
    return lambda: module.set_rng_state(state)


# Keeps what reading a caller's data changes: the random numbers of its loader, samplers and data set, and its place.
#
# The items are not looked at: what a data set caches while it is read, it keeps.


def undo_reading(data: Any) -> list[Undo]:
    """Return what puts a DataLoader, a data set or batches back as they are now, but for what has been taken.

    Of a loader and its samplers all attributes are kept as they are; of all of these, sources of random numbers are
    kept by their state. A loader with persistent workers that had none before has none afterwards.
    """
    kept = [random_undo(data)]
    for part in _drawing(data):
        kept += [undo_of(vars(part)), *map(random_undo, vars(part).values())]
    for part in (data, getattr(data, "dataset", None)):
        kept += map(random_undo, vars(part).values() if hasattr(part, "__dict__") else ())
    return [undo for undo in kept if undo is not None]


def _drawing(data: Any) -> Iterator[Any]:
    """Yield a loader and the samplers in it: what an epoch changes. A data set is none of them."""
    from torch.utils.data import DataLoader

    if not isinstance(data, DataLoader):
        return
    sampler, batches = data.sampler, data.batch_sampler
    for part in {id(one): one for one in (data, sampler, batches, getattr(batches, "sampler", None))}.values():
        if hasattr(part, "__dict__"):
            yield part


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


class Held:
    """What modules and optimizers hold, as it is now. Costs one copy of their tensors, in host memory."""

    def __init__(self, roots: Iterable[Any], beside: Held | None = None) -> None:
        """Leave out what is kept in `beside`. Raises MissingError where the host has no memory for the copy."""
        import torch

        began_s = system_clock()
        self.found: list[Any] = list(reached(roots, beside.found if beside is not None else ()))
        self._tensors = [KeptTensor(one) for one in self.found if isinstance(one, torch.Tensor)]
        self._undo = [undo for one in self.found if (undo := undo_of(one)) is not None]
        self._memories = {kept.memory.key: kept.memory for kept in self._tensors if kept.memory is not None}
        self.kept_bytes = sum(memory.size_bytes for memory in self._memories.values())
        _refuse_more_than_there_is(self.kept_bytes)
        for memory in self._memories.values():
            memory.copy()
        self.kept_s = system_clock() - began_s

    def without_gradients(self) -> None:
        """Set all gradients aside."""
        for kept in self._tensors:
            kept.without_gradient()

    def put_back(self) -> None:
        """Put everything back, each thing even where another cannot be."""
        with ExitStack() as last_first:
            for kept in self._tensors:
                last_first.callback(kept.put_back)
            for memory in self._memories.values():
                last_first.callback(memory.put_back)
            for undo in self._undo:
                last_first.callback(undo)


class Keeping:
    """A user's module, loss, optimizer, data and process: put back after every trial, and at the end of it all.

    Copies are made and put back in place: optimizers go on with the parameters that they refer to, tied weights stay
    tied, and what cannot be copied as an object need not be.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        """Keep the parts `model`, `loss`, `optimizer` and `example`. Raises MissingError for want of memory."""
        self._random, self._switches, self._warnings = RandomStates(), Switches(), warnings.catch_warnings()
        self._reading = undo_reading(parts.get("example"))
        self._held = Held(parts.get(name) for name in ("model", "loss", "optimizer"))
        self._handed_out: list[Held] = []
        self._restored_s, self._in_trial = 0.0, False
        self._handed_bytes, self._handed_s = 0, 0.0

    def __enter__(self) -> Self:
        """From here on anything may be changed; warnings that are switched off are so until the end."""
        self._warnings.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back what is changed before and after trials: by looking at the data, by writing the record.

        And all else, where a second Ctrl-C came just between the end of a trial and its being put back.
        """
        self._warnings.__exit__(kind, error, trace)
        self._back(held=self._in_trial)

    def handed_out(self, optimizer: Any) -> Any:
        """Return an optimizer that a function of the user's gave just now: to the end of the trial it is kept, too.

        It may be one that was there before, and is not made anew for every trial.
        """
        self._handed_out.append(Held([optimizer], beside=self._held))
        return optimizer

    @contextmanager
    def trial(self, seed: int) -> Iterator[None]:
        """Begin with gradients set aside and random numbers seeded, and put everything back at the end."""
        self._in_trial = True
        try:
            self._random.look_at_devices()
            self._random.seed(seed)
            self._held.without_gradients()
            yield
        finally:
            self.put_back()

    def put_back(self) -> None:
        """Put everything back now."""
        self._back(held=True)

    @property
    def facts(self) -> Facts:
        """What the last trial cost: bytes of the copies in host memory, seconds to make them, and to put them back."""
        return Facts(
            kept_bytes=self._held.kept_bytes + self._handed_bytes,
            kept_s=round(self._held.kept_s + self._handed_s, 6),
            restored_s=round(self._restored_s, 6),
        )

    def _back(self, *, held: bool) -> None:
        began_s = system_clock()
        with _uninterrupted(), ExitStack() as last_first:
            last_first.callback(self._switches.put_back)
            last_first.callback(self._random.put_back)
            for undo in self._reading:
                last_first.callback(undo)
            if held:
                last_first.callback(self._held.put_back)
                for one in self._handed_out:
                    last_first.callback(one.put_back)
                self._handed_bytes = sum(one.kept_bytes for one in self._handed_out)
                self._handed_s = sum(one.kept_s for one in self._handed_out)
                self._handed_out = []
        if held:
            self._in_trial = False
            self._restored_s = system_clock() - began_s


def _refuse_more_than_there_is(needed_bytes: int) -> None:
    free = available_bytes()
    if free is not None and needed_bytes > free:
        raise MissingError(
            f"restoring the module afterwards needs a copy of {units.quantity(needed_bytes, 'bytes')}, but the "
            f"host has {units.quantity(free, 'bytes')} free; `torchstone run` has its own processes and needs no copy"
        )


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done: half of the weights put back are none."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread
        return
    heard: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    before = signal.getsignal(signal.SIGINT)
    if before is None:  # somebody's own, in C: Python could not set it again
        yield
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
