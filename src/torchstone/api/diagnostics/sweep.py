"""Measures a model at hand at several batch sizes on several devices, as one run. What fails is a trial too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchstone.analysis.sweep_table import Swept
from torchstone.api.bench import Bench
from torchstone.api.devices import Opened, open_device
from torchstone.api.diagnostics.usual_loss import cross_entropy
from torchstone.api.keeping.keeping import Keeping
from torchstone.api.recording import keep, trial_of
from torchstone.core.errors import UsageError, unknown
from torchstone.core.schema.case import Case
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Slot
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution.timing.clock import system_clock
from torchstone.execution.worker.outcome import ended_by
from torchstone.plugins import registry

_GOES_ON = (Status.OUT_OF_MEMORY, Status.UNSUPPORTED)
_USUAL_SIZES = (8, 16, 32, 64, 128)


def sweep(
    parts: Mapping[str, Any],
    title: str,
    batch_sizes: Sequence[int] | None,
    devices: Sequence[Any] | None,
    procedure: Procedure,
    folder: Path,
    kept: Keeping,
) -> Swept:
    """Measure and record. Raises UsageError where nothing can be measured, and what the user's own code raises."""
    bench = Bench("Diagnostics", "train", parts, title, procedure, kept, "loss_fn", cross_entropy)
    opened, skipped = _open(devices)
    sizes = _sizes(bench, batch_sizes)
    cases = [(bench.case(one.placement, {"batch_size": size}), one) for one in opened for size in sizes]
    slots = tuple(Slot(case, number) for number in range(procedure.repetitions) for case in range(len(cases)))
    taker = _Taker(bench, cases)
    summary = keep(Plan(tuple(case for case, _ in cases), slots), procedure, title, folder, taker.take)
    return Swept(summary, skipped)


class _Taker:
    """Takes one trial after another. One that runs out of memory, or cannot be done, has its outcome and no figures."""

    def __init__(self, bench: Bench, cases: Sequence[tuple[Case, Opened]]) -> None:
        self._bench, self._cases = bench, cases
        self._ended: dict[int, Outcome] = {}

    def take(self, slot: Slot, order: int) -> Trial:
        """Take the trial of a slot; a case that failed once is not tried again."""
        case, opened = self._cases[slot.case]
        began_s = system_clock()
        outcome = self._ended.get(slot.case) or self._impossible(case)
        if outcome is None:
            try:
                return self._bench.take(case, opened, slot, order)
            except Exception as error:
                outcome = ended_by(error).outcome
                if outcome.status not in _GOES_ON:
                    raise
        self._ended[slot.case] = outcome
        return trial_of(case, slot.number, order, began_s, system_clock(), {"outcome": outcome})

    def _impossible(self, case: Case) -> Outcome | None:
        has = (getattr(self._bench.model.samples, "fixed", None) or {}).get("batch_size")
        if has is None or case.configuration["batch_size"] == has:
            return None
        why = f"the batches are used as they come, with {has} items each; pass the Dataset to vary the batch size"
        return Outcome(Status.UNSUPPORTED, why)


def _sizes(bench: Bench, asked: Sequence[int] | None) -> Sequence[int]:
    if asked is None:
        own = (getattr(bench.model.samples, "fixed", None) or {}).get("batch_size")
        return _USUAL_SIZES if own is None else (int(own),)
    sizes = tuple(dict.fromkeys(asked))
    if not sizes:
        raise UsageError("Diagnostics.run: batch_sizes is empty; give some, for example [8, 16, 32, 64, 128]")
    return sizes


def _open(devices: Sequence[Any] | None) -> tuple[list[Opened], dict[str, str]]:
    """Return the devices that are here, and why others are not. None: the CPU, and the accelerator if there is one."""
    opened: dict[str, Opened] = {}
    skipped: dict[str, str] = {}
    kinds = ("auto", *registry.names("devices"))
    for word in ("cpu", "auto") if devices is None else map(str, devices):  # torch.device("cuda", 0) is "cuda:0"
        if word.partition(":")[0] not in kinds:
            raise unknown("device", word, kinds)
        try:
            one = open_device(word)
        except UsageError as fault:
            skipped[word] = str(fault)
            continue
        opened.setdefault(str(one.placement), one)
    if not opened:
        why = "; ".join(skipped.values()) or "devices is empty"
        raise UsageError(f"Diagnostics.run: no device to measure on: {why}")
    return list(opened.values()), skipped
