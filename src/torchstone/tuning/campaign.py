"""From a request to a stored answer: check it, rehearse what is the user's own, search, duel, write, index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torchstone import plan, registry
from torchstone.errors import UsageError
from torchstone.rows import case_rows
from torchstone.runner.session import Session
from torchstone.store.document import write_document
from torchstone.store.query import find
from torchstone.summary import RunSummary, summarize
from torchstone.terms.run import Run, Source
from torchstone.tuning.request import TuneRequest, TuneSketch
from torchstone.tuning.space import Space
from torchstone.tuning.tune import begin, go_on, no_answer
from torchstone.tuning.watching import TuneWatcher


class Tuned(NamedTuple):
    """A finished tune: its summary, the paths of its document and table, and why it has no answer where it has none."""

    summary: RunSummary
    files: tuple[Path, Path]
    no_answer: str | None


def carry_out(
    request: TuneRequest, watcher: TuneWatcher, folder: Path, command: Sequence[str], source: Source | None = None
) -> Tuned:
    """Tune into `folder`."""
    sketch = TuneSketch(request)
    device = request.run.device or "auto"
    if "," in device:
        raise UsageError(f"--device {device}: tune takes one device at a time")
    with Session(request.run.procedure, [sketch.sketch.workload.model], watcher) as session:
        machine, found = session.inspect()
        quest = sketch.quest(plan.place(device, found, machine), machine, session.procedure.trials)
        first = Space(quest)  # a space without a point is found here, before anything is written
        session.rehearse([first.case(first.points[0])] if sketch.sketch.own else [])
        return stored(
            begin(session, quest, machine, request.run.name or "tune", command, folder, watcher, source), folder
        )


def resume(run: Run, path: Path, watcher: TuneWatcher, folder: Path) -> Tuned:
    """Go on with the tune whose record is at `path`: what it holds is believed, what is missing is taken."""
    quest = run.head.quest
    if quest is None:
        raise UsageError(f"run {run.head.run_id} is not a tune")
    with Session(run.head.procedure, [quest.base.workload.model], watcher) as session:
        return stored(go_on(session, path, folder, watcher), folder)


def stored(run: Run, folder: Path) -> Tuned:
    """Write the document and the table of a finished tune."""
    document = write_document(run, folder)
    table = folder / "data" / f"{run.head.run_id}_cases.csv"
    table.parent.mkdir(exist_ok=True)
    registry.load("exporters", "csv").write(run, case_rows(run), table)
    return Tuned(summarize(find(folder, run.head.run_id)), (document, table), no_answer(run))
