"""Whether what a report claims and says follows from the record that it carries: all is made again, and compared.

A stranger's page is never what is looked at: its claims and its texts are compared with what the record gives, and the
page that the record gives can be written. Its pictures, styles and scripts are therefore of no account.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import decode, encode
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.facts import HELD_OUT, TRAIN, Facts
from torchstone.core.schema.request import WITHOUT_EFFECT
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Training, TrainingMetrics, without_steps
from torchstone.core.units import plain
from torchstone.execution.controller.active_run import RESUMED
from torchstone.plugins import registry
from torchstone.plugins.checking import look
from torchstone.report.attached import embedded
from torchstone.report.bundle import Bundle, sum_faults
from torchstone.report.carried import CLAIMS, RECORDS, TRAININGS, carrying, claims_name, record_name, training_name
from torchstone.report.claims import Claims, claims_of, differences, libraries
from torchstone.report.document import Document
from torchstone.report.layout import LAYOUT, DocumentAgain, Kind, Known, Layout
from torchstone.report.page_text import page_text, same_beginning, text_differences, without_carried
from torchstone.report.release_files import ENVIRONMENT, FIGURES, REPORTS, DocumentOf, files_showing
from torchstone.report.rendering import renderer
from torchstone.report.translation.catalogue import ENGLISH, languages
from torchstone.report.translation.documents import translated
from torchstone.storage.manifest import MANIFEST
from torchstone.storage.query import entry_of
from torchstone.storage.record_reader import checked_id, read_record
from torchstone.storage.training import METRICS
from torchstone.workflows.ab import recomputed as ab
from torchstone.workflows.tune import recomputed as tune

_OF_A_RUN = (RESUMED, WITHOUT_EFFECT)  # findings on how a run was asked for, or resumed: no check finds them again
_OF_AUTHORS = ("README.md", "CITATION.cff")
_OF_RECORDS = (CLAIMS, RECORDS, TRAININGS, REPORTS, FIGURES, ENVIRONMENT)  # folders
_PAGE, _TEXTS = ".html", (".md", ".csv", ".json", ".txt")
_LOOK = "look at what --output writes"


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


class _Findings:
    """Collects what is found about a bundle.

    `seen`: the files about which something is; `made`: those that its records give.
    """

    def __init__(self) -> None:
        self.faults: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.uncompared: dict[str, None] = {}
        self.seen: set[str] = {MANIFEST}
        self.made: dict[str, bytes] = {}
        self.records: list[tuple[str, str]] = []
        self.cases = self.figures = 0

    def wrong(self, line: str) -> None:
        """Something does not follow. The line may quote a stranger."""
        self.faults[plain(line)] = None

    def note(self, line: str) -> None:
        """Something else is to be known."""
        self.notes[plain(line)] = None

    def leave(self, name: str, why: str) -> None:
        """A file was not compared, or not the whole of it."""
        self.uncompared[plain(name)] = None
        self.note(f"{name}: {why}")


class _VerifiedRun(msgspec.Struct, frozen=True):
    """A run of a bundle whose record could be read.

    `document`: of its report, in English; `language`: that of its report; `files`: those that the bundle has of it.
    `apart`: in words, which other version of torchstone wrote its report; None where it is the one here.
    """

    run: Run
    summary: RunSummary
    document: Document
    language: str
    apart: str | None
    training: TrainingMetrics | None
    files: Mapping[str, bytes]

    @property
    def run_id(self) -> str:
        return self.run.head.run_id


def verify(
    bundle: Bundle, document_of: DocumentOf, document_again: DocumentAgain
) -> tuple[Verified, Mapping[str, bytes]]:
    """Make everything that a bundle shows again, from its records alone, and compare.

    `document_of`: makes the Document of a report of a run; `document_again`: that of a report of several. Also returns
    the files that were made, by name: of a page itself, of a release its records and all that follows from them.
    """
    found = _Findings()
    for fault in (*bundle.faults, *sum_faults(bundle)):
        found.wrong(fault)
    if not bundle.records:
        found.wrong("it has no record: nothing in it can be computed again")
    for name in bundle.files:
        if name.startswith(f"{CLAIMS}/") and record_name(PurePosixPath(name).stem) not in bundle.files:
            found.wrong(f"{name}: the record that it was computed from is missing")
            found.seen.add(name)
    with tempfile.TemporaryDirectory(prefix="torchstone-verify-") as folder:
        runs = [
            one for number, name in enumerate(bundle.records)
            if (one := _verify_run(bundle, name, Path(folder) / f"{number}.jsonl", document_of, found)) is not None
        ]  # fmt: skip
        if bundle.page is not None and (LAYOUT in bundle.files or len(bundle.records) > 1):
            _verify_page_of_several(bundle, bundle.page, runs, document_again, found)
        elif bundle.page is not None:
            for run in runs:
                made = _page(run.document, run.language, run.files)
                _compare_page(Path(bundle.name).name, bundle.page, made, run.apart, found)
        else:
            for run in runs:
                _verify_release(bundle, run, found)
    _name_the_rest(bundle, {run.run_id for run in runs}, found)
    return Verified(
        bundle.name, found.cases, found.figures, tuple(found.records), tuple(found.faults), tuple(found.notes),
        tuple(found.uncompared),
    ), found.made  # fmt: skip


def _name_the_rest(bundle: Bundle, run_ids: set[str], found: _Findings) -> None:
    """Name the files of which nothing was said. What would follow from a record that is not there is a fault."""
    for name in (name for name in bundle.files if name not in found.seen):
        parts = PurePosixPath(name).parts
        if name in _OF_AUTHORS:
            found.note(f"{name}: the authors' own words: only {MANIFEST} is compared")
        elif parts[0] in _OF_RECORDS and not _is_of(parts, run_ids):
            found.wrong(f"{name}: no record here from which it follows")
        else:
            found.leave(name, f"not computed from a record: only {MANIFEST} is compared")


def _is_of(parts: Sequence[str], run_ids: set[str]) -> bool:
    """Say whether a file is called as one of a run: its report in a format that cannot be written here is one."""
    return len(parts) > 1 and (PurePosixPath(parts[1]).stem in run_ids or parts[1].partition("_")[0] in run_ids)


# ── a run ───────────────────────────────────────────────────────────────────────────────────────────────────


def _verify_run(
    bundle: Bundle, name: str, path: Path, document_of: DocumentOf, found: _Findings
) -> _VerifiedRun | None:
    """Verify a run's claims, findings and answer. `path`: where its record is to lie meanwhile.

    Returns None where the record cannot be read.
    """
    content = bundle.files[name]
    sha256 = hashlib.sha256(content).hexdigest()
    found.seen.add(name)
    path.write_bytes(content)
    try:
        run = read_record(path)
    except UsageError as fault:
        found.wrong(str(fault).replace(str(path), name))
        return None
    run_id = run.head.run_id
    found.records.append((run_id, sha256))
    if name != record_name(run_id):
        found.wrong(f"{name}: the record is of run {run_id}")
    claimed = _claims(bundle, run_id, found)
    summary = summarize(entry_of(run, path), () if claimed is None else claimed.peaks)
    found.cases += len(summary.cases)
    found.figures += sum(len(case.estimates) for case in summary.cases)
    for line in (*_of_findings(run, found), *ab.faults(run), *tune.faults(run, summary)):
        found.wrong(f"{run_id}: {line}")
    if claimed is not None:
        _compare_claims(claimed, claims_of(summary, sha256), run, found)
    if isinstance(run.answer, Diagnosis):
        found.leave(name, "its diagnosis is as it was recorded: causes are not found again")
    training = _training(bundle.files, run, found)
    names = (name, claims_name(run_id), training_name(run_id))
    files = {one: bundle.files[one] for one in names if one in bundle.files}
    language = ENGLISH if claimed is None else claimed.language
    if language not in languages():
        found.wrong(f"{claims_name(run_id)}: there is no report in the language {language}")
        language = ENGLISH
    document = document_of(_with_training(summary, training, path.with_suffix("")))
    return _VerifiedRun(run, summary, document, language, _apart(claimed), training, files)


def _claims(bundle: Bundle, run_id: str, found: _Findings) -> Claims | None:
    name = claims_name(run_id)
    if name not in bundle.files:
        found.wrong(f"{name} is missing: nothing is claimed of this run")
        return None
    found.seen.add(name)
    try:
        claimed: Claims = decode(bundle.files[name], Claims)
        checked_id(claimed.run_id)
    except UsageError as fault:
        found.wrong(f"{name}: {fault}")
        return None
    if claimed.run_id != run_id:
        found.wrong(f"{name}: claims of run {claimed.run_id}")
    return claimed


def _apart(claimed: Claims | None) -> str | None:
    if claimed is None:
        return "it is not known which version of torchstone wrote it"
    return None if claimed.torchstone == _version() else f"written by torchstone {claimed.torchstone}"


def _compare_claims(claimed: Claims, ours: Claims, run: Run, found: _Findings) -> None:
    """Compare the claims of a run with those that its record gives; note what another version computes otherwise."""
    run_id, here = run.head.run_id, _version()
    if claimed.torchstone != here:
        found.note(f"written by torchstone {claimed.torchstone}, verified by {here}")
    measured = run.head.machine.software.get("torchstone")
    if measured not in (None, here):
        found.note(f"measured by torchstone {measured}: its checks may have found other things than those of {here}")
    if claimed.peaks and not run.head.machine.peaks:
        why = "the peaks that shares are of were measured apart from the run: they are as claimed"
        found.leave(claims_name(run_id), why)
    elif claimed.peaks != run.head.machine.peaks:
        found.wrong(f"{run_id}: the peaks of the machine are not those in the record")
    lines = list(differences(claimed, ours))
    for line in lines:
        found.wrong(f"{run_id}: {line}")
    if not lines and any(differences(msgspec.structs.replace(claimed, formulas=ours.formulas), ours)):
        found.leave(claims_name(run_id), "computed by other formulas than here: its figures may differ by 1 %")


# ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────


def _page(document: Document, language: str, carried: Mapping[str, bytes]) -> bytes:
    """Return the page that records give, carrying them."""
    return renderer("html").render(carrying(translated(document, language), carried))


def _compare_page(name: str, page: bytes, made: bytes, apart: str | None, found: _Findings) -> None:
    """Compare a page with the one that the record gives: it is the same, or its texts are. `apart`: as of a run."""
    found.made[name] = made
    page, made = without_carried(page), without_carried(made)
    if page == made:
        return
    try:
        lines = list(text_differences(page_text(page), page_text(made)))
    except UsageError as fault:
        found.wrong(f"{name}: {fault}")
        return
    if lines and apart is not None:
        found.leave(name, f"{apart}: {len(lines)} texts are not as written here, the first: {lines[0]}; {_LOOK}")
    elif not lines:
        found.leave(name, f"its texts follow; its pictures, styles and scripts are not those written here: {_LOOK}")
    else:
        for line in lines:
            found.wrong(f"{name}: {line}")


def _verify_page_of_several(
    bundle: Bundle, page: bytes, runs: Sequence[_VerifiedRun], document_again: DocumentAgain, found: _Findings
) -> None:
    """Compare a page that shows several runs with what its layout gives of them."""
    found.seen.add(LAYOUT)
    if LAYOUT not in bundle.files:
        found.wrong(f"{LAYOUT} is missing: it says how the page is put together from its {len(bundle.records)} records")
        return
    if len(runs) < len(bundle.records):
        return  # what cannot be read has been named
    try:
        layout: Layout = decode(bundle.files[LAYOUT], Layout)
        document = document_again(layout, Known(
            {one.run_id: one.run for one in runs},
            {one.run_id: one.summary for one in runs},
            {one.run_id: one.document for one in runs} if layout.kind == Kind.COMBINED else {},
            {one.run_id: one.training for one in runs if one.training is not None},
        ))  # fmt: skip
    except UsageError as fault:
        found.wrong(f"{LAYOUT}: {fault}")
        return
    carried = {name: data for one in runs for name, data in one.files.items()} | {LAYOUT: bundle.files[LAYOUT]}
    made = _page(document, runs[0].language, carried)
    _compare_page(Path(bundle.name).name, page, made, next((one.apart for one in runs if one.apart), None), found)


def _verify_release(bundle: Bundle, run: _VerifiedRun, found: _Findings) -> None:
    """Compare the files of a release that show a run with those that its record gives."""
    left_out: dict[str, None] = {}
    made = files_showing(run.summary, run.document, run.language, run.files, left_out)
    for line in left_out:
        found.note(f"not made again: {line}")
    found.made |= {**run.files, **made}
    for name, content in made.items():
        if name not in bundle.files:
            continue  # claims nothing
        found.seen.add(name)
        there = bundle.files[name]
        if name.endswith(_PAGE):
            for line in _carried_apart(there, run):
                found.wrong(f"{name}: {line}")
            _compare_page(name, there, content, run.apart, found)
        elif there != content:
            _name_difference(name, there, content, run.apart, found)


def _name_difference(name: str, there: bytes, made: bytes, apart: str | None, found: _Findings) -> None:
    """Name how a file is not the one that the record gives. Only texts come out alike on every machine."""
    line = _first_line_apart(there, made) if name.endswith(_TEXTS) else None
    if line is None:
        found.leave(name, f"not as it is drawn here, with {_drawing()} and the fonts of this machine: {_LOOK}")
    elif apart is not None:
        found.leave(name, f"{apart}, and not as this version writes it: {_LOOK}")
    else:
        found.wrong(f"{name}: {line}")


def _drawing() -> str:
    return ", ".join(f"{name} {version}" for name, version in libraries().items())


def _carried_apart(page: bytes, run: _VerifiedRun) -> Iterator[str]:
    """Yield which files a page of a release carries that are not those of the release."""
    try:
        carried = embedded(page)
    except UsageError as fault:
        yield str(fault)
        return
    for one in carried:
        name, content = one.attachment.name, one.attachment.content
        if not one.agrees or (name in run.files and run.files[name] != content):
            yield f"the {name} that it carries is not that of the release"


def _first_line_apart(text: bytes, made: bytes) -> str:
    """Return the first line of a text that is not the one that the record gives."""
    lines, ours = (data.decode("utf-8", "replace").splitlines() for data in (text, made))
    for number in range(max(len(lines), len(ours))):
        one, other = (side[number] if number < len(side) else "" for side in (lines, ours))
        if one != other:
            place = same_beginning(one, other)
            return f"line {number + 1}: “{_around(one, place)}”, the record gives “{_around(other, place)}”"
    return "its line endings are not those that the record gives"


def _around(line: str, place: int) -> str:
    """Return what stands around a place of a line."""
    first = max(0, place - 40)
    return f"{'…' * (first > 0)}{line[first : place + 80]}{'…' * (len(line) > place + 80)}"


# ── the epochs of a training ────────────────────────────────────────────────────────────────────────────────


def _training(files: Mapping[str, bytes], run: Run, found: _Findings) -> TrainingMetrics | None:
    """Return the epochs of a training that a bundle carries; None of other runs, and where it carries none.

    Names which of them are not those in the record: their number, which was best, and the last accuracies.
    """
    name = training_name(run.head.run_id)
    if run.head.procedure.fit is None or name not in files:
        return None
    found.seen.add(name)
    try:
        metrics: TrainingMetrics = decode(files[name], TrainingMetrics)
    except UsageError as fault:
        found.wrong(f"{name}: {fault}")
        return None
    if metrics.run_id != run.head.run_id:
        found.wrong(f"{name}: the epochs of run {metrics.run_id}")
        return None
    facts = next((trial.facts for trial in reversed(run.trials) if trial.facts.epochs is not None), Facts())
    last = {TRAIN: metrics.final_train_accuracy, HELD_OUT: metrics.final_val_accuracy}
    for fact, value in {"epochs": len(metrics.epochs), "best_epoch": metrics.best_epoch, **last}.items():
        if (recorded_value := getattr(facts, fact)) is not None and recorded_value != value:
            found.wrong(f"{name}: {fact} {value}, the record has {recorded_value}")
    recorded = run.answer.metrics if isinstance(run.answer, Training) else None
    if recorded is None:
        found.wrong(f"{name}: the record has no epochs")
    elif without_steps(metrics) != recorded:
        found.wrong(f"{name}: its epochs are not those in the record")
    found.leave(name, "its single steps and gauges are as claimed; the record has the epochs")
    return metrics


def _with_training(summary: RunSummary, training: TrainingMetrics | None, folder: Path) -> RunSummary:
    """Return a summary whose training lies in a folder of ours: the one that a stranger's record names is not read."""
    fit = summary.procedure.fit
    if fit is None:
        return summary
    if training is not None:
        folder.mkdir()
        (folder / METRICS).write_bytes(encode(training))
    here = msgspec.structs.replace(fit, folder=str(folder) if training is not None else "")
    return msgspec.structs.replace(summary, procedure=msgspec.structs.replace(summary.procedure, fit=here))


# ── findings ────────────────────────────────────────────────────────────────────────────────────────────────


def _of_findings(run: Run, found: _Findings) -> Iterator[str]:
    """Yield which findings of a record its checks do not find again, and which they find and it lacks."""
    record = record_name(run.head.run_id)
    if run.end is None:  # a run that was cut off was not looked at
        if run.findings:
            found.leave(record, "the run was cut off: its findings are as claimed")
        return
    ours = look(msgspec.structs.replace(run, findings=()))
    checks = registry.names("checks")
    lines: list[str] = []
    for finding in run.findings:
        if finding in ours or (finding.check in _OF_A_RUN and finding.subject == "run"):
            continue
        if finding.check not in checks:
            found.leave(
                record, f"finding {finding.check}: its check is not installed here, so that it was not repeated"
            )
            continue
        lines.append(f"finding {finding.check} ({finding.message}): the record does not give it")
    lines += [
        f"finding {one.check} ({one.message}): the record gives it, and it is missing"
        for one in ours if one not in run.findings
    ]  # fmt: skip
    if run.head.machine.software.get("torchstone") in (None, _version()):
        yield from lines
        return
    for line in lines:  # of the checks of another version: no fault of the record
        found.leave(record, line)


def _version() -> str:
    from importlib.metadata import version  # loads for longer than all else here

    return version("torchstone")
