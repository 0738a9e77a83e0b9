"""For profilers: a torch.profiler trace of a few steps, and NVTX ranges for nsys. Both name steps and phases alike."""

from __future__ import annotations

import linecache
import os
import random
import re
import resource
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from torchstone.core.own_files import replacing
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.metric import REST
from torchstone.core.schema.trial import HostLine, HostProfile, Operators
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.timing.loop import Ranges, Source, Step, unmarked
from torchstone.execution.worker.outcome import is_own
from torchstone.plugins.machine_protocols import Device


@contextmanager
def profiled(activities: Iterable[Any], **more: Any) -> Iterator[Any]:
    """Profile what is done within, once; return torch's profiler. `more`: what else it is told."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # it would say that it starts and stops
    from torch.profiler import profile

    profiler = profile(activities=[*activities], **more)
    with ExitStack() as stack:
        with warnings.catch_warnings():  # that of torch 2.12 begins with a warning of second cycles: here is none
            warnings.filterwarnings("ignore", "Warning: Profiler clears events")
            stack.enter_context(profiler)
        yield profiler


Place = tuple[str, int, str]  # file, line, function
# Methods of a tensor that bring values to the host: on a device they wait for everything issued before.
_WAITS = {"item", "tolist", "cpu", "numpy", "nonzero", "synchronize", "__bool__", "__float__", "__int__"}
_MOST_LINES = 3_000_000  # lines: a second or two


class Traced:
    """What one step did: how often each place ran, and how often it waited."""

    def __init__(self) -> None:
        self.runs: Counter[Place] = Counter()
        self.waits: Counter[Place] = Counter()
        self._count = 0

    def called(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Follow the user's own functions (sys.settrace)."""
        return self._ran if event == "call" and is_own(frame.f_code.co_filename) else None

    def _ran(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._count += 1
            if self._count > _MOST_LINES:
                sys.settrace(None)
                return None
            self.runs[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname] += 1
        return self._ran

    def count_wait(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count what waits (sys.setprofile)."""
        if event == "c_call" and getattr(argument, "__name__", "") in _WAITS and is_own(frame.f_code.co_filename):
            self.waits[frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname] += 1


def trace_step(step: Step, source: Source) -> Traced | None:
    """Do one step under a trace. None where the source has ended, or something else traces already (a debugger)."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return None
    traced = Traced()
    sys.setprofile(traced.count_wait)
    sys.settrace(traced.called)
    try:
        step(source, unmarked)
    except StopIteration:
        return None
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return traced


def is_compiled(prepared: Any) -> bool:
    """Say whether a step runs compiled code, which would be compiled again under a trace or a counter."""
    return any(type(value).__name__ == "OptimizedModule" for value in vars(prepared).values())


# Which kernel a step's attention ran: PyTorch's choice among those allowed depends on shapes and formats.
#
# The operators of one more step tell, as torch's profiler hears of them: a mode that watched them would itself turn
# some fast paths off. Compiled code that replays a graph of the device calls no operator, and there the names of
# kernels tell. It is a pass of its own, after everything was measured.

# Parts of names of operators, and of kernels: cuDNN, FlashAttention and AOTriton, the CUTLASS kernels of xFormers. What
# torch calls `overrideable` is the vendor's own; `native` is the fast path of nn.TransformerEncoder, one operator.
_KERNELS = (
    ("cudnn", re.compile(r"_cudnn_attention|cudnn_generated_\w*sdpa|cudnn\w*_sdpa_")),
    ("flash", re.compile(r"_flash_attention|flash_fwd|flash_bwd|flash::|\battn_fwd|\bfmha_(fwd|bwd)_d|FmhaFwdKernel")),
    ("efficient", re.compile(r"_efficient_attention|fmha_cutlass")),
    ("overrideable", re.compile(r"_fused_attention_overrideable")),
    ("native", re.compile(r"_native_multi_head_attention")),
    ("math", re.compile(r"_scaled_dot_product_attention_math")),
)


def kernels_in(names: Iterable[str]) -> str | None:
    """Return the attention kernels that names of operators or device kernels are of, joined by +; None: of none."""
    every = "\n".join(dict.fromkeys(names))
    return "+".join(kernel for kernel, pattern in _KERNELS if pattern.search(every)) or None


def attention_facts(step: Step, source: Source, device: Device, *, compiled: bool) -> Facts:
    """Do one more step and return what kernels its attention ran, or why that was not seen; nothing where it has none.

    `compiled`: the step runs code of torch.compile.
    """
    try:
        found = kernels_in(_names(step, source, device, kernels=compiled))
    except StopIteration:  # the source has ended
        return Facts()
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        # It was measured all the same: a user's own profiler may be at work, or the memory may suffice for no profiler.
        said = str(error).strip().partition("\n")[0][:120]
        return Facts(attention_not_seen=f"{type(error).__name__}: {said}")
    return Facts(attention_kernel=found)


def _names(step: Step, source: Source, device: Device, *, kernels: bool) -> Iterator[str]:
    """Return the names of the operators of one step, and of the device's kernels if that is asked for."""
    from torch.profiler import ProfilerActivity, supported_activities

    devices = [a for a in supported_activities() if a in (ProfilerActivity.CUDA, ProfilerActivity.XPU)]
    device.synchronize()
    with profiled([ProfilerActivity.CPU, *(devices if kernels else ())]) as profiler:
        step(source, unmarked)
        device.synchronize()
    raw = getattr(profiler.profiler, "kineto_results", None)
    if raw is not None:  # torch's own list of them takes a millisecond an operator to make
        return (str(event.name()) for event in raw.events())
    return (str(event.name) for event in profiler.events() or ())


_WAIT = "aten::_local_scalar_dense"  # what item(), tolist(), bool() and float() of a tensor all come to
_COPY = "Memcpy HtoD"


def count_operators(step: Step, source: Source, device: Device) -> Operators | None:
    """Look at one step, or two where there is an accelerator. None where the source ends meanwhile.

    Only an accelerator is profiled: the profiler takes a millisecond for each operator to make its list.
    """
    try:
        counted = _dispatched(step, source)
        if str(device.torch_device).startswith("cpu"):
            return counted
        return _profiled(step, source, device, counted)
    except StopIteration:
        return None


def _dispatched(step: Step, source: Source) -> Operators:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        """Counts, and does what was asked."""

        calls = waits = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            self.waits += func.name() == _WAIT
            return func(*args, **(kwargs or {}))

    with Counting() as counting:
        step(source, unmarked)
    return Operators(counting.calls, counting.waits)


def _profiled(step: Step, source: Source, device: Device, counted: Operators) -> Operators:
    from torch.profiler import ProfilerActivity, supported_activities

    wanted = [a for a in supported_activities() if a in (ProfilerActivity.CUDA, ProfilerActivity.XPU)]
    device.synchronize()
    with profiled([ProfilerActivity.CPU, *wanted]) as profiler:
        step(source, unmarked)
        device.synchronize()
    return add_device_work(profiler.events() or (), counted)


def add_device_work(events: Iterable[Any], counted: Operators) -> Operators:
    """Add what a device did to what was counted. `events`: torch's FunctionEvent, or what has its attributes."""
    events = list(events)
    on_host = {event.name for event in events if event.device_type.name == "CPU"}
    seen = [e for e in events if e.device_type.name != "CPU" and not _is_range(e, on_host)]
    if not seen:
        return counted
    copies = [event for event in seen if event.name.startswith(_COPY)]
    kernels = [event for event in seen if not event.name.startswith(("Memcpy", "Memset"))]
    return Operators(
        counted.calls,
        counted.waits,
        kernels=len(kernels),
        kernel_s=_seconds(kernels),
        pageable_copies=sum("Pageable" in event.name for event in copies),
        copy_s=_seconds(copies),
    )


def _is_range(event: Any, on_host: Collection[str]) -> bool:
    """Say whether a device's event is a range of record_function, drawn over kernels that are counted themselves.

    An optimizer's step is one, and any of the user's own (pytorch/pytorch#130730: gpu_user_annotation). Where torch
    does not tell its kind, the name does: that of a range is on the host, too, and no kernel's is.
    """
    return bool(getattr(event, "is_user_annotation", False)) or event.name in on_host


def _seconds(events: Sequence[Any]) -> float:
    return 1e-6 * sum(float(event.time_range.elapsed_us()) for event in events)


# Where the host's time goes in a step: samples of its stack, one traced step, and torch's own count of operators.
#
# Each is a pass of its own after everything was measured, for each disturbs what it looks at. The samples tell shares
# and disturb least; the trace tells how often a line runs, and not how long; the profiler counts operators.

_PERIOD_S = 0.001  # between samples, ±50 %: an even beat would meet an even loop always at the same place
_FEWEST, _MOST = 3, 400
_LINES = 12
_DEEPEST = 100  # frames looked at for one of the user's
_CODE = 120  # characters of a line that are kept


def profile_steps(step: Step, source: Source, device: Device, prepared: Any, longest_s: float) -> HostProfile:
    """Look at some steps of a model that is warm, for about `longest_s`; a source that ends ends the pass.

    Raises what a step raises.
    """
    device.synchronize()
    sampler = _StackSampler()
    before, main_s, began_s = resource.getrusage(resource.RUSAGE_SELF), time.thread_time(), system_clock()
    queued_from_s = _queued_s()
    steps = sampler.over(step, source, longest_s)
    device.synchronize()
    spent_s, main_s = system_clock() - began_s, time.thread_time() - main_s
    after, queued_to_s = resource.getrusage(resource.RUSAGE_SELF), _queued_s()
    queued_s = None if queued_from_s is None or queued_to_s is None else queued_to_s - queued_from_s
    plain = not is_compiled(prepared)
    traced = trace_step(step, source) if plain else None
    device.synchronize()
    module = prepared.module
    sizes = [p.numel() for p in module.parameters() if p.requires_grad] if module is not None else []

    def each(name: str) -> float:
        return float(getattr(after, name) - getattr(before, name)) / steps

    return HostProfile(
        steps=steps,
        step_s=spent_s / steps,
        samples=sampler.total,
        lines=sampler.lines(traced),
        phases={phase: count / max(1, sampler.total) for phase, count in sampler.phases.items()},
        main_busy=min(1.0, main_s / spent_s),
        user_s=each("ru_utime"),
        system_s=each("ru_stime"),
        minor_faults=each("ru_minflt"),
        major_faults=each("ru_majflt"),
        involuntary_switches=each("ru_nivcsw"),
        threads=_threads(),
        operators=count_operators(step, source, device) if plain else None,
        tensors=len(sizes) if module is not None else None,
        elements=median(sizes) if sizes else None,
        main_queued=min(1.0, queued_s / spent_s) if queued_s is not None else None,
    )


def _queued_s() -> float | None:
    """Return how long this thread was ready and had no core, since it began; None where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # no Linux, or a kernel that does not count it
        return None


def _threads() -> int:
    import torch

    return torch.get_num_threads()


class _StackSampler:
    """Reads the stack of the thread that does the steps, from another thread, and labels samples by their phase."""

    def __init__(self) -> None:
        self.total = 0
        self.phases: Counter[str] = Counter()
        self._main = threading.get_ident()
        self._waiting: list[Place | None] = []  # sampled, in a phase that has not ended yet
        self._found: Counter[tuple[Place, str]] = Counter()
        self._stopped = threading.Event()

    def over(self, step: Step, source: Source, longest_s: float) -> int:
        """Do steps for about so long; return how many."""
        interval_s = sys.getswitchinterval()
        thread = threading.Thread(target=self._run, daemon=True)
        # The sampler must not wait for the interpreter until an operator lets go of it: it would see operators only.
        sys.setswitchinterval(_PERIOD_S / 20)
        thread.start()
        began_s, steps = system_clock(), 0
        try:
            while steps < _FEWEST or (steps < _MOST and system_clock() - began_s < longest_s):
                try:
                    step(source, self._mark)
                except StopIteration:
                    break
                self._mark(REST)
                steps += 1
        finally:
            self._stopped.set()
            thread.join()
            sys.setswitchinterval(interval_s)
        return max(1, steps)

    def _run(self) -> None:
        dice = random.Random(0)
        while not self._stopped.wait(_PERIOD_S * dice.uniform(0.5, 1.5)):
            frame = sys._current_frames().get(self._main)
            if frame is not None:
                self._waiting.append(_place(frame))

    def _mark(self, phase: str) -> None:
        taken, self._waiting = self._waiting, []
        self.total += len(taken)
        self.phases[phase] += len(taken)
        for place in taken:
            if place is not None:
                self._found[place, phase] += 1

    def lines(self, traced: Traced | None) -> tuple[HostLine, ...]:
        """Return the lines most often seen, and those that wait for a value."""
        seen = dict(self._found.most_common(_LINES))
        found = []
        for (place, phase), count in seen.items():
            file, line, function = place
            code = linecache.getline(file, line).strip()[:_CODE]
            runs = float(traced.runs.get(place, 0)) if traced is not None else None
            waits = float(traced.waits.get(place, 0)) if traced is not None else None
            found.append(HostLine(file, line, function, code, phase, count / self.total, runs, waits))
        return tuple(found)


def _place(frame: FrameType | None) -> Place | None:
    """Return the deepest place in the user's own code; None where none of it is on the stack."""
    for _ in range(_DEEPEST):
        if frame is None:
            return None
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname
        frame = frame.f_back
    return None


_STEPS = 3


def trace(step: Step, source: Source, device: Device, path: str) -> str | None:
    """Write a Chrome trace (open it in Perfetto) of three steps to `path`; return it, or None if it could not be.

    It comes after everything was measured, looking closely disturbs: a range of record_function alone costs 18 µs.
    """
    from torch.profiler import ProfilerActivity, record_function, supported_activities

    opened: list[Any] = []

    def push(name: str) -> None:
        opened.append(record_function(name))
        opened[-1].__enter__()

    ranged = Ranges(push, lambda: opened.pop().__exit__(None, None, None)).around(step)
    ranged(source, unmarked)  # the names of the phases are known after one step
    wanted = [
        a for a in supported_activities() if a in (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU)
    ]
    with profiled(wanted, record_shapes=True) as profiler:
        for _ in range(_STEPS):
            ranged(source, unmarked)
        device.synchronize()
    try:
        with replacing(Path(path)) as beside:
            profiler.export_chrome_trace(str(beside))
    except FileNotFoundError:  # it prints what went wrong, and raises nothing
        return None
    return path


def with_nvtx(step: Step) -> tuple[Step, Statement]:
    """Return the step within NVTX ranges, or as it is where this torch has none, and which."""
    import torch

    nvtx: Any = torch.cuda.nvtx
    try:
        nvtx.range_push("torchstone")
        nvtx.range_pop()
    except RuntimeError as error:  # a build without CUDA has the functions, and they raise
        return step, Statement("nvtx_off", {"error": str(error).splitlines()[0]})
    return Ranges(nvtx.range_push, nvtx.range_pop).around(step), Statement("nvtx_on")
