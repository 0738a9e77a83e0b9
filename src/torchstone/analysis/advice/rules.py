"""The rules of a diagnosis: from which figure on something is a bottleneck, what is usually behind it, what to change.

Causes (causes.py) and what is read from curves, devices and memory (beside this file) use the same ones, so that one
threshold and one remedy hold for all. Shares of a step decide; what people usually aim at, in milliseconds and percent,
is told beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from torchstone.analysis.advice.choices import SAFE_SHARE
from torchstone.analysis.advice.setting import Setting
from torchstone.core.schema.advice import Remedy, Statement


class Rule(msgspec.Struct, frozen=True):
    """One bottleneck. `least`: from here on it is one; of the step, where nothing else is said beside the rule.

    `usual`: ids of what is usually behind it. `changes`: what to change; what a Case has already is left out.
    """

    least: float
    usual: Callable[[Setting], Iterator[str]]
    changes: Callable[[Setting], Iterator[Remedy]]

    def causes(self, s: Setting) -> tuple[Statement, ...]:
        """Return what is usually behind it."""
        return tuple(map(Statement, self.usual(s)))

    def remedies(self, s: Setting, batch: int | None = None) -> tuple[Remedy, ...]:
        """Return what to change. `batch`: the size to name in place of "a larger batch"."""
        return tuple(
            Remedy("batch_size", {"batch_size": batch}, "batch_size")
            if batch is not None and one == LARGER_BATCH
            else one
            for one in self.changes(s)
        )


LOADER_COMPUTES = 0.5  # of a loader's time on a core, without what it waits for one: above, it computes
LOADER_READS = 4096  # bytes a batch: a loader that waits and reads less waits for something else
OTHER_WORK = Statement("other_work")

LARGER_BATCH = Remedy("larger_batch", axis="batch_size")
END_OTHERS = Remedy("end_others")
_BF16 = Remedy("bf16", axis="precision")
_COMPILED = Remedy("compile", axis="compile")
_WIDE = ("fp32", "tf32")  # number formats that a narrower one may take the place of
_WORKERS = (2, 4, 8, 12, 16)
_SMALL_BATCH = 8  # items of an update
_LARGE_MODEL = 100_000_000  # parameters


# ── what waits, or is copied ────────────────────────────────────────────────────────────────────────────────


def _loader_usual(s: Setting) -> Iterator[str]:
    yield from (*(("slow_disk",) if _waits_for_files(s) else ()), "few_workers", "costly_preprocessing")


def _waits_for_files(s: Setting) -> bool:
    """Say whether a loader waits for files, or may: not where it computes, sleeps or waits for what is no file."""
    return not s.loader_computes and s.loader_reads is not False


def _loader(s: Setting) -> Iterator[Remedy]:
    yield from more_workers(s)
    yield from _pinned(s)
    if _waits_for_files(s):
        yield Remedy("faster_disk")
    yield Remedy("less_preprocessing")
    yield _faster_cpu(s)


def _faster_cpu(s: Setting) -> Remedy:
    workers = s.configuration.get("num_workers")
    if isinstance(workers, int) and s.cores is not None and workers >= s.cores:
        return Remedy("faster_cpu_than_workers", {"workers": workers, "cores": s.cores})
    return Remedy("faster_cpu")


def more_workers(s: Setting) -> Iterator[Remedy]:
    """Yield how many processes may load: no more than there are cores, unless a loader is known to wait."""
    workers = s.configuration.get("num_workers")
    if s.fixes("num_workers"):
        yield Remedy("own_workers")
    elif workers is None:
        yield Remedy("more_workers", axis="num_workers")
    elif isinstance(workers, int):
        most = None if s.loader_computes is False else s.cores
        more = tuple(n for n in _WORKERS if n > workers and (most is None or n <= most))
        if more:
            yield Remedy("num_workers", {"workers": more}, "num_workers")


def _pinned(s: Setting) -> Iterator[Remedy]:
    if s.accelerator and s.configuration.get("pin_memory") is not True:
        yield Remedy("pin_memory", axis="pin_memory")


def _transfer_usual(_: Setting) -> Iterator[str]:
    yield from ("pageable_memory", "large_batches")


def _transfer(s: Setting) -> Iterator[Remedy]:
    yield from _pinned(s)
    yield from more_workers(s)
    yield Remedy("smaller_numbers")


# ── what computes ───────────────────────────────────────────────────────────────────────────────────────────


def _computing_usual(s: Setting) -> Iterator[str]:
    yield "complex_model"
    if s.idles:
        yield "batch_too_small"
    elif not _is_small_batch(s):
        yield "large_batch"
    yield "inefficient_operations"
    if s.trains:
        yield "complex_backward"


def _computing(s: Setting) -> Iterator[Remedy]:
    yield from narrower(s)
    yield from _compiled(s)
    if s.configuration.get("channels_last") == "off":
        yield Remedy("channels_last", axis="channels_last")
    yield from _checkpointed(s)
    yield Remedy("libraries")
    yield Remedy("lighter_model")


def narrower(s: Setting) -> Iterator[Remedy]:
    """Yield narrower number formats that the device is made for, or may be, as far as is known."""
    present = s.configuration.get("precision")
    if present in _WIDE and (s.native is None or "bf16" in s.native):
        yield _BF16
    if present == "fp32" and s.native is not None and "tf32" in s.native:
        yield Remedy("tf32", axis="precision")


def _compiled(s: Setting) -> Iterator[Remedy]:
    if s.configuration.get("compile") == "off":
        yield _COMPILED


def _checkpointed(s: Setting) -> Iterator[Remedy]:
    if s.trains and s.configuration.get("gradient_checkpointing") is False:
        yield Remedy("gradient_checkpointing", axis="gradient_checkpointing")


def _optimizer_usual(s: Setting) -> Iterator[str]:
    parameters = s.facts.parameters
    if parameters >= _LARGE_MODEL if isinstance(parameters, int | float) else not _is_small_batch(s):
        yield "large_model"
    yield from ("small_updates", "adamw")


def _is_small_batch(s: Setting) -> bool:
    """Say whether an update is shared by so few items that it takes its share of the step in a model of any size."""
    size, steps = (s.configuration.get(name) for name in ("batch_size", "grad_accumulation"))
    return isinstance(size, int) and size * (steps if isinstance(steps, int) else 1) <= _SMALL_BATCH


def _optimizer(s: Setting) -> Iterator[Remedy]:
    if _is_small_batch(s) and not s.fixes("batch_size"):
        yield LARGER_BATCH
        yield Remedy("grad_accumulation", axis="grad_accumulation")
    else:
        yield Remedy("larger_batch_or_accumulation", axis="grad_accumulation")
    fused = s.configuration.get("fused")
    if fused == "off" or (fused != "on" and s.facts.fused_optimizer is False):
        yield Remedy("fused", axis="fused")
    if s.configuration.get("optimizer") in ("adam", "adamw"):
        yield Remedy("sgd", axis="optimizer")


# ── what does not depend on the batch ───────────────────────────────────────────────────────────────────────


def _between_usual(_: Setting) -> Iterator[str]:
    yield from ("python_between", "synchronisation")


def _not_filled_usual(_: Setting) -> Iterator[str]:
    yield from ("batch_too_small", "launches_between")


def _fill(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield from _compiled(s)


def _fixed_cost_usual(_: Setting) -> Iterator[str]:
    yield from ("fixed_overhead", "low_occupancy", "launch_overhead")


def _fixed_cost(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield Remedy("fewer_waits")
    yield from _compiled(s) if s.accelerator is False else _graphs(s)
    if s.configuration.get("feed") == "loader":
        yield Remedy("work_in_workers")
    if s.accelerator:
        yield Remedy("use_cpu")


def _graphs(s: Setting) -> Iterator[Remedy]:
    if s.configuration.get("compile") != "reduce-overhead":
        yield Remedy("cuda_graphs", axis="compile")


def _little_gain_usual(_: Setting) -> Iterator[str]:
    yield "too_small_for_it"


def _little_gain(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield from _graphs(s)
    yield Remedy("libraries")
    yield Remedy("use_cpu")


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def _memory_usual(s: Setting) -> Iterator[str]:
    yield "large_batch"
    if s.trains:
        yield "activations"
    yield "large_model"


def _pressure_usual(s: Setting) -> Iterator[str]:
    yield from ("memory_pressure", "swapping", "access_patterns")
    if s.trains:
        yield "growth_of_backward"


def _less_memory(s: Setting) -> Iterator[Remedy]:
    yield Remedy("smaller_batch_accumulated" if s.trains else "smaller_batch", axis="batch_size")
    if s.configuration.get("precision") in _WIDE:
        yield _BF16  # half the bytes, whatever the device is made for
    yield from _checkpointed(s)
    yield Remedy("smaller_model")


LOADER = Rule(0.10, _loader_usual, _loader)
TRANSFER = Rule(0.10, _transfer_usual, _transfer)
COMPUTING = Rule(0.50, _computing_usual, _computing)
OPTIMIZER = Rule(0.20, _optimizer_usual, _optimizer)  # usually it is a small share
BETWEEN_PHASES = Rule(0.10, _between_usual, _fill)
NOT_FILLED = Rule(0.50, _not_filled_usual, _fill)  # of the device's idle time: a loader that takes so much explains it
# By a curve over batch sizes: 1 - throughput ÷ the highest, of which the fixed cost of a step has next to nothing.
FIXED_COST = Rule(0.30, _fixed_cost_usual, _fixed_cost)
LITTLE_GAIN = Rule(1.5, _little_gain_usual, _little_gain)  # times the CPU's throughput: below, it buys little
FULL_MEMORY = Rule(SAFE_SHARE, _memory_usual, _less_memory)  # of the device's memory, at the peak
PRESSURE = Rule(0.10, _pressure_usual, _less_memory)  # of the CPU time, spent by the kernel
