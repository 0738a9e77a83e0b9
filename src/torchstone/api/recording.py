"""Keeps what was measured in the user's own process: an ordinary record, document and index entry."""

from __future__ import annotations

import datetime
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torchstone.analysis.summary import summarize
from torchstone.api.notebook import ShownRun, shown
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.machine import Machine
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA, Head, Plan, Slot
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution import machine_facts
from torchstone.execution.inspection import inspect
from torchstone.storage.query import find
from torchstone.storage.record_reader import record_path
from torchstone.storage.record_writer import RecordWriter
from torchstone.storage.run_document import write_document
from torchstone.storage.stored_peaks import with_kept


def default_folder() -> Path:
    """Return where runs go unless told otherwise: $TORCHSTONE_OUTPUT, or outputs."""
    return Path(os.environ.get("TORCHSTONE_OUTPUT", "outputs"))


def keep(
    plan: Plan, procedure: Procedure, name: str, folder: Path, take: Callable[[Slot, int], Trial],
    notes: Sequence[Finding] = (),
) -> ShownRun:  # fmt: skip
    """Write a run whose trials `take(slot, order)` gives, one after another, and return its summary.

    `notes`: findings on what was asked for.

    The first is taken before anything is written: where the module or the request is wrong it raises, and no half
    record is left. A later one that raises leaves those before it in the record.
    """
    found = inspect()
    machine = with_kept(Machine(machine_facts.host(), found.devices, found.software, machine_facts.settings()))
    now = datetime.datetime.now(datetime.UTC)
    run_id = f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    started = now.isoformat(timespec="seconds")
    head = Head(SCHEMA, run_id, name, started, tuple(sys.argv), machine, procedure, plan)
    path = record_path(folder, run_id)
    first = take(plan.slots[0], 0)
    with RecordWriter(path, head) as writer:
        writer.append(first)
        for order, slot in enumerate(plan.slots[1:], 1):
            writer.append(take(slot, order))
        run = writer.end(notes, "done")
    write_document(run, folder)
    return shown(summarize(find(folder, run_id)))


def trial_of(case: Case, number: int, order: int, began_s: float, ended_s: float, parts: Mapping[str, object]) -> Trial:
    """Return a finished Trial with those parts (facts, measurements, series, its Outcome if it is not ok)."""
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ended_s - began_s)
    return Trial(
        trial_id=uuid.uuid4().hex[:12], case_id=case.case_id, number=number, order=order,
        started_utc=started.isoformat(timespec="milliseconds"), duration_s=round(ended_s - began_s, 6),
        **{"outcome": Outcome(Status.OK), **parts},  # type: ignore[arg-type]
    )  # fmt: skip
