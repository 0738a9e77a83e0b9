"""Keeps what the whole process shares: the state of random numbers, and torch's switches."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from torchstone.api.keeping.contents import Undo
from torchstone.execution.worker.awake import awake

Switch = tuple[Callable[[], Any], Callable[[Any], object]]  # what reads it, what sets it

_FLAGS = (
    ("backends.cudnn", ("enabled", "benchmark", "deterministic", "allow_tf32")),
    ("backends.cuda.matmul", (
        "allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction",
    )),
    # The newer words for TF32. The older ones, above, change them, and so they are set last.
    *((f"backends.{unit}", ("fp32_precision",)) for unit in (
        "cuda.matmul", "cudnn", "cudnn.conv", "cudnn.rnn", "mkldnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn",
    )),
)  # fmt: skip
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
    for place, names in _FLAGS:
        holder = _holder(place)
        for name in names:
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
