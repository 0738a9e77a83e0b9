"""One file of each kind that is read again stays readable. Never edit those of a released schema: add a further one."""

from pathlib import Path
from typing import Any

import pytest

from torchstone.core.schema.ci import CiResult, HistoryEntry
from torchstone.core.schema.codec import decode, encode, with_texts
from torchstone.core.schema.machine import Peaks
from torchstone.core.schema.run import SCHEMA, Line
from torchstone.core.schema.run_document import RunDocument
from torchstone.core.schema.submission import Submission
from torchstone.core.schema.training import TrainingMetrics
from torchstone.core.schema.trial import Purpose, Status
from torchstone.storage import ci_folder, stored_peaks
from torchstone.storage.query import entry_of, read_run
from torchstone.storage.record_reader import read_record
from torchstone.storage.record_writer import record_lines
from torchstone.storage.run_document import read_document
from torchstone.storage.submissions import read_plan
from torchstone.storage.training import TrainingCard, read_card, read_metrics

GOLDEN = Path(__file__).parents[2] / "golden" / "schema_1"
# The kinds of results that are records, and what their record alone has.
RECORDS = {
    "infer": lambda run: len(run.head.plan.cases) == 2,
    "feed": lambda run: run.head.plan.cases[0].configuration["feed"] == "loader",
    "load": lambda run: run.head.plan.cases[0].workload.task == "load",
    "generate": lambda run: run.head.plan.cases[0].configuration["new_tokens"] == 4,
    "tune": lambda run: run.head.tune is not None and run.answer is not None and run.answer.gain is not None,
    "ab": lambda run: run.head.ab is not None and run.comparison is not None and run.comparison.ratio is not None,
    "diagnose": lambda run: any(trial.purpose == Purpose.PROBE for trial in run.trials),
    "train": lambda run: run.head.procedure.fit is not None and run.trials[0].facts.epochs == 2,
    "goodput": lambda run: any(case.workload.task == "loadgen" for case in run.head.plan.cases),
    "failed": lambda run: {trial.outcome.status for trial in run.trials} == {Status.TIMED_OUT},
    "imported": lambda run: run.head.procedure.settings is None,
    "python": lambda run: run.head.command == ("own.py",),
}
FILES: dict[str, tuple[Any, Any]] = {
    "document.json": (RunDocument, read_document),
    "training.json": (TrainingCard, lambda path: read_card(path.parent)),
    "training_metrics.json": (TrainingMetrics, read_metrics),
    "plan.json": (Submission, read_plan),
    "ci.json": (CiResult, lambda path: ci_folder.read_ci_result(path.parent)[0]),
    "ci_commit.json": (HistoryEntry, lambda path: ci_folder._decoded(path, HistoryEntry)),
    "peaks.json": (Peaks, stored_peaks._read),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_read_whole_and_written_as_it_was(kind, tmp_path):
    path = GOLDEN / f"{kind}.jsonl"
    for line in path.read_bytes().splitlines():
        assert encode(decode(line, Line)) == line
    run = read_run(path)
    assert run.head.schema == SCHEMA
    assert run.trials
    assert run.end is not None
    assert RECORDS[kind](run)
    assert entry_of(run, GOLDEN).trials[0].case_id in {case.case_id for case in run.head.plan.cases}
    again = tmp_path / "again.jsonl"
    again.write_bytes(b"".join(record_lines(run)))
    assert repr(read_record(again)) == repr(run), "where a value is NaN, equal runs are not =="


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_whole_and_written_as_it_was(name):
    kind, read = FILES[name]
    data = (GOLDEN / name).read_bytes()
    assert encode(with_texts(decode(data, kind))) + b"\n" == data
    found = read(GOLDEN / name)
    assert found is not None
    if isinstance(found, kind):
        assert encode(with_texts(found)) + b"\n" == data


def test_there_is_one_of_each_kind_and_no_other():
    assert {path.name for path in GOLDEN.iterdir()} == {*(f"{kind}.jsonl" for kind in RECORDS), *FILES}
