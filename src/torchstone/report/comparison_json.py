"""A comparison as JSON: the file benchmark_comparison_<YYYYmmdd_HHMMSS>.json, and what --json prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from torchstone.analysis.compare.compare import ComparedRuns, JudgedFigure
from torchstone.analysis.compare.inputs import COMPARISON, ComparedInput, left_out
from torchstone.analysis.compare.runtimes import reached_by, runtime_ratios, runtime_s
from torchstone.analysis.compare.task_answers import TaskAnswer
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.own_files import write_whole
from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import SCHEMA
from torchstone.report.diagnosis_messages import with_texts
from torchstone.report.documents.task_words import answer_words, purpose
from torchstone.storage.run_document import write_new

_BEGINNING = b'{"record":"comparison"'


def report(compared: ComparedRuns, answers: Sequence[TaskAnswer]) -> dict[str, Any]:
    """Return the document: who was compared on which machine, every comparison, and the answer to each task."""
    return {
        "record": "comparison",
        "schema": SCHEMA,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "baseline": compared.participants[0].letter,
        "margin": compared.margin,
        "levels": {"first_figures": compared.levels[0], "other_figures": compared.levels[1]},
        "answers": [_answer(one, compared) for one in answers],
        "participants": [_participant(one) for one in compared.participants],
        "machines": {one.letter: one.runs[-1].head.machine for one in compared.participants},
        "comparisons": [_comparison(one) for one in compared.judged],
        "total_runtimes": runtime_ratios(compared),
        "compared_with_nothing": left_out(compared.participants, compared.matched),
        **({"prices": compared.asked.offers} if compared.asked.offers else {}),
    }


def _answer(one: TaskAnswer, compared: ComparedRuns) -> Mapping[str, Any]:
    return {**msgspec.structs.asdict(one), "purpose": purpose(one), "words": answer_words(one, compared)}


def _participant(one: ComparedInput) -> Mapping[str, Any]:
    return {
        "letter": one.letter, "label": one.label, "word": one.word,
        "runs": [
            {"run_id": head.run_id, "name": head.name, "started_utc": head.started_utc, "procedure": head.procedure}
            for head in (run.head for run in one.runs)
        ],
        "runtime_s": runtime_s(one), "accuracies": reached_by(one),
    }  # fmt: skip


def _comparison(one: JudgedFigure) -> Mapping[str, Any]:
    return {
        "case": one.case, "task": one.task, "block": one.block, "unit": one.unit,
        **msgspec.structs.asdict(one.comparison), "why": with_texts(one.comparison.why),
        "differing": with_texts(one.comparison.differing),
        "baseline_value": one.baseline_value, "candidate_value": one.candidate_value, "labels": with_texts(one.labels),
    }  # fmt: skip


def checked_output(file: Path) -> Path:
    """Return the file if a comparison may be written there. Raises UsageError if something else lies there."""
    if file.exists():
        begins = b""
        if file.is_file():
            with file.open("rb") as there:
                begins = there.read(len(_BEGINNING))
        if begins != _BEGINNING:
            raise UsageError(f"--output {file} is there already, and no comparison; name another file")
    return file


def write_report(document: Mapping[str, Any], folder: Path, file: Path | None = None) -> Path:
    """Write it into the output folder under a name of its own, or to `file`; return the path.

    Raises TorchstoneError if it cannot be written.
    """
    data = encode(document) + b"\n"
    moment = datetime.fromisoformat(document["created_utc"]).strftime("%Y%m%d_%H%M%S")
    try:
        if file is not None:
            return write_whole(file, data)
        folder.mkdir(parents=True, exist_ok=True)
        return write_new(folder, f"{COMPARISON}{moment}", data)
    except OSError as fault:
        raise TorchstoneError(f"cannot write {file or folder}: {fault.strerror}") from fault
