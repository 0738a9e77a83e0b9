"""From a request to stored results: check it, rehearse what is the user's own, measure, write, index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone import plan, registry
from torchstone.rows import case_rows
from torchstone.runner.open_run import take_all
from torchstone.runner.session import Session
from torchstone.runner.watcher import Watcher
from torchstone.store.document import write_document
from torchstone.store.query import find
from torchstone.summary import RunSummary, summarize
from torchstone.terms.case import Case, Placement

if TYPE_CHECKING:
    from torchstone.config.request import RunRequest


class Campaign:
    """One `torchstone run`. Everything that can be wrong with the request is found before anything is written."""

    def __init__(self, request: RunRequest, watcher: Watcher) -> None:
        self._request = request
        self._watcher = watcher
        self._sketches = [plan.sketch(plan.Ask(w.task, w.model, w.data, w.options, w.axes)) for w in request.workloads]

    def carry_out(self, folder: Path, command: Sequence[str]) -> tuple[RunSummary, tuple[Path, Path]]:
        """Measure into `folder`; return the summary, and the paths of the document and of the table of its cases."""
        preload = [sketch.workload.model for sketch in self._sketches]
        with Session(self._request.procedure, preload, self._watcher) as session:
            machine, found = session.inspect()
            placements = [plan.place(word, found, machine) for word in (self._request.device or "auto").split(",")]
            whole = plan.arrange(self._sketches, placements, session.procedure.trials, session.procedure.seed)
            session.rehearse(self._own(placements))
            head = session.head(whole, machine, self._request.name or "run", command)
            run = take_all(session, head, folder)
        document = write_document(run, folder)
        table = folder / "data" / f"{run.head.run_id}_cases.csv"
        table.parent.mkdir(exist_ok=True)
        registry.load("exporters", "csv").write(run, case_rows(run), table)
        return summarize(find(folder, run.head.run_id)), (document, table)

    def _own(self, placements: Sequence[Placement]) -> list[Case]:
        """One Case for each workload that is the user's own, in its first configuration."""
        return [Case(s.workload, s.configurations[0], placements[0]) for s in self._sketches if s.own]
