"""Results that are no runs (a memory prediction, a machine check, costs, …) as files, to be shown again.

`--save` writes DIR/analysis/KIND.json, which holds the kind and the typed value, and the same as Markdown. `show` and
`report` compute its Document anew: a page says what the command said.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from torchstone.core.errors import UsageError, unknown
from torchstone.core.own_files import write_whole
from torchstone.core.schema.codec import check_stamp, decode, encode
from torchstone.core.schema.run import SCHEMA
from torchstone.report.document import Document
from torchstone.storage.record_reader import read_bounded

RECORD = "result"
_MOST_BYTES = 64 * 2**20
_FIRST_BYTES = 4096  # in which a file says what it is
V = TypeVar("V")


class ResultKind(NamedTuple):
    """Where the type of a kind's values is, and in report/documents the function that makes a Document of one.

    `json`: the function that makes what --json prints; None: the value as it is. Each is `module:name`.
    """

    value: str
    document: str
    json: str | None = None


KINDS: Mapping[str, ResultKind] = {
    "memory": ResultKind(
        "analysis.memory_fit:MemoryAnswer", "memory:memory_document", "report.documents.memory:memory_json"
    ),
    "machine_check": ResultKind(
        "workflows.machine_check.examination:Examination",
        "machine:machine_check_document",
        "report.diagnosis_messages:with_texts",
    ),
    "machine_check_all": ResultKind("workflows.machine_check.examination:SideBySide", "machine:machine_all_document"),
    "peaks": ResultKind(
        "report.documents.machine:MeasuredPeaks", "machine:peaks_document", "report.documents.machine:peaks_json"
    ),
    "cost": ResultKind("analysis.cost:CostAnswer", "cost:cost_document"),
    "recommendation": ResultKind(
        "analysis.recommend.recommend:Recommendation",
        "recommendation:recommendation_document",
        "report.diagnosis_messages:with_texts",
    ),
    "history": ResultKind("analysis.recommend.case_history:Histories", "history:history_document"),
    "evaluation": ResultKind(
        "workflows.train.evaluation:TestResults",
        "training:evaluation_document",
        "workflows.train.evaluation:evaluation_json",
    ),
}


class Result(msgspec.Struct, frozen=True):
    """A result of a kind of KINDS."""

    kind: str
    value: Any

    def document(self) -> Document:
        """Return what is said of it."""
        made: Document = _named(f"report.documents.{KINDS[self.kind].document}")(self.value)
        return made

    def json(self) -> Any:
        """Return what --json prints of it."""
        how = KINDS[self.kind].json
        return self.value if how is None else _named(how)(self.value)


class _KindOnly(msgspec.Struct):
    kind: str


class _File(msgspec.Struct, Generic[V]):
    value: V


def save_result(result: Result, folder: Path) -> tuple[Path, Path]:
    """Write a result as JSON and as Markdown into `folder`/analysis, in place of an earlier one, and return the paths.

    Raises UsageError if they cannot be written.
    """
    from importlib.metadata import version  # which commands that only print do not wait for

    from torchstone.report.renderers.md import markdown
    from torchstone.report.translation.documents import in_spoken_language

    data = result_path(folder, result.kind)
    page = data.with_suffix(".md")
    head = {
        "record": RECORD,
        "schema": SCHEMA,
        "kind": result.kind,
        "torchstone": version("torchstone"),
        "written_utc": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        write_whole(data, encode({**head, "value": result.value}) + b"\n", folder)
        write_whole(page, markdown(in_spoken_language(result.document())).encode(), folder)
    except OSError as fault:
        raise UsageError(f"cannot write into {data.parent}: {fault.strerror}") from None
    return data, page


def result_path(folder: Path, kind: str) -> Path:
    """Return where an output folder has the result of a kind."""
    return folder / "analysis" / f"{kind}.json"


def is_result(word: str) -> bool:
    """Return whether that word of a command line names a file that says it is a result."""
    path = Path(word)
    if path.suffix != ".json" or not path.is_file():
        return False
    with read_bounded(path) as file:
        return f'"record":"{RECORD}"'.encode() in file.read(_FIRST_BYTES)


def read_result(path: Path) -> tuple[Result, Document]:
    """Return the result in a file, and what is said of it. Raises UsageError for a file that holds none.

    Or is too large, or holds values that no torchstone writes.
    """
    with read_bounded(path) as file:
        data = file.read(_MOST_BYTES + 1)
    try:
        if len(data) > _MOST_BYTES:
            raise UsageError(f"more than {_MOST_BYTES} bytes")
        check_stamp(data, RECORD, "result")
        kind: str = decode(data, _KindOnly).kind
        if kind not in KINDS:
            raise unknown("kind of result", kind, KINDS)
        result = Result(kind, decode(data, _File[_named(KINDS[kind].value)]).value)  # type: ignore[misc]
        return result, result.document()
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as fault:
        raise UsageError(f"{path}: holds values that no torchstone writes ({fault})") from fault


def _named(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(f"torchstone.{module}"), name)
