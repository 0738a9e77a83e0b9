"""What a report of a run carries, so that it can be checked: its record, what is claimed of it, and their SHA-256.

The record has the plan, the seed and every raw value; `torchstone verify` computes the claims from it again. A folder
that `torchstone release` writes has the same files under the same names.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core import units
from torchstone.core.schema.answer import Answer
from torchstone.core.schema.codec import encode
from torchstone.core.schema.estimate import Estimate, Finding, Verdict
from torchstone.core.schema.machine import Peaks
from torchstone.core.schema.run import SCHEMA
from torchstone.core.schema.training import TrainingMetrics
from torchstone.report.attached import MOST_FILES, OCTETS, Packing
from torchstone.report.document import Attachment, Document, Role, Text
from torchstone.report.translation.catalogue import ENGLISH
from torchstone.report.translation.language import current_language
from torchstone.storage.database import FIGURES_VERSION
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
    return b"".join(_up_to(content, summary)) if summary.status == CUT_OFF else content


def _up_to(content: bytes, summary: RunSummary) -> Iterator[bytes]:
    """Yield the lines of an unfinished record up to the last trial of its summary."""
    trials = [trial for case in summary.cases for trial in case.trials]
    last = max(trials, key=lambda trial: trial.order).trial_id.encode() if trials else None
    lines = content.splitlines(keepends=True)
    yield from lines[:1]
    if last is not None:
        beginning = b'{"record":"trial","trial_id":"' + last + b'"'
        upto = next((n for n, line in enumerate(lines) if line.startswith(beginning)), len(lines) - 1)
        yield from lines[1 : upto + 1]


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
        why = _too_large(whole.sizes)
        note = Text(f"This report carries no record, so that `torchstone verify` cannot check it: {why}.", Role.NOTE)
        return msgspec.structs.replace(document, parts=(*document.parts, note))
    return msgspec.structs.replace(document, attachments=attachments(whole.files, packed))


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


# ── claims ──────────────────────────────────────────────────────────────────────────────────────────────────


_ROUNDING = 1e-9  # relative: sums of one formula on another processor
_OTHER_FORMULA = 0.01  # relative: what a corrected formula may move a figure by
_LIBRARIES = ("vl-convert-python", "typst", "python-pptx")  # what pictures, pages and slides are drawn with


class Claimed(msgspec.Struct, frozen=True, array_like=True):
    """One figure of a Case: its value and the ends of its confidence interval, over so many trials and samples."""

    value: float
    low: float | None
    high: float | None
    trials: int
    samples: int
    unit: str


class CaseClaims(msgspec.Struct, frozen=True):
    """What is claimed of a Case. `ends`: how many trials ended in which way, such as {"ok": 3}."""

    case_id: str
    name: str
    verdict: Verdict
    ends: Mapping[str, int]
    figures: Mapping[str, Claimed]


class Claims(msgspec.Struct, frozen=True, tag="claims", tag_field="record"):
    """What is claimed of a run. `record_sha256`: of the record as it is carried.

    `formulas`: the version of the formulas that the figures come from; `peaks`: those of the machine that the shares of
    a peak are of (they may have been measured after the run, so that its record lacks them); `libraries`: the versions
    of those that drew the report; `language`: of its texts.
    """

    schema: int
    run_id: str
    record_sha256: str
    torchstone: str
    formulas: int
    status: str
    seed: int
    cases: tuple[CaseClaims, ...]
    findings: tuple[Finding, ...]
    answer: Answer | None = None
    peaks: tuple[Peaks, ...] = ()
    libraries: Mapping[str, str] = {}
    language: str = ENGLISH


def claims_of(summary: RunSummary, record_sha256: str) -> Claims:
    """Return everything that a report of this run claims."""
    from importlib.metadata import version  # loads for longer than all else here

    findings = (*(finding for case in summary.cases for finding in case.findings), *summary.findings)
    return Claims(
        SCHEMA,
        summary.run_id,
        record_sha256,
        version("torchstone"),
        FIGURES_VERSION,
        summary.status,
        summary.procedure.seed,
        tuple(map(_case, summary.cases)),
        findings,
        summary.answer,
        summary.machine.peaks,
        libraries(),
        current_language(),
    )


def libraries() -> dict[str, str]:
    """Return the versions here of the libraries that reports are drawn with; of those that are not here none."""
    from importlib.metadata import PackageNotFoundError, version

    found = dict[str, str]()
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _case(case: CaseSummary) -> CaseClaims:
    ends = Counter(str(trial.outcome.status) for trial in case.trials)
    size = case.configuration.get("batch_size")
    batch = f", batch_size {size}" if size is not None else ""
    name = f"{case.workload.task} {case.workload.model}{batch} on {case.placement}"
    figures = {figure: _claimed(found) for figure, found in case.estimates.items()}
    return CaseClaims(case.case_id, name, case.verdict, dict(sorted(ends.items())), figures)


def _claimed(found: Estimate) -> Claimed:
    return Claimed(found.value, found.low, found.high, found.trials, found.samples, found.unit)


def unsupported_claims(claimed: Claims, derived: Claims) -> Iterator[str]:
    """Yield in a line each what is claimed and does not follow. `derived`: claims made from the record.

    Numbers may differ by rounding; where a formula has another version here, by 1 %.
    """
    share = _ROUNDING if claimed.formulas == derived.formulas else _OTHER_FORMULA
    if claimed.record_sha256 != derived.record_sha256:
        yield "the claims were computed from another record: its SHA-256 is not the one they name"
    for what in ("schema", "status", "seed"):
        if getattr(claimed, what) != getattr(derived, what):
            yield f"{what}: claimed {getattr(claimed, what)}, the record gives {getattr(derived, what)}"
    there = {case.case_id: case for case in derived.cases}
    for case in claimed.cases:
        if case.case_id not in there:
            yield f"{case.name}: claimed, and the record has no such case ({case.case_id})"
        else:
            yield from _of_case(case, there.pop(case.case_id), share)
    for case in there.values():
        yield f"{case.name}: in the record, and nothing is claimed of it"
    yield from _of_findings(claimed.findings, derived.findings)
    if not _equal(msgspec.to_builtins(claimed.answer), msgspec.to_builtins(derived.answer), share):
        yield "the answer that is claimed is not the one in the record"


def _of_case(claimed: CaseClaims, found: CaseClaims, share: float) -> Iterator[str]:
    name = found.name
    if claimed.name != name:
        yield f"{claimed.name}: the record has {name} under this id"
        return  # every figure is then another's
    if claimed.verdict != found.verdict:
        yield f"{name}: verdict: claimed {claimed.verdict}, the record gives {found.verdict}"
    if dict(claimed.ends) != dict(found.ends):
        yield f"{name}: trials: claimed {_counts(claimed.ends)}, the record has {_counts(found.ends)}"
    for figure in dict.fromkeys((*claimed.figures, *found.figures)):
        mine, theirs = claimed.figures.get(figure), found.figures.get(figure)
        if mine is None or theirs is None:
            where = "the record gives one" if mine is None else "the record gives none"
            yield f"{name}: {figure}: {'nothing' if mine is None else 'a value'} is claimed, {where}"
        elif not _equal(msgspec.to_builtins(mine), msgspec.to_builtins(theirs), share):
            yield f"{name}: {figure}: claimed {_words(mine, theirs)}, the record gives {_words(theirs, mine)}"


def _of_findings(claimed: Sequence[Finding], found: Sequence[Finding]) -> Iterator[str]:
    here, there = set(claimed), set(found)
    for finding in claimed:
        if finding not in there:
            yield f"finding {finding.check} ({finding.message}): claimed, and not in the record"
    for finding in found:
        if finding not in here:
            yield f"finding {finding.check} ({finding.message}): in the record, and not claimed"


def _counts(ends: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items())) or "none"


def _words(one: Claimed, other: Claimed) -> str:
    """Return a figure in words, with as many digits as it takes to see that the other one is another."""
    value = units.quantity(one.value, one.unit, 4)
    if value == units.quantity(other.value, other.unit, 4) and one.value != other.value:
        value = f"{one.value!r} {one.unit}"
    ends = ""
    if (one.low, one.high) != (other.low, other.high):
        ends = f" [{one.low!r}, {one.high!r}]" if one.low is not None else " without an interval"
    counts = (
        ""
        if (one.trials, one.samples) == (other.trials, other.samples)
        else f" of {one.trials} trials, {one.samples} samples"
    )
    return f"{value}{ends}{counts}"


def _equal(one: object, other: object, share: float) -> bool:
    """Say whether two plain values are equal, their floats within a relative difference."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=share, abs_tol=0.0) if isinstance(one, float) else one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key], share) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_equal(a, b, share) for a, b in zip(one, other, strict=True))
    return one == other
