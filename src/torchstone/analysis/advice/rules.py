"""The rules of a diagnosis: from which figure on something is a bottleneck, what is usually behind it, what to change.

Observations (from records, beside this file) and causes (with measured evidence, workflows/diagnose/causes) both read
them here, so that one threshold and one text hold for both. Shares of a step decide; what people usually aim at, in
milliseconds and percent, is told beside them (usual.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from torchstone.analysis.advice.choices import SAFE_SHARE
from torchstone.analysis.advice.setting import Setting
from torchstone.core.schema.advice import Remedy


class Rule(msgspec.Struct, frozen=True):
    """One bottleneck. `least`: from here on it is one; of the step, where nothing else is said beside the rule.

    `usual`: what is usually behind it. `remedies`: what to change; what a Case has already is left out.
    """

    least: float
    usual: Callable[[Setting], Iterator[str]]
    remedies: Callable[[Setting], Iterator[Remedy]]


LOADER_COMPUTES = 0.5  # of a loader's time on a core, without what it waits for one: above, it computes
OTHER_WORK = "other work on the machine"

LARGER_BATCH = Remedy("a larger batch", "batch_size", "a larger batch_size; the learning rate follows it")
END_OTHERS = Remedy("end what else runs, or measure at another time (torchstone machine check tells)")
_BF16 = Remedy("precision=bf16", "precision", "torch.autocast (AMP); on older cards fp16 and GradScaler")
_TF32 = Remedy("precision=tf32", "precision", "torch.set_float32_matmul_precision('high')")
_COMPILED = Remedy("compile=default", "compile", "torch.compile(model)")
_GRAPHS = Remedy(
    "compile=reduce-overhead (CUDA graphs for operations that repeat)", "compile",
    "torch.compile(model, mode='reduce-overhead')",
)  # fmt: skip
_PINNED = Remedy("pin_memory=true", "pin_memory", "pin_memory=True of the DataLoader, .to(device, non_blocking=True)")
_CHANNELS_LAST = Remedy("channels_last=on for convolutions", "channels_last")
_CHECKPOINTS = Remedy("gradient_checkpointing=true: less memory, a longer backward pass", "gradient_checkpointing")
_LIBRARIES = Remedy("libraries optimized for the device (fused attention, cuDNN, oneDNN)")
_LIGHTER = Remedy("a lighter model")
_FEWER_WAITS = Remedy("fewer synchronisations (.item(), prints) in the step")
_CPU = Remedy("the CPU, for a model that small")
_WIDE = ("fp32", "tf32")  # number formats that a narrower one may take the place of
_WORKERS = (2, 4, 8, 12, 16)
_SMALL_BATCH = 8  # items of an update
_LARGE_MODEL = 100_000_000  # parameters


def texts(rule: Rule, s: Setting, batch: int | None = None) -> tuple[str, ...]:
    """Return the remedies of a rule in words. `batch`: the size to name in place of "a larger batch"."""
    return tuple(
        f"batch_size={batch}" if batch is not None and one == LARGER_BATCH else one.text for one in rule.remedies(s)
    )


# ── what waits, or is copied ────────────────────────────────────────────────────────────────────────────────


def _loader_usual(s: Setting) -> Iterator[str]:
    yield from (*(() if s.loader_computes else ("slow disk",)), "too few workers", "costly preprocessing")


def _loader(s: Setting) -> Iterator[Remedy]:
    yield from more_workers(s)
    yield from _pinned(s)
    if not s.loader_computes:
        yield Remedy("a faster disk (SSD), or fewer, larger files")
    yield Remedy("less preprocessing for each item, or once, beforehand")
    yield _faster_cpu(s)


def _faster_cpu(s: Setting) -> Remedy:
    workers = s.configuration.get("num_workers")
    if isinstance(workers, int) and s.cores is not None and workers >= s.cores:
        return Remedy(f"a faster CPU: {workers} workers on {s.cores} cores will not get faster by more workers")
    return Remedy("a faster CPU")


def more_workers(s: Setting) -> Iterator[Remedy]:
    """Yield how many processes may load: no more than there are cores, unless a loader is known to wait."""
    workers = s.configuration.get("num_workers")
    if s.fixes("num_workers"):
        yield Remedy("processes that load: return the Dataset, or a DataLoader of torch's, of which others are made")
    elif workers is None:
        yield Remedy("more num_workers", "num_workers")
    elif isinstance(workers, int):
        most = None if s.loader_computes is False else s.cores
        more = [str(n) for n in _WORKERS if n > workers and (most is None or n <= most)]
        if more:
            yield Remedy(f"num_workers={','.join(more)}", "num_workers")


def _pinned(s: Setting) -> Iterator[Remedy]:
    if s.accelerator and s.configuration.get("pin_memory") is not True:
        yield _PINNED


def _transfer_usual(_: Setting) -> Iterator[str]:
    yield from ("pageable memory", "large batches")


def _transfer(s: Setting) -> Iterator[Remedy]:
    yield from _pinned(s)
    yield from more_workers(s)
    yield Remedy("smaller numbers in a batch (uint8 images, normalised on the device)")


# ── what computes ───────────────────────────────────────────────────────────────────────────────────────────


def _computing_usual(s: Setting) -> Iterator[str]:
    yield "complex model"
    if s.idle is not None:
        yield "batch too small"
    elif not _is_small_batch(s):
        yield "large batch"
    yield "inefficient operations"
    if s.trains:
        yield "complex graph of the backward pass"


def _computing(s: Setting) -> Iterator[Remedy]:
    yield from narrower(s)
    yield from _compiled(s)
    if s.configuration.get("channels_last") == "off":
        yield _CHANNELS_LAST
    yield from _checkpointed(s)
    yield _LIBRARIES
    yield _LIGHTER


def narrower(s: Setting) -> Iterator[Remedy]:
    """Yield narrower number formats that the device is made for, or may be, as far as is known."""
    present = s.configuration.get("precision")
    if present in _WIDE and (s.native is None or "bf16" in s.native):
        yield _BF16
    if present == "fp32" and s.native is not None and "tf32" in s.native:
        yield _TF32


def _compiled(s: Setting) -> Iterator[Remedy]:
    if s.configuration.get("compile") == "off":
        yield _COMPILED


def _checkpointed(s: Setting) -> Iterator[Remedy]:
    if s.trains and s.configuration.get("gradient_checkpointing") is False:
        yield _CHECKPOINTS


def _optimizer_usual(s: Setting) -> Iterator[str]:
    parameters = s.facts.get("parameters")
    if parameters >= _LARGE_MODEL if isinstance(parameters, int | float) else not _is_small_batch(s):
        yield "large model"
    yield from ("small batch", "AdamW")


def _is_small_batch(s: Setting) -> bool:
    """Say whether an update is shared by so few items that it takes its share of the step in a model of any size."""
    size, steps = (s.configuration.get(name) for name in ("batch_size", "grad_accumulation"))
    return isinstance(size, int) and size * (steps if isinstance(steps, int) else 1) <= _SMALL_BATCH


def _optimizer(s: Setting) -> Iterator[Remedy]:
    if _is_small_batch(s) and not s.fixes("batch_size"):
        yield LARGER_BATCH
        yield Remedy("grad_accumulation: fewer updates for each item", "grad_accumulation")
    else:
        yield Remedy("a larger batch or grad_accumulation: fewer updates for each item", "grad_accumulation")
    fused = s.configuration.get("fused")
    if fused == "off" or (fused != "on" and s.facts.get("fused_optimizer") is False):
        yield Remedy("fused=on: one kernel for many tensors", "fused", "fused=True (or foreach=True) of the optimizer")
    if s.configuration.get("optimizer") in ("adam", "adamw"):
        yield Remedy("sgd, which keeps less for each weight, if it trains as well", "optimizer")


# ── what does not depend on the batch ───────────────────────────────────────────────────────────────────────


def _between_usual(_: Setting) -> Iterator[str]:
    yield from ("Python between the calls", "synchronisation")


def _not_filled_usual(_: Setting) -> Iterator[str]:
    yield from ("batch too small", "launches and synchronisation between its kernels")


def _fill(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield from _compiled(s)


def _fixed_cost_usual(_: Setting) -> Iterator[str]:
    yield from ("fixed overhead of a step", "low occupancy", "launch overhead")


def _fixed_cost(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield _FEWER_WAITS
    yield from _compiled(s) if s.accelerator is False else _graphs(s)
    if s.configuration.get("feed") == "loader":
        yield Remedy("more of the loader's work in its workers")
    if s.accelerator:
        yield _CPU


def _graphs(s: Setting) -> Iterator[Remedy]:
    if s.configuration.get("compile") != "reduce-overhead":
        yield _GRAPHS


def _little_gain_usual(_: Setting) -> Iterator[str]:
    yield "a model or batches too small for it"


def _little_gain(s: Setting) -> Iterator[Remedy]:
    yield LARGER_BATCH
    yield from _graphs(s)
    yield _LIBRARIES
    yield _CPU


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


def _memory_usual(s: Setting) -> Iterator[str]:
    yield "large batch"
    if s.trains:
        yield "activations kept for the backward pass"
    yield "large model"


def _pressure_usual(s: Setting) -> Iterator[str]:
    yield from ("memory pressure", "swapping", "access patterns")
    if s.trains:
        yield "growth of the backward pass"


def _less_memory(s: Setting) -> Iterator[Remedy]:
    same = ", with grad_accumulation for the same effective batch" * s.trains
    yield Remedy(f"a smaller batch{same}", "batch_size")
    if s.configuration.get("precision") in _WIDE:
        yield _BF16  # half the bytes, whatever the device is made for
    yield from _checkpointed(s)
    yield Remedy("a smaller model (less depth or width), or another architecture")


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
