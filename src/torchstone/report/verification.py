"""Whether what a report says follows from the record that it carries: everything is computed again and compared."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import decode
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.page_locking import WITHOUT_EFFECT
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import TrainingMetrics
from torchstone.execution.controller.active_run import RESUMED
from torchstone.plugins import registry
from torchstone.plugins.checking import look
from torchstone.report.bundle import Bundle, sum_faults
from torchstone.report.carried import CLAIMS, RECORDS, TRAININGS, claims_name, record_name, training_name
from torchstone.report.claims import Claims, claims_of, differences, libraries
from torchstone.report.layout import LAYOUT, DocumentAgain, Kind, Known, Layout
from torchstone.report.page_checks import Reported, Told, Written, check_page
from torchstone.report.release_checks import check_reports, first_line_apart
from torchstone.report.release_files import ENVIRONMENT, FIGURES, REPORTS, DocumentOf, environment_files
from torchstone.report.training_checks import placed, training_of
from torchstone.report.translation.catalogue import ENGLISH, languages
from torchstone.report.translation.documents import translated
from torchstone.storage.manifest import MANIFEST
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import checked_id, read_record
from torchstone.workflows.ab import recomputed as ab
from torchstone.workflows.tune import recomputed as tune

_OF_A_RUN = (RESUMED, WITHOUT_EFFECT)  # findings on how a run was asked for, or resumed: no check finds them again
_OF_AUTHORS = ("README.md", "CITATION.cff")
_OF_RECORDS = (CLAIMS, RECORDS, TRAININGS, REPORTS, FIGURES, ENVIRONMENT)  # folders


class Verified(msgspec.Struct, frozen=True):
    """What was verified, and what does not follow (`faults`), each in a line. `notes`: what else is to be known.

    `uncompared`: the files that were not compared with a record, or not the whole of them; `notes` say why.
    `records`: the run and the SHA-256 of each record, by which it can be compared with the author's.
    """

    name: str
    cases: int
    figures: int
    records: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]
    notes: tuple[str, ...]
    uncompared: tuple[str, ...] = ()


class _Counted(Told):
    """With what was computed again."""

    def __init__(self) -> None:
        super().__init__()
        self.cases = self.figures = 0
        self.records: list[tuple[str, str]] = []


def verify(bundle: Bundle, document_of: DocumentOf, document_again: DocumentAgain) -> Verified:
    """Compute again what a bundle says, from its records alone, and return what does not follow.

    `document_of`: makes the Document of a report of a run; `document_again`: that of a report of several.
    """
    told = _Counted()
    told.seen.add(MANIFEST)
    for fault in (*bundle.faults, *sum_faults(bundle)):
        told.wrong(fault)
    if not bundle.records:
        told.wrong("it has no record: nothing in it can be computed again")
    for name in bundle.files:
        if name.startswith(f"{CLAIMS}/") and record_name(PurePosixPath(name).stem) not in bundle.files:
            told.wrong(f"{name}: the record that it was computed from is missing")
            told.seen.add(name)
    with tempfile.TemporaryDirectory(prefix="torchstone-verify-") as folder:
        verified = [
            one for number, name in enumerate(bundle.records)
            if (one := _verify_run(bundle, name, Path(folder) / f"{number}.jsonl", told)) is not None
        ]  # fmt: skip
        if bundle.page is not None and (LAYOUT in bundle.files or len(bundle.records) > 1):
            _shown_together(bundle, verified, document_of, document_again, told)
        else:
            for one in verified:
                _shown(bundle, one, document_of, told)
    _left(bundle, {one.run_id for one in verified}, told)
    return Verified(
        bundle.name, told.cases, told.figures, tuple(told.records), tuple(told.faults), tuple(told.notes),
        tuple(told.uncompared),
    )  # fmt: skip


def _left(bundle: Bundle, known: Collection[str], told: _Counted) -> None:
    """Name what nothing was said of. What would follow from a record that is not there is a fault."""
    for name in (name for name in bundle.files if name not in told.seen):
        parts = PurePosixPath(name).parts
        if name in _OF_AUTHORS:
            told.note(f"{name}: the authors' own words: only {MANIFEST} is compared")
        elif parts[0] in _OF_RECORDS and not _is_of(parts, known):
            told.wrong(f"{name}: no record here from which it follows")
        else:
            told.leave(name, f"not computed from a record: only {MANIFEST} is compared")


def _is_of(parts: Sequence[str], known: Collection[str]) -> bool:
    """Say whether a file is called as one of a run: its report in a format that cannot be written here is one."""
    return len(parts) > 1 and (PurePosixPath(parts[1]).stem in known or parts[1].partition("_")[0] in known)


class _Run(msgspec.Struct, frozen=True):
    """A run of a bundle whose record could be read. `placed`: its summary, for the Document of its report."""

    run: Run
    summary: RunSummary
    placed: RunSummary
    training: TrainingMetrics | None
    claimed: Claims | None
    carried: Mapping[str, bytes]

    @property
    def run_id(self) -> str:
        return self.run.head.run_id


def _verify_run(bundle: Bundle, name: str, path: Path, told: _Counted) -> _Run | None:
    """Verify one run of a bundle: its claims, its findings, its answer. `path`: where its record is to lie meanwhile.

    Returns None where the record cannot be read.
    """
    content = bundle.files[name]
    sha256 = hashlib.sha256(content).hexdigest()
    told.seen.add(name)
    path.write_bytes(content)
    try:
        run = read_record(path)
    except UsageError as fault:
        told.wrong(str(fault).replace(str(path), name))
        return None
    run_id = run.head.run_id
    told.records.append((run_id, sha256))
    if name != record_name(run_id):
        told.wrong(f"{name}: the record is of run {run_id}")
    claimed = _claims(bundle, run_id, told)
    summary = summarize(entry_of(run, path), () if claimed is None else claimed.peaks)
    told.cases += len(summary.cases)
    told.figures += sum(len(case.estimates) for case in summary.cases)
    for line in (*_of_findings(run, told), *ab.faults(run), *tune.faults(run, summary)):
        told.wrong(f"{run_id}: {line}")
    if claimed is not None:
        _of_versions(claimed, run, told)
        found = claims_of(summary, sha256)
        apart = list(differences(claimed, found))
        for line in apart:
            told.wrong(f"{run_id}: {line}")
        as_here = msgspec.structs.replace(claimed, formulas=found.formulas)
        if not apart and any(differences(as_here, found)):
            told.leave(claims_name(run_id), "computed by other formulas than here: its figures may differ by 1 %")
    if isinstance(run.answer, Diagnosis):
        told.leave(name, "its diagnosis is as it was recorded: causes are not found again")
    training = training_of(bundle.files, run, told)
    names = (name, claims_name(run_id), training_name(run_id))
    carried = {one: bundle.files[one] for one in names if one in bundle.files}
    return _Run(run, summary, placed(summary, training, path.with_suffix("")), training, claimed, carried)


def _shown(bundle: Bundle, one: _Run, document_of: DocumentOf, told: _Counted) -> None:
    """Compare what shows a run: the page that carries it, or the files of a release."""
    document, language = document_of(one.placed), one.claimed.language if one.claimed is not None else ENGLISH
    if language not in languages():
        told.wrong(f"{claims_name(one.run_id)}: there is no report in the language {language}")
        language = ENGLISH
    run = Reported(one.run_id, document, translated(document, language), one.carried)
    written = _written(one.claimed)
    check_reports(bundle.files, run, written, told)
    for name, made in environment_files(one.summary).items():
        if name in bundle.files:
            told.seen.add(name)
            if bundle.files[name] != made and written.version is None:
                told.wrong(f"{name}: {first_line_apart(bundle.files[name], made) or 'not a text'}")
            elif bundle.files[name] != made:
                told.leave(name, f"{written.version}, and not as this version writes it")
    if bundle.page is not None:
        check_page(Path(bundle.name).name, bundle.page, run, written, told)


def _shown_together(
    bundle: Bundle, verified: Sequence[_Run], document_of: DocumentOf, document_again: DocumentAgain, told: _Counted
) -> None:
    """Compare a page that shows several runs with what its layout gives of them."""
    told.seen.add(LAYOUT)
    if LAYOUT not in bundle.files:
        told.wrong(f"{LAYOUT} is missing: it says how the page is put together from its {len(bundle.records)} records")
        return
    if bundle.page is None or len(verified) < len(bundle.records):
        return  # what cannot be read has been named
    try:
        layout: Layout = decode(bundle.files[LAYOUT], Layout)
        combined = layout.kind == Kind.COMBINED
        document = document_again(layout, Known(
            {one.run_id: one.run for one in verified}, {one.run_id: one.placed for one in verified},
            {one.run_id: document_of(one.placed) for one in verified} if combined else {},
            {one.run_id: one.training for one in verified if one.training is not None},
        ))  # fmt: skip
    except UsageError as fault:
        told.wrong(f"{LAYOUT}: {fault}")
        return
    ours = {name for one in verified for name in one.carried} | {LAYOUT}
    carried = {name: data for name, data in bundle.files.items() if name in ours}
    written = _written(verified[0].claimed if verified else None)
    check_page(Path(bundle.name).name, bundle.page, Reported("report", document, document, carried), written, told)


def _claims(bundle: Bundle, run_id: str, told: _Counted) -> Claims | None:
    name = claims_name(run_id)
    if name not in bundle.files:
        told.wrong(f"{name} is missing: nothing is claimed of this run")
        return None
    told.seen.add(name)
    try:
        claimed: Claims = decode(bundle.files[name], Claims)
        checked_id(claimed.run_id)
    except UsageError as fault:
        told.wrong(f"{name}: {fault}")
        return None
    if claimed.run_id != run_id:
        told.wrong(f"{name}: claims of run {claimed.run_id}")
    return claimed


def _written(claimed: Claims | None) -> Written:
    """Return how what a report was written with differs from what is here."""
    if claimed is None:
        return Written("it is not known which version of torchstone wrote it", {})
    version = None if claimed.torchstone == _version() else f"written by torchstone {claimed.torchstone}"
    there, here = claimed.libraries, libraries()
    return Written(version, {
        name: f"{name} {there.get(name, 'none')} (here {here.get(name, 'none')})"
        for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name)
    })  # fmt: skip


def _of_versions(claimed: Claims, run: Run, told: _Counted) -> None:
    """Note what another version may have computed in another way, and which peaks are claimed alone."""
    here = _version()
    if claimed.torchstone != here:
        told.note(f"written by torchstone {claimed.torchstone}, verified by {here}")
    measured = run.head.machine.software.get("torchstone")
    if measured not in (None, here):
        told.note(f"measured by torchstone {measured}: its checks may have found other things than those of {here}")
    if claimed.peaks and not run.head.machine.peaks:
        why = "the peaks that shares are of were measured apart from the run: they are as claimed"
        told.leave(claims_name(run.head.run_id), why)
    elif claimed.peaks != run.head.machine.peaks:
        told.wrong(f"{run.head.run_id}: the peaks of the machine are not those in the record")


# ── findings ────────────────────────────────────────────────────────────────────────────────────────────────


def _of_findings(run: Run, told: _Counted) -> Iterator[str]:
    """Yield which findings of a record its checks do not find again, and which they find and it lacks."""
    record = record_name(run.head.run_id)
    if run.end is None:  # a run that was cut off was not looked at
        if run.findings:
            told.leave(record, "the run was cut off: its findings are as claimed")
        return
    found = look(msgspec.structs.replace(run, findings=()))
    checks = registry.names("checks")
    lines: list[str] = []
    for finding in run.findings:
        if finding in found or (finding.check in _OF_A_RUN and finding.subject == "run"):
            continue
        if finding.check not in checks:
            told.leave(record, f"finding {finding.check}: its check is not installed here, so that it was not repeated")
            continue
        lines.append(f"finding {finding.check} ({finding.message}): the record does not give it")
    lines += [
        f"finding {one.check} ({one.message}): the record gives it, and it is missing"
        for one in found if one not in run.findings
    ]  # fmt: skip
    if run.head.machine.software.get("torchstone") in (None, _version()):
        yield from lines
        return
    for line in lines:  # of the checks of another version: no fault of the record
        told.leave(record, line)


def _version() -> str:
    from importlib.metadata import version  # loads for longer than all else here

    return version("torchstone")
