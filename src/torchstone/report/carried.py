"""What a report of a run carries, so that it can be checked: its record, what is claimed of it, and their SHA-256.

The record has the plan, the seed and every raw value; `torchstone verify` computes the claims from it again. A folder
that `torchstone release` writes has the same files under the same names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core import units
from torchstone.core.schema.codec import encode
from torchstone.core.schema.training import TrainingMetrics
from torchstone.report.attached import MOST_FILES, OCTETS
from torchstone.report.claims import claims_of
from torchstone.report.document import Attachment, Document, Role, Text
from torchstone.report.packing import Packing
from torchstone.storage.manifest import MANIFEST, manifest_bytes, sums_of
from torchstone.storage.query import read_run
from torchstone.storage.record_reader import read_bounded
from torchstone.storage.record_writer import record_lines
from torchstone.storage.rows import CUT_OFF
from torchstone.storage.training import metrics_of

RECORDS, CLAIMS, TRAININGS = "records", "claims", "trainings"  # folders
CARRYING = frozenset({".html"})  # of the formats that carry a record: `verify` reads it from them
MOST_RAW_BYTES, MOST_PACKED_BYTES = 256 * 2**20, 20 * 2**20  # of a record that a report carries
_KINDS = {".jsonl": "application/jsonl", ".json": "application/json", "": "text/plain"}


def record_name(run_id: str) -> str:
    """Return the name under which the record of a run is carried."""
    return f"{RECORDS}/{run_id}.jsonl"


def claims_name(run_id: str) -> str:
    """Return the name under which the claims of a run are carried."""
    return f"{CLAIMS}/{run_id}.json"


def training_name(run_id: str) -> str:
    """Return the name under which the epochs of a training are carried: its record has none of them."""
    return f"{TRAININGS}/{run_id}.json"


def record_bytes(summary: RunSummary) -> bytes:
    """Return the record of a run: as it is stored, or written anew from a document or a file of another tool.

    Of a run that still goes on: as far as the summary knows it. Raises UsageError where it cannot be read.
    """
    path = Path(summary.record)
    with read_bounded(path) as file:
        content = file.read()
    if not content.startswith(b'{"record":"head"'):
        return b"".join(record_lines(read_run(path)))
    return b"".join(_known(content, summary)) if summary.status == CUT_OFF else content


def _known(content: bytes, summary: RunSummary) -> Iterator[bytes]:
    """Yield the lines of an unfinished record up to the last trial of its summary."""
    trials = [trial for case in summary.cases for trial in case.trials]
    last = max(trials, key=lambda trial: trial.order).trial_id.encode() if trials else None
    lines = content.splitlines(keepends=True)
    yield from lines[:1]
    if last is not None:
        upto = next((n for n, line in enumerate(lines) if _is_trial(line, last)), len(lines) - 1)
        yield from lines[1 : upto + 1]


def _is_trial(line: bytes, trial_id: bytes) -> bool:
    return line.startswith(b'{"record":"trial","trial_id":"' + trial_id + b'"')


def claim_files(summary: RunSummary, record: bytes) -> dict[str, bytes]:
    """Return the record of a run and its claims, by their names."""
    claims = claims_of(summary, hashlib.sha256(record).hexdigest())
    return {record_name(summary.run_id): record, claims_name(summary.run_id): encode(claims) + b"\n"}


def training_file(metrics: TrainingMetrics) -> dict[str, bytes]:
    """Return the epochs of a training by the name of their file."""
    return {training_name(metrics.run_id): encode(metrics) + b"\n"}


def files_of_run(summary: RunSummary) -> dict[str, bytes]:
    """Return all that a report of a run follows from, by name. Raises UsageError where a file cannot be read."""
    metrics = metrics_of(summary.run_id, summary.procedure.fit)
    epochs = training_file(metrics) if metrics is not None else {}
    return {**claim_files(summary, record_bytes(summary)), **epochs}


def with_record(document: Document, summary: RunSummary) -> Document:
    """Return the Document of a run with what it follows from. Raises UsageError where the record cannot be read."""
    return carrying(document, files_of_run(summary))


def packing(files: Mapping[str, bytes]) -> Packing:
    """Return the files of runs and their SHA-256, which are compressed from now on; none that are too large."""
    whole = {**files, MANIFEST: manifest_bytes(sums_of(files))}
    sizes = {name: len(content) for name, content in whole.items()}
    return Packing(whole, MOST_PACKED_BYTES if _unpacked_too_large(sizes) is None else 0)


def carrying(document: Document, files: Mapping[str, bytes] | Packing) -> Document:
    """Return a Document that carries the files of its runs and their SHA-256; with a note where they are too large."""
    whole = files if isinstance(files, Packing) else packing(files)
    packed = whole.packed()
    if packed is None:
        return with_note(document, _too_large(whole.sizes))
    return msgspec.structs.replace(document, attachments=attachments(whole.files, packed))


def with_note(document: Document, why: str) -> Document:
    """Return a Document that says why it carries no record."""
    note = Text(f"This report carries no record, so that `torchstone verify` cannot check it: {why}.", Role.NOTE)
    return msgspec.structs.replace(document, parts=(*document.parts, note))


def _too_large(sizes: Mapping[str, int]) -> str:
    """Return why a report does not carry files of these sizes in bytes."""
    why = _unpacked_too_large(sizes)
    return why or f"{_records(sizes)} more than {units.quantity(MOST_PACKED_BYTES, 'bytes')} when compressed"


def _unpacked_too_large(sizes: Mapping[str, int]) -> str | None:
    """Return why a report carries no files of these sizes, however small they become; None where it may."""
    if len(sizes) > MOST_FILES:
        records = sum(name.startswith(f"{RECORDS}/") for name in sizes)
        return f"it shows {records} runs, more than {(MOST_FILES - 2) // 2}"
    size = sum(sizes.values())
    if size > MOST_RAW_BYTES:
        most = units.quantity(MOST_RAW_BYTES, "bytes")
        return f"{_records(sizes)} {units.quantity(size, 'bytes')}, more than {most}"
    return None


def _records(names: Iterable[str]) -> str:
    count = sum(name.startswith(f"{RECORDS}/") for name in names)
    return "its record has" if count == 1 else f"its {count} records have"


def attachments(files: Mapping[str, bytes], packed: Mapping[str, bytes] | None = None) -> tuple[Attachment, ...]:
    """Return files as what a Document carries. `packed`: as gzip, by their names."""
    return tuple(
        Attachment(name, _KINDS.get(Path(name).suffix, OCTETS), content, (packed or {}).get(name))
        for name, content in files.items()
    )
