"""Keeps what was measured in the user's own process: an ordinary record, document and index entry."""

from __future__ import annotations

import datetime
import importlib.util
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.estimate import Finding
from torchstone.core.schema.machine import DeviceInfo, Machine
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import SCHEMA, Head, Plan, Slot
from torchstone.core.schema.trial import Outcome, Status, Trial
from torchstone.execution import machine_facts, plan
from torchstone.execution.inspection import inspect
from torchstone.plugins import registry
from torchstone.plugins.machine_protocols import Device
from torchstone.report.document import Document, Part, Role, Text
from torchstone.report.documents.run import pictured_part, run_document, run_pictures
from torchstone.storage.query import find, read_run
from torchstone.storage.record_reader import record_path
from torchstone.storage.record_writer import RecordWriter
from torchstone.storage.run_document import write_document
from torchstone.storage.stored_peaks import with_kept
from torchstone.storage.training import metrics_of


class ShownRun(RunSummary, frozen=True):
    """A RunSummary that a notebook shows with its pictures."""

    def _repr_html_(self) -> str | None:
        return as_html(lambda: document_with_pictures(self))


def shown(summary: RunSummary) -> ShownRun:
    """Return the same summary as one that a notebook shows."""
    return ShownRun(**{name: getattr(summary, name) for name in summary.__struct_fields__})


def as_html(make: Callable[[], Document]) -> str | None:
    """Return a Document as HTML, in the language of $TORCHSTONE_LANG.

    None without Jinja2 (pip install 'torchstone[report]'): a notebook shows the text.
    """
    if importlib.util.find_spec("jinja2") is None:
        return None
    from torchstone.report.renderers.html.fragment import fragment
    from torchstone.report.translation.documents import in_spoken_language

    return fragment(in_spoken_language(make()))


def document_with_pictures(summary: RunSummary) -> Document:
    """Return the Document of a run with its pictures, or why there are none."""
    return run_document(summary, pictures=_pictures(summary))


def _pictures(summary: RunSummary) -> Sequence[Part]:
    """Return the pictures. Reads the record, since its raw values are shown."""
    try:
        run = read_run(Path(summary.record), pictured_part(summary))
        return run_pictures(summary, run, metrics_of(summary.run_id, summary.procedure.fit))
    except (TorchstoneError, OSError) as fault:  # the record was moved: its figures are here, and can be shown
        return (Text(f"no pictures: {fault}", Role.DETAIL),)


def frame_of(rows: Sequence[Mapping[str, Scalar]]) -> Any:
    """Return the rows as a DataFrame; as a list where pandas is not installed (pip install 'torchstone[frames]')."""
    try:
        pandas: Any = import_module("pandas")
    except ImportError:
        return list(rows)
    frame = pandas.DataFrame(list(rows))
    for name in frame.columns:  # whole numbers stay whole where one is missing
        values = [row[name] for row in rows]
        if None in values and all(type(value) is int for value in values if value is not None):
            frame[name] = frame[name].astype("Int64")
    return frame


class Opened(msgspec.Struct, frozen=True):
    """A device that is open, what it is called here, and what it is."""

    device: Device
    placement: Placement
    info: DeviceInfo | None


def device_in_words(word: str) -> Opened:
    """Return the device that `auto`, `cpu`, `cuda:1`, … means here. Raises UsageError if it is not there."""
    found = inspect()
    machine = Machine(machine_facts.host(), found.devices, found.software, {})
    placement = plan.place(word, found, machine)
    device: Device = registry.load("devices", placement.device).open(placement.index)
    return Opened(device, placement, machine.device(placement.device, placement.index))


def default_folder() -> Path:
    """Return where runs go unless told otherwise: $TORCHSTONE_OUTPUT, or outputs."""
    return Path(os.environ.get("TORCHSTONE_OUTPUT", "outputs"))


def keep(
    plan: Plan,
    procedure: Procedure,
    name: str,
    folder: Path,
    take: Callable[[Slot, int], Trial],
    notes: Sequence[Finding] = (),
) -> ShownRun:
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
        trial_id=uuid.uuid4().hex[:12],
        case_id=case.case_id,
        number=number,
        order=order,
        started_utc=started.isoformat(timespec="milliseconds"),
        duration_s=round(ended_s - began_s, 6),
        **{"outcome": Outcome(Status.OK), **parts},  # type: ignore[arg-type]
    )
