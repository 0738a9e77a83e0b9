"""Whether what a report claims and says follows from the record that it carries: all is made again, and compared.

A stranger's page is never what is looked at: its claims and its texts are compared with what the record gives, and the
page that the record gives can be written. Its pictures, styles and scripts are therefore of no account.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from html.parser import HTMLParser
from pathlib import Path, PurePath, PurePosixPath

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
from torchstone.report.attached import check_bounded, embedded
from torchstone.report.bundle import Bundle, sum_faults
from torchstone.report.carried import (
    CLAIMS,
    RECORDS,
    TRAININGS,
    Claims,
    carrying,
    claims_name,
    claims_of,
    libraries,
    record_name,
    training_name,
    unsupported_claims,
)
from torchstone.report.document import CommandLine, Document, Fields, Part, Role, Section, Text, paragraphs
from torchstone.report.documents.release import ENVIRONMENT, FIGURES, REPORTS, DocumentOf, count_of, files_showing
from torchstone.report.rendering import renderer
from torchstone.report.several import LAYOUT, CarriedRuns, DocumentAgain, Layout, ReportKind
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


class _Collected:
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
    found = _Collected()
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
            one
            for number, name in enumerate(bundle.records)
            if (one := _verify_run(bundle, name, Path(folder) / f"{number}.jsonl", document_of, found)) is not None
        ]
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
        bundle.name,
        found.cases,
        found.figures,
        tuple(found.records),
        tuple(found.faults),
        tuple(found.notes),
        tuple(found.uncompared),
    ), found.made


def _name_the_rest(bundle: Bundle, run_ids: set[str], found: _Collected) -> None:
    """Name the files of which nothing was said. What would follow from a record that is not there is a fault."""
    for name in (name for name in bundle.files if name not in found.seen):
        parts = PurePosixPath(name).parts
        if name in _OF_AUTHORS:
            found.note(f"{name}: the authors' own words: only {MANIFEST} is compared")
        elif parts[0] in _OF_RECORDS and (
            not (len(parts) > 1 and (PurePosixPath(parts[1]).stem in run_ids or parts[1].partition("_")[0] in run_ids))
        ):
            found.wrong(f"{name}: no record here from which it follows")
        else:
            found.leave(name, f"not computed from a record: only {MANIFEST} is compared")


# ── a run ───────────────────────────────────────────────────────────────────────────────────────────────────


def _verify_run(
    bundle: Bundle, name: str, path: Path, document_of: DocumentOf, found: _Collected
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


def _claims(bundle: Bundle, run_id: str, found: _Collected) -> Claims | None:
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


def _compare_claims(claimed: Claims, ours: Claims, run: Run, found: _Collected) -> None:
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
    lines = list(unsupported_claims(claimed, ours))
    for line in lines:
        found.wrong(f"{run_id}: {line}")
    if not lines and any(unsupported_claims(msgspec.structs.replace(claimed, formulas=ours.formulas), ours)):
        found.leave(claims_name(run_id), "computed by other formulas than here: its figures may differ by 1 %")


# ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────


def _page(document: Document, language: str, carried: Mapping[str, bytes]) -> bytes:
    """Return the page that records give, carrying them."""
    return renderer("html").render(carrying(translated(document, language), carried))


def _compare_page(name: str, page: bytes, made: bytes, apart: str | None, found: _Collected) -> None:
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
    bundle: Bundle, page: bytes, runs: Sequence[_VerifiedRun], document_again: DocumentAgain, found: _Collected
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
        document = document_again(
            layout,
            CarriedRuns(
                {one.run_id: one.run for one in runs},
                {one.run_id: one.summary for one in runs},
                {one.run_id: one.document for one in runs} if layout.kind == ReportKind.COMBINED else {},
                {one.run_id: one.training for one in runs if one.training is not None},
            ),
        )
    except UsageError as fault:
        found.wrong(f"{LAYOUT}: {fault}")
        return
    carried = {name: data for one in runs for name, data in one.files.items()} | {LAYOUT: bundle.files[LAYOUT]}
    made = _page(document, runs[0].language, carried)
    _compare_page(Path(bundle.name).name, page, made, next((one.apart for one in runs if one.apart), None), found)


def _verify_release(bundle: Bundle, run: _VerifiedRun, found: _Collected) -> None:
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


def _name_difference(name: str, there: bytes, made: bytes, apart: str | None, found: _Collected) -> None:
    """Name how a file is not the one that the record gives. Only texts come out alike on every machine."""
    line = _first_line_apart(there, made) if name.endswith(_TEXTS) else None
    if line is None:
        drawing = ", ".join(f"{name} {version}" for name, version in libraries().items())
        found.leave(name, f"not as it is drawn here, with {drawing} and the fonts of this machine: {_LOOK}")
    elif apart is not None:
        found.leave(name, f"{apart}, and not as this version writes it: {_LOOK}")
    else:
        found.wrong(f"{name}: {line}")


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
            place = equal_at_start(one, other)
            return f"line {number + 1}: “{_around(one, place)}”, the record gives “{_around(other, place)}”"
    return "its line endings are not those that the record gives"


def _around(line: str, place: int) -> str:
    """Return what stands around a place of a line."""
    first = max(0, place - 40)
    return f"{'…' * (first > 0)}{line[first : place + 80]}{'…' * (len(line) > place + 80)}"


# ── the epochs of a training ────────────────────────────────────────────────────────────────────────────────


def _training(files: Mapping[str, bytes], run: Run, found: _Collected) -> TrainingMetrics | None:
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


def _of_findings(run: Run, found: _Collected) -> Iterator[str]:
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
        for one in ours
        if one not in run.findings
    ]
    if run.head.machine.software.get("torchstone") in (None, _version()):
        yield from lines
        return
    for line in lines:  # of the checks of another version: no fault of the record
        found.leave(record, line)


def _version() -> str:
    from importlib.metadata import version  # loads for longer than all else here

    return version("torchstone")


# ── the texts of a page ─────────────────────────────────────────────────────────────────────────────────────


# What a text is called after: the innermost of these that it stands in.
_PLACES = {
    "title": "title",
    "h1": "heading",
    "h2": "heading",
    "h3": "heading",
    "h4": "heading",
    "h5": "heading",
    "h6": "heading",
    "td": "table cell",
    "th": "table heading",
    "caption": "caption",
    "summary": "summary",
    "pre": "command",
    "code": "command",
    "button": "button",
}
_UNSEEN = ("script", "style", "template")
_SPOKEN = ("alt", "aria-label", "title")  # what a screen reader says
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
# What an element ends that is still open, as a browser reads it (https://html.spec.whatwg.org/#optional-tags).
_CELLS = ("td", "th")
_ROWS = (*_CELLS, "tr")
_GROUPS = (*_ROWS, "thead", "tbody", "tfoot")
_ENDED = dict.fromkeys(_GROUPS, _GROUPS) | {"tr": _ROWS} | dict.fromkeys(_CELLS, _CELLS)
_DEEPEST = 500  # elements in each other: of a stranger's page, every one would be looked through for every text
_LONG = 2000  # texts that differ: of more, only how many and from where is told
_CARRIED = re.compile(rb'<script type="application/octet-stream"[^>]*>[^<]*</script>\n?')
_SHOWN = 120  # characters of a text that is named


class Shown(msgspec.Struct, frozen=True):
    """A text of a page, its white space as one blank each, and what it stands in."""

    place: str
    text: str


def page_text(page: bytes) -> tuple[Shown, ...]:
    """Return the texts that a page shows, in order; without those in drawings, which fonts place and leave out.

    Raises UsageError for elements that are nested deeper than any page of ours, and for many tags that do not end.
    """
    check_bounded(page)
    reader = _TextReader()
    reader.feed(page.decode("utf-8", "replace"))
    reader.close()
    reader.end_text()
    return tuple(reader.texts)


def without_carried(page: bytes) -> bytes:
    """Return a page without the files that it carries: another zlib packs the same in other bytes."""
    return _CARRIED.sub(b"", page)


def text_differences(page: Sequence[Shown], expected: Sequence[Shown]) -> Iterator[str]:
    """Yield in a line each which texts of a page are not those that are expected."""
    same = equal_at_start(page, expected)
    page, expected = page[same:], expected[same:]
    tail = equal_at_start(page[::-1], expected[::-1])
    page, expected = page[: len(page) - tail], expected[: len(expected) - tail]
    if max(len(page), len(expected)) > _LONG:
        yield f"{len(page)} texts from {_named(page[0] if page else expected[0])} on, where {len(expected)} follow"
        return
    for tag, a, b, c, d in SequenceMatcher(None, page, expected, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for n in range(max(b - a, d - c)):
            yield _difference(page[a + n] if a + n < b else None, expected[c + n] if c + n < d else None)


def equal_at_start(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many of the first items are equal: texts of pages, or characters."""
    apart = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(apart, min(len(one), len(other)))


def _difference(shown: Shown | None, expected: Shown | None) -> str:
    if shown is None and expected is not None:
        return f"{_named(expected)} is missing"
    if expected is None and shown is not None:
        return f"{_named(shown)} does not follow from the record"
    if shown is not None and expected is not None:
        return f"{_named(shown)}, the record gives {_quoted(expected.text)}"
    return ""


def _named(one: Shown) -> str:
    return f"{one.place} {_quoted(one.text)}"


def _quoted(text: str) -> str:
    return f"“{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}”"


class _TextReader(HTMLParser):
    """Collects texts, one for each element and line."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[Shown] = []
        self._open: list[str] = []
        self._data: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_text()
        if ended := _ENDED.get(tag):
            self._end(ended)
        if tag not in _VOID:
            self._open.append(tag)
            if len(self._open) > _DEEPEST:
                raise UsageError(f"elements nested more than {_DEEPEST} deep")
        for name, value in attrs:
            if name in _SPOKEN and value:
                self._add(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self.end_text()
        if tag in self._open:  # with what was left open in it
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]

    def _end(self, ended: Collection[str]) -> None:
        """End what is open of these in the innermost table, with what was left open in it."""
        within = len(self._open) - self._open[::-1].index("table") if "table" in self._open else 0
        first = next((n for n in range(within, len(self._open)) if self._open[n] in ended), len(self._open))
        del self._open[first:]

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in _UNSEEN:
            self._data.append(data)

    def end_text(self) -> None:
        """Keep the text that was read since the last tag."""
        text, self._data = "".join(self._data), []
        self._add(text)

    def _add(self, text: str) -> None:
        if (words := " ".join(text.split())) and "svg" not in self._open:
            place = next((_PLACES[tag] for tag in reversed(self._open) if tag in _PLACES), "text")
            self.texts.append(Shown(place, words))


# ── the answer as a Document ────────────────────────────────────────────────────────────────────────────────


_MOST = 30  # faults that are shown at once


def verification_document(verified: Verified, written: Path | None = None) -> Document:
    """Return the Document of one verified file. `written`: where what its record gives was written."""
    return Document(verified.name, tuple(_parts(verified, written)))


def _parts(verified: Verified, written: Path | None) -> Iterator[Part]:
    computed = f"{count_of(len(verified.records), 'run')}, {count_of(verified.cases, 'case')}"
    again = f"{computed}, {count_of(verified.figures, 'figure')} computed again"
    faults, left = verified.faults, len(verified.uncompared)
    if not faults and left:
        part = f"{count_of(left, 'file')} {'was' if left == 1 else 'were'} not compared with it, or only in part"
        yield Text(f"{verified.name}: what was compared follows from its record ({again}); {part}.", Role.HEADLINE)
    elif not faults:
        yield Text(f"{verified.name}: every figure and verdict follows from its record ({again}).", Role.HEADLINE)
    else:
        told = f"{count_of(len(faults), 'statement')} {'does' if len(faults) == 1 else 'do'} not follow from its record"
        yield Text(f"{verified.name}: {told} ({again}).", Role.HEADLINE)
    yield from paragraphs(faults[:_MOST], Role.DETAIL)
    if rest := faults[_MOST:]:
        yield Section(f"{len(rest)} more", paragraphs(rest, Role.DETAIL), folded=True)
    yield from paragraphs(verified.notes, Role.NOTE)
    if verified.records:
        yield Fields(tuple((f"SHA-256 of the record of {run_id}", sha256) for run_id, sha256 in verified.records))
    if written is not None:
        yield Fields((("written", str(written)),))
    elif faults or left:
        yield Text("Look at what the record gives, not at this file:")
        yield CommandLine(
            f"torchstone verify {shlex.quote(verified.name)} --output checked{PurePath(verified.name).suffix}"
        )
    else:
        yield Text(
            "A record that was changed together with everything that follows from it passes, too: compare its SHA-256 "
            "with what the author states. To measure it again:"
        )
        yield CommandLine(f"torchstone reproduce {shlex.quote(verified.name)}")
