"""Hooks in a program that torchstone measures: marks where data, forward, backward and optimizer begin and end.

Nothing but the standard library is imported: the program may run on another Python, without torchstone. Wrapped are
steps of optimizers, calls of outermost modules, `__next__` of a DataLoader's iterator, torch.autograd.backward and, but
on the CPU, Tensor.to and .cuda; where optimizers are there already (`watch`), torch's own hooks are used. A mark is two
appends and a reading of the clock; execution/program/steps.py decides what it means. What runs in each step calls as
little as it can: between operators of torch a function is cold in the caches and costs ten times what it does else.

A step ends with an optimizer's; without any, with a backward pass, or else with an outermost forward pass without
gradients, or a `generate`. SystemExit ends the program after its window, which goes on beside others
(_torchstone_others.py), and samples of its stack for a diagnosis (_torchstone_sampler.py). Compared with another, it
waits at a step's end to be told how many more. `set` of the plan replaces settings of its own.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import sys
import threading
import time
import weakref
from array import array
from collections import deque
from typing import Any

DATA_BEGIN, DATA_END, TRAIN_FORWARD, FORWARD, FORWARD_END, BACKWARD, BACKWARD_END, OPTIMIZER, OPTIMIZER_END = range(9)
TRANSFER, TRANSFER_END = 9, 10
_MOST_MARKS = 4_000_000  # of a program that never reaches its window
_LOOKED_S = 1.0  # how often modules of a program without an optimizer are looked for
_PATIENCE_S = 3.0  # of forward passes alone, until a program without an optimizer is taken for an inference
_SETTLING = 4  # steps, after which hooks of modules that are never outermost go
_LOSSES = 3  # that are kept, of the first backward passes: another revision may compute others
_clock, _thread = time.perf_counter, threading.get_ident


class _Program:
    """What is known of the program so far."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        self.pid, self.began_s, self.kinds = os.getpid(), _clock(), bytearray()
        self.thread: int | None = None  # the one whose steps count; None: any, 0: none any more
        self.times = array("d")
        self.tick: Any = _clock  # read for each mark
        self.items: list[int | None] = []  # of each DATA_END; None: not known
        self.inputs: list[int | None] = []  # items of each outermost forward pass
        self.ended_by: list[int] = []  # the id of the optimizer of each OPTIMIZER_END
        self.depth = 0  # of optimizers' steps
        self.calling = False  # an outermost module
        self.steps = 0
        self.due_s = 0.0  # until then a step is only counted,
        self.due_steps = 0.0  # or until there are so many
        self.first_s: Any = None
        self.window_s: Any = None
        self.told_s: Any = None
        self.device, self.world, self.window_steps = "cpu", 1, 0
        self.window_mark: int | None = None  # the place of the first mark of the window
        self.is_spoilt: Any = lambda _: False  # by others, so that its window goes on
        self.has_optimizer = False
        self.workers = 0
        self.loads = False  # a DataLoader has given a batch since the last step
        self.generates = False
        self.modules: list[Any] = []  # weak references
        self.optimizers: list[Any] = []  # weak references
        self.hooked: dict[int, Any] = {}  # id of a module → it, and what its call was
        self.outermost: set[int] = set()
        self.events: list[Any] = []  # of a device that runs behind the host: of each of the last marks
        self.torch: Any = None
        self.is_compiling: Any = None
        self.connection: Any = None
        self.heard = b""
        self.losses: list[Any] = []  # of the first backward passes
        # Of torch's generator when the first module is made: another in each process where none was set by then. A
        # Trainer sets one later, whose weights were drawn before.
        self.seed: Any = None
        self.loaders: dict[Any, list[int]] = {}  # (batch size, workers, pinned) → [batches]
        self.weights: list[int] = []  # numbers in each tensor of the optimizer
        self.fused: Any = None
        self.copies = self.pageable = 0  # of tensors to the device, and those from pageable memory
        self.turns: Any = None  # _torchstone_turns, where there is another program that takes turns with it
        self.turn: Any = None  # [steps before it, its steps, when it began, CPU time then]
        self.taken: list[Any] = []  # turns: when each began, how long it took
        self.idle: list[Any] = []  # (place of a mark, seconds that passed before it in the other side's turns)
        self.sampler: Any = None
        self.complete = False  # its window, or its turns
        self.waits = False  # before it builds anything (_torchstone_turns.py)
        self.forks = False  # just now, to have a trial in the child
        self.replaced: list[Any] = []  # (where, name, what it was, what is there now)
        self.handles: list[Any] = []  # of torch's own hooks
        self.hears: Any = None  # who is told in this process, in place of torchstone's own

    def stop(self) -> None:
        self.thread = 0

    def listens(self) -> Any:
        return self.thread is None or self.thread == _thread()

    def mark(self, kind: Any) -> None:
        self.kinds.append(kind)
        self.times.append(self.tick())

    def mark_on(self, event_class: Any) -> None:
        """Have a device's event recorded with every mark from now on."""

        def tick() -> Any:
            event = event_class(enable_timing=True)
            event.record()
            self.events.append(event)
            return _clock()

        self.tick = tick

    def say(self, word: Any, **about: Any) -> None:
        """Send a line to torchstone, which may be gone: then the program goes on."""
        if self.hears is not None:
            self.hears(word, **about)
            return
        try:
            if self.connection is None:
                self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.connection.connect(os.environ["TORCHSTONE_PROGRAM"])
            self.connection.sendall(json.dumps({"word": word, **about}).encode() + b"\n")
        except OSError:
            self.stop()

    def hear(self) -> Any:
        """Wait for a line of torchstone's; None where it is gone."""
        try:
            while b"\n" not in self.heard:
                data = self.connection.recv(4096)
                if not data:
                    return None
                self.heard += data
        except OSError:
            return None
        line, _, self.heard = self.heard.partition(b"\n")
        return json.loads(line)


_program: Any = None


def prepare() -> None:
    """Read what is to be measured, before the program imports torch."""
    global _program
    _program = _Program(json.loads(os.environ.get("TORCHSTONE_PROGRAM_PLAN", "{}")))
    if _program.plan.get("waits"):
        import _torchstone_turns  # type: ignore[import-not-found]  # beside this file

        _program.turns = _torchstone_turns
        _torchstone_turns.prepare(_program)


def install(torch: Any) -> None:
    """Install the hooks, right after torch was imported."""
    program = _program
    program.torch = torch
    program.is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
    from torch.optim import optimizer as optimizers

    if not hasattr(torch.nn.Module, "_compiled_call_impl"):
        program.say("unfit", why=f"torch {torch.__version__} is too old: 2.1 or newer has the hooks")
        program.stop()
        return
    _set_threads(torch)
    _replace(optimizers.Optimizer, "__init__", _wrapped_making_of_optimizer)
    # gc.get_objects would find modules, too, and tuples that another thread is making: these are then broken.
    _replace(torch.nn.Module, "__init__", _wrapped_making_of_module)
    _replace(torch.nn.Module, "__setstate__", _wrapped_making_of_module)
    began, ended = _hook_steps(torch)
    optimizer: Any = optimizers.Optimizer
    optimizer.profile_hook_step = staticmethod(_wrapped_profiling(began, ended, optimizer.profile_hook_step))
    atexit.register(_exits)
    if not program.waits:
        _start_looking()


def _start_looking() -> None:
    threading.Thread(target=_look_for_modules, daemon=True, name="torchstone").start()


def _wait_to_build() -> None:
    _program.turns.wait_to_build(_program)
    if not _program.waits:
        _start_looking()


def _hook_steps(torch: Any) -> Any:
    """Hook all but optimizers; return what is to be called before and after the step of one."""
    from torch.utils.data import dataloader

    os.register_at_fork(after_in_child=_leave)
    began, ended = _bounds_of_a_step()
    if {"num_workers", "pin_memory", "batch_size"} & set(_program.plan.get("set", {})):
        _replace(dataloader.DataLoader, "__init__", _wrapped_making_of_loader)
    _replace(dataloader._BaseDataLoaderIter, "__init__", _wrapped_iteration)
    _replace(dataloader._BaseDataLoaderIter, "_next_index", _wrapped_index)
    _replace(dataloader._BaseDataLoaderIter, "__next__", _wrapped_batch)
    _replace(torch.nn.Module, "_replicate_for_data_parallel", _wrapped_replicate)
    _replace(torch.nn.Module, "compile", _wrapped_compile)
    _replace(torch.autograd, "backward", _wrapped_backward)
    _replace(torch.autograd, "grad", _wrapped_backward)
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    _replace(scaler, "step", functools.partial(_wrapped_scaler_step, began, ended))
    return began, ended


def _replace(where: Any, name: Any, wrapped: Any) -> None:
    before = getattr(where, name)
    value = functools.wraps(before)(wrapped(before))
    _program.replaced.append((where, name, before, value))
    setattr(where, name, value)


def _leave() -> None:
    """A process that the program forks is not measured: the worker of a loader."""
    if _program.forks:
        return
    _program.stop()
    _program.connection = None


# ── in a process that asks for it itself (torchstone.integrations) ──────────────────────────────────────────


def watch(torch: Any, plan: Any, say: Any, module: Any) -> None:
    """Install the hooks for a training whose module is there already; `say` is called with what else a pipe carries."""
    global _program
    program = _program = _Program({**plan, "let_finish": True})
    program.hears = say
    program.torch = torch
    program.is_compiling = torch.compiler.is_compiling
    program.has_optimizer = True
    program.modules = [weakref.ref(one) for one in module.modules()]
    began, ended = _hook_steps(torch)
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    program.handles = [register_optimizer_step_pre_hook(began), register_optimizer_step_post_hook(ended)]


def unwatch() -> None:
    """Say what was measured, where that was not said yet, and take the hooks out."""
    program = _program
    _exits()
    program.stop()
    for handle in program.handles:
        handle.remove()
    for key in program.hooked:
        _unhook_module(key)
    for where, name, before, ours in reversed(program.replaced):
        if getattr(where, name) is ours:  # else somebody wrapped it since: ours stays below, and does nothing
            setattr(where, name, before)


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────


def _bounds_of_a_step() -> Any:
    """Return what is called before and after the step of an optimizer."""
    program, add_end = _program, _program.ended_by.append
    add_kind, add_time = program.kinds.append, program.times.append
    ends_step = program.plan.get("step", "auto") in ("auto", "optimizer")

    def began(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if program.thread == _thread() or program.thread is None:
            program.depth += 1
            if program.depth == 1:
                add_kind(OPTIMIZER)
                add_time(program.tick())

    def ended(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if program.depth and (program.thread == _thread() or program.thread is None):
            program.depth -= 1
            if program.depth == 0:
                add_kind(OPTIMIZER_END)
                add_time(program.tick())
                add_end(id(optimizer))
                program.loads = False
                if ends_step:
                    _step_ended(optimizer)

    return began, ended


def _step_ended(optimizer: Any = None) -> None:
    """Count a step, which ended with the last mark."""
    program = _program
    now_s = program.times[-1]
    program.steps += 1
    if now_s >= program.due_s or program.steps >= program.due_steps:
        _act(optimizer, now_s)


def _act(optimizer: Any, now_s: Any) -> None:
    """Begin the window after the warm-up, tell how far it is, and end the program after it."""
    program, plan = _program, _program.plan
    if program.turn is not None:
        if not program.turns.step_ended(program, _synchronize):
            _finish()
        return
    if program.sampler is not None:
        if program.sampler.step_ended():
            _finish()
        return
    if program.steps == 1:
        _begin(optimizer, now_s)
        if program.thread == 0:
            return
    if program.steps == _SETTLING and program.outermost:  # modules that were never outermost are not asked any more
        for key in program.hooked.keys() - program.outermost:
            _unhook_module(key)
    if now_s - program.told_s >= 1.0:
        program.told_s = now_s
        program.say("progress", steps=program.steps, elapsed_s=now_s - (program.window_s or program.first_s))
    if program.window_s is None:
        warm = program.steps > plan.get("warmup", 3) and now_s - program.first_s >= plan.get("warmup_s", 0.5)
        if plan.get("rehearse"):
            # A training may evaluate before it makes its optimizer.
            if program.steps >= 2 and (program.has_optimizer or now_s - program.first_s >= _PATIENCE_S):
                _finish()
        elif warm:
            _synchronize()
            if plan.get("goes_on") and program.device == "cpu" and program.world == 1 and not program.workers:
                import _torchstone_others  # type: ignore[import-not-found]  # beside this file

                program.is_spoilt = _torchstone_others.Others(program).spoil
            program.window_s, program.window_steps, program.window_mark = _clock(), program.steps, len(program.kinds)
            program.say("entered", stage="steady", at_s=program.window_s, measures=True)
            if plan.get("turns"):
                if not program.turns.begin(program):
                    _finish()
                return
    else:
        steps = program.steps - program.window_steps
        long = now_s - program.window_s >= plan.get("budget_s", 5.0) and steps >= plan.get("min_steps", 5)
        if steps >= plan["iterations"] if plan.get("iterations") else long and not program.is_spoilt(now_s):
            _finish()
            return
    if len(program.kinds) > _MOST_MARKS:
        _finish()
    elif program.window_s is not None:
        program.due_s, program.due_steps = program.told_s + 1.0, float("inf")
        if plan.get("iterations"):
            program.due_steps = program.window_steps + plan["iterations"]
        else:
            program.due_s = min(program.due_s, program.window_s + plan.get("budget_s", 5.0))


def _begin(optimizer: Any, now_s: Any) -> None:
    """Note when the first step ended, in which thread, on which device; hook the modules whose weights change."""
    program, torch = _program, _program.torch
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        program.world = torch.distributed.get_world_size()
        if torch.distributed.get_rank() != 0:
            program.stop()  # rank 0 tells
            return
    program.thread, program.first_s = threading.get_ident(), now_s
    if program.seed is None:
        program.seed = torch.initial_seed() % 2**63
    program.told_s = now_s
    if optimizer is None:
        _hook_modules(None)
    weights = [] if optimizer is None else [p for group in optimizer.param_groups for p in group["params"]]
    program.device = _device_of(weights)
    program.weights = [p.numel() for p in weights]
    if optimizer is not None and optimizer.param_groups:
        fused = optimizer.param_groups[0].get("fused", "none")
        program.fused = None if fused == "none" else bool(fused)
    if _of_device("Event") is not None:
        program.mark_on(_of_device("Event"))
    if program.device != "cpu":
        _replace(torch.Tensor, "to", _wrapped_copy)
        _replace(torch.Tensor, "cuda", _wrapped_copy)
    program.say("first", at_s=now_s, device=program.device, pid=os.getpid())
    if optimizer is not None:  # other optimizers have modules of their own: a generator beside its discriminator
        every = [optimizer, *(one for made in program.optimizers if (one := made()) is not None)]
        _hook_modules({id(p) for one in every for group in one.param_groups for p in group["params"]})


def _device_of(weights: Any) -> Any:
    for weight in weights:
        return weight.device.type
    for hooks in _program.hooked.values():
        for weight in hooks[0].parameters():
            return weight.device.type
    return "cpu"


def _of_device(name: Any) -> Any:
    """Return what torch has by this name for the device; None on the CPU, or where it has not."""
    program = _program
    return None if program.device == "cpu" else getattr(getattr(program.torch, program.device, None), name, None)


def _synchronize() -> None:
    (_of_device("synchronize") or int)()


def _finish() -> None:
    """Send what was measured, and end the program at the end of this step: after the samples that a plan asks for."""
    program = _program
    program.complete, program.due_s = True, 0.0
    if program.sampler is None:
        _send()
        if program.plan.get("sample_s"):
            import _torchstone_sampler  # type: ignore[import-not-found]  # beside this file

            program.sampler = _torchstone_sampler.Sampler(program)
            return
    else:
        program.say("profile", **program.sampler.profile())
    program.stop()
    if not program.plan.get("let_finish") and threading.current_thread() is threading.main_thread():
        raise SystemExit(0)


def _send() -> None:
    program, torch = _program, _program.torch
    if program.thread is None:
        return
    _synchronize()
    program.say("entered", stage="sending", at_s=_clock(), measures=False)
    times = list(program.times)
    if program.events:
        before, first = len(times) - len(program.events), program.events[0]
        times[before:] = [times[before] + 1e-3 * first.elapsed_time(event) for event in program.events]
    for place, idle_s in program.idle:
        times = times[:place] + [moment - idle_s for moment in times[place:]] if place < len(times) else times
    memory = {"peak_rss_bytes": _peak_rss_bytes()}
    if _of_device("max_memory_allocated") is not None:
        memory["peak_allocated_bytes"] = _of_device("max_memory_allocated")()
        memory["peak_reserved_bytes"] = _of_device("max_memory_reserved")()
    own = "items inputs ended_by steps window_mark window_s workers world device complete seed weights fused copies"
    program.say(
        "marks",
        kinds=program.kinds.hex(),
        times=times,
        ended_s=_clock(),
        memory=memory,
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        has_optimizer=bool(program.ended_by),
        losses=[float(loss) for loss in program.losses],
        loader=max(program.loaders, key=program.loaders.get) if program.loaders else None,
        turns=program.taken,
        pageable=program.pageable,
        compiler="torch._dynamo" in sys.modules,
        **{name: getattr(program, name) for name in own.split()},
    )


def _peak_rss_bytes() -> Any:
    import resource

    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else 1024 * held


def _exits() -> None:
    """The program ends by itself: what there is of a window may be enough."""
    program = _program
    if program.thread != 0 and program.pid == os.getpid():
        if program.sampler is None:
            _send()
        else:
            program.say("profile", **program.sampler.profile())
        program.stop()


# ── data, forward, backward ─────────────────────────────────────────────────────────────────────────────────


def _wrapped_making_of_optimizer(make: Any) -> Any:
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        if _program.waits:
            _wait_to_build()
        _program.has_optimizer = True
        make(self, *args, **kwargs)
        _program.optimizers.append(weakref.ref(self))
        if _program.plan.get("set", {}).get("fused") == "on":
            for group in self.param_groups:
                if "fused" in group:
                    group.update(fused=True, foreach=False)

    return made


def _wrapped_making_of_module(make: Any) -> Any:
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        if _program.waits:
            _wait_to_build()
        make(self, *args, **kwargs)
        if _program.seed is None:
            _program.seed = _program.torch.initial_seed() % 2**63
        _program.modules.append(weakref.ref(self))

    return made


def _set_threads(torch: Any) -> None:
    number = _program.plan.get("set", {}).get("threads")
    if number:
        torch.set_num_threads(number)
        torch.set_num_threads = lambda _: None  # in the place of the program's own number


def _wrapped_making_of_loader(make: Any) -> Any:
    """Have loaders made with the settings of the plan; another batch size only where it is that of the training's."""
    others = _program.plan.get("set", {})

    def made(self: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kwargs: Any) -> None:
        if batch_size == others.get("of_batch_size") and kwargs.get("batch_sampler") is None:
            batch_size = others.get("batch_size", batch_size)
        if len(args) < 4:  # shuffle, sampler, batch_sampler, num_workers: by position
            kwargs["num_workers"] = others.get("num_workers", kwargs.get("num_workers", 0))
            kwargs["pin_memory"] = others.get("pin_memory", kwargs.get("pin_memory", False))
            if not kwargs["num_workers"]:  # which none of these may be given without
                kwargs.update((name, None) for name in ("prefetch_factor", "multiprocessing_context") if name in kwargs)
                kwargs.update(persistent_workers=False, timeout=0)
        make(self, dataset, batch_size, *args, **kwargs)

    return made


def _wrapped_iteration(made: Any) -> Any:
    def begin(self: Any, loader: Any) -> None:
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
        about = size, loader.num_workers, bool(loader.pin_memory)
        self._torchstone = _program.loaders.setdefault(about, [0]), deque(maxlen=4096)  # batches, and sizes of those
        _program.workers = max(_program.workers, loader.num_workers)  # that were asked for
        made(self, loader)

    return begin


def _wrapped_index(indexed: Any) -> Any:
    def next_index(self: Any) -> Any:
        index = indexed(self)
        if hasattr(self, "_torchstone"):
            self._torchstone[1].append(len(index) if isinstance(index, (list, tuple)) else None)
        return index

    return next_index


def _wrapped_batch(following: Any) -> Any:
    program, add_items = _program, _program.items.append
    add_kind, add_time = program.kinds.append, program.times.append

    def next_batch(self: Any) -> Any:
        if program.thread != _thread() and program.thread is not None:
            return following(self)
        add_kind(DATA_BEGIN)
        add_time(program.tick())
        size: Any = 0
        try:
            sampler = program.sampler
            batch = following(self) if sampler is None else sampler.loading(following, self)
            batches, sizes = getattr(self, "_torchstone", ([0], None))  # one that was begun before has none
            batches[0] += 1
            size = sizes.popleft() if sizes else None
            if size is None:
                size = _items_of(batch)
            return batch
        finally:
            add_kind(DATA_END)
            add_time(program.tick())
            add_items(size)
            program.loads = True

    return next_batch


def _items_of(batch: Any) -> Any:
    """Return the first dimension of a batch's tensors where it is the same in all; else None."""
    found = _sizes(batch, 0)
    return found.pop() if len(found) == 1 else None


def _sizes(value: Any, depth: Any) -> Any:
    if isinstance(value, _program.torch.Tensor):
        return {value.shape[0]} if value.dim() else set()
    if hasattr(value, "values") and hasattr(value, "keys"):
        value = list(value.values())
    inner = value[:16] if depth < 3 and isinstance(value, (list, tuple)) else ()
    return set().union(*(_sizes(one, depth + 1) for one in inner))


def _is_pageable(tensor: Any) -> Any:
    try:
        return not tensor.is_pinned()
    except Exception:  # a kind of tensor that cannot tell: the program goes on
        return False


def _wrapped_copy(copy: Any) -> Any:
    """Mark where a tensor of the host is copied to a device. Modules that torch.compile has seen keep torch's own."""
    program = _program

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        within = program.kinds and program.kinds[-1] == TRANSFER
        if program.is_compiling() or not self.is_cpu or within or not program.listens():
            return copy(self, *args, **kwargs)
        moved = True
        program.mark(TRANSFER)
        try:
            found = copy(self, *args, **kwargs)
            moved = not found.is_cpu
        finally:
            if moved:
                program.mark(TRANSFER_END)
                program.copies += 1
                program.pageable += _is_pageable(self)
            else:  # to another number format, say
                program.kinds.pop()
                program.times.pop()
                if program.events:
                    program.events.pop()
        return found

    return wrapped


def _wrapped_backward(backward: Any) -> Any:
    program, losses = _program, _program.losses
    add_kind, add_time = program.kinds.append, program.times.append
    wanted = program.plan.get("step", "auto")
    always, perhaps = wanted == "backward", wanted == "auto"

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if program.thread != _thread() and program.thread is not None:
            return backward(*args, **kwargs)
        if len(losses) < _LOSSES and args and getattr(args[0], "numel", int)() == 1:
            losses.append(args[0].detach().clone())
        add_kind(BACKWARD)
        add_time(program.tick())
        try:
            return backward(*args, **kwargs)
        finally:
            add_kind(BACKWARD_END)
            add_time(program.tick())
            if (always or (perhaps and not program.has_optimizer)) and program.depth == 0:
                _step_ended()

    return wrapped


def _wrapped_profiling(began: Any, ended: Any, profiled: Any) -> Any:
    """Return the way in which torch wraps the step of each class of optimizers, with marks around it.

    torch's own hooks would be called within its `record_function`, whose beginning and end take 0.1 to 0.3 ms here.
    """

    def hooked(step: Any) -> Any:
        call = profiled(step)

        @functools.wraps(call)
        def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
            began(self, args, kwargs)
            found = call(self, *args, **kwargs)
            ended(self, args, kwargs)
            return found

        return marked

    return hooked


def _wrapped_scaler_step(began: Any, ended: Any, stepped: Any) -> Any:
    """A step that the scaler skips, as gradients were infinite, is a step."""

    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(_program.ended_by)
        found = stepped(self, optimizer, *args, **kwargs)
        if len(_program.ended_by) == before and _program.depth == 0:
            began(optimizer, args, kwargs)
            ended(optimizer, args, kwargs)
        return found

    return step


def _hook_modules(weights: Any) -> None:
    """Wrap the call of the outermost modules that have some of these weights (None: any), and of their children.

    What is compiled is left as it is within.
    """
    program = _program
    every = [one for made in list(program.modules) if (one := made()) is not None]
    within = {id(child) for one in every for child in one._modules.values()}
    for one in every:
        if id(one) in within or id(one) in program.hooked:
            continue
        if not any(weights is None or id(p) in weights for p in one.parameters()):
            continue
        compiled = hasattr(one, "_orig_mod")
        for module in (one, *(() if compiled else one.children())):
            if id(module) not in program.hooked:
                _hook_module(module)
    generation = sys.modules.get("transformers.generation.utils")
    mixin = getattr(generation, "GenerationMixin", None)
    if mixin is not None and not program.generates:
        program.generates = True
        _replace(mixin, "generate", _wrapped_generate)


def _hook_module(module: Any) -> None:
    """Have a module called by way of marks.

    torch calls `_compiled_call_impl` of a module in the place of `_call_impl` where it has one, and leaves it out of
    copies and pickles. A forward hook costs ten times as much: torch then takes another way through the call.
    """
    before = module.__dict__.get("_compiled_call_impl")
    marked = _marked(before or module._call_impl, id(module), _program.torch.is_grad_enabled)
    _program.hooked[id(module)] = module, before, marked
    module.__dict__["_compiled_call_impl"] = marked  # a compiled module sets attributes of the one within it


def _marked(call: Any, key: Any, trains: Any) -> Any:
    """Return the call with a mark before it and one after it, where it is within no other."""
    program, is_compiling, add_outermost = _program, _program.is_compiling, _program.outermost.add
    add_kind, add_time, add_input = program.kinds.append, program.times.append, program.inputs.append
    tensor, wanted = program.torch.Tensor, program.plan.get("step", "auto")
    always, perhaps = wanted == "forward", wanted == "auto"

    def marked(*args: Any, **kwargs: Any) -> Any:
        if program.calling or (program.thread != _thread() and program.thread is not None) or is_compiling():
            return call(*args, **kwargs)
        program.calling = True
        add_outermost(key)
        if program.loads:
            add_input(None)
        elif len(args) == 1 and type(args[0]) is tensor and not kwargs:  # as _items_of does, in a tenth of its time
            shape = args[0].shape
            add_input(shape[0] if shape else None)
        else:
            add_input(_items_of((args, kwargs)))
        kind = TRAIN_FORWARD if trains() else FORWARD
        add_kind(kind)
        add_time(program.tick())
        try:
            found = call(*args, **kwargs)
        finally:
            program.calling = False
            add_kind(FORWARD_END)
            add_time(program.tick())
        if always or (kind == FORWARD and perhaps and not program.has_optimizer):
            _step_ended()
        return found

    return marked


def _wrapped_replicate(replicate: Any) -> Any:
    def unmarked(self: Any) -> Any:
        replica = replicate(self)
        if id(self) in _program.hooked:  # it has a copy of the module's __dict__, and would call the module itself
            replica.__dict__["_compiled_call_impl"] = _program.hooked[id(self)][1]
        return replica

    return unmarked


def _wrapped_compile(compile_module: Any) -> Any:
    def compiled(self: Any, *args: Any, **kwargs: Any) -> None:
        compile_module(self, *args, **kwargs)
        if id(self) in _program.hooked:  # what was compiled stands in the place of the marks
            _hook_module(self)

    return compiled


def _unhook_module(key: Any) -> None:
    module, before, marked = _program.hooked[key]
    if module.__dict__.get("_compiled_call_impl") is marked:  # else somebody compiled it since
        if before is None:
            del module.__dict__["_compiled_call_impl"]
        else:
            module.__dict__["_compiled_call_impl"] = before


def _wrapped_generate(generate: Any) -> Any:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _marked(functools.partial(generate, self), id(self), lambda: False)(*args, **kwargs)

    return wrapped


def _look_for_modules() -> None:
    """Hook the modules of a program that has no optimizer: one that serves, or evaluates."""
    program = _program
    serves = program.plan.get("step", "auto") in ("auto", "forward")
    while program.thread != 0 and program.steps == 0:
        time.sleep(_LOOKED_S)
        if serves and program.thread != 0 and not program.has_optimizer:
            _hook_modules(None)
