"""Every kind of stored result in every medium: the same answer, figures, doubts and next action.

What is compared are values: numbers with their units, ids of verdicts, and names of settings. They are read out of what
each medium shows and held against the record and against the Document that is made of it; words and layout are each
medium's own.

The contradictions that people found (issue 30), and the test that fails where one comes back:

| contradiction | test |
|---|---|
| `diagnose` names cause, line, remedy, its report none | `test_every_medium…`, `test_the_answer…` [diagnose] |
| `train` and its report name other rates, and one no accuracy | `test_every_medium…`, `test_the_answer…` [train] |
| `ab` and its report name another `--within` | `test_every_medium…` [ab]: what to type |
| one figure has several intervals | `tests/contract/test_one_estimate.py` |
| "step time" is a mean here and a median there; steps that do not go with the rate | `test_a_step_goes_with_its_rate` |
| phases that do not sum to the step that is shown | `tests/unit/core/test_figures.py` (phases sum to the step) |
| throughput is worse, and its inverse unclear | `test_what_follows_from_the_rate_has_its_verdict` |
| code decides by a sentence | `tests/architecture/test_layers.py::test_no_code_decides_by_a_text` |
| `ab`, `tune`, `diagnose`, `goodput` are "ok" where a run is SUSPECT | `test_a_doubt_is_shown_by_every_command` |
| LoadGen: 0 of 1 VALID, status ok | `tests/unit/plugins/checks/test_load.py` |
"""

import html
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from asgi import get
from build import a_finding
from ci_results import STATES
from kinds import COMPARED, RUNS, VALUES
from stored import a_stored_run, case, machine, store

from torchstone.analysis.compare.compare import ComparisonRequest, compare
from torchstone.analysis.compare.compared_figures import COST, FOLLOWING
from torchstone.analysis.compare.inputs import gather
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.api.recording import shown
from torchstone.cli import main
from torchstone.cli._output import document_of
from torchstone.core import units
from torchstone.core.schema.answer import AbResult, TuneResult
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Task
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Severity, Verdict
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.run import Run
from torchstone.core.schema.training import Training
from torchstone.report.document import CommandLine, Document, Doubt, Fields, Part, Role, Section, Table, Text
from torchstone.report.documents.ci import ci_document
from torchstone.report.documents.comparison import comparison_document
from torchstone.report.documents.run import measured_document, run_document, without_probes
from torchstone.report.renderers.html.fragment import fragment
from torchstone.report.renderers.terminal import terminal
from torchstone.report.rendering import renderer
from torchstone.report.results import Result, save_result
from torchstone.storage.index import sync
from torchstone.storage.query import find
from torchstone.workflows.run.planned_run import Results

# What a medium leaves out on purpose: (kind, medium) → why. Everything else is shown by all.
LEFT_OUT: Mapping[tuple[str, str], str] = {
    ("ci", "show"): "the folder of `ci measure` is judged by `ci gate` and `ci comment`, which draw the same Document",
    ("ci", "serve"): "a store has runs; the pages of a benchmark's commits are `torchstone ci history`'s",
    ("compare", "show"): "`compare` is asked anew of its runs, and keeps nothing",
    ("compare", "notebook"): "the Python API gives single runs",
    **{(kind, "notebook"): "the Python API gives runs; what --save keeps is shown by files" for kind in VALUES},
}

# What a medium folds: the answer of these is not a case's rate, and `--full` has that.
FOLDED = {
    (kind, medium, "a figure of a case")
    for kind in ("ab", "diagnose", "train") for medium in ("terminal", "show", "slides", "pdf")
}  # fmt: skip

# ── a result, and what is to be seen of it ──────────────────────────────────────────────────────────────────


class Kept(NamedTuple):
    """A result in a store. `word`: what `show` and `report` are given; `page`: its address in `serve`.

    `document`: what is said of it where nothing but the main figures is asked for.
    """

    kind: str
    folder: Path
    words: tuple[str, ...]
    document: Document
    page: str
    summary: RunSummary | None = None


def kept(kind: str, folder: Path) -> Kept:
    """Store the result of a kind in an output folder of its own."""
    if kind in RUNS:
        return kept_run(kind, RUNS[kind](), folder)
    if kind in VALUES:
        result = Result(kind, VALUES[kind]())
        data, _ = save_result(result, folder)
        return Kept(kind, folder, (str(data),), result.document(), f"/results/{kind}")
    if kind == "compare":
        runs = [make() for make in COMPARED]
        store(folder, runs)
        sync(folder)
        words = tuple(run.head.run_id for run in runs)
        found = compare(gather(words, folder), ComparisonRequest())
        return Kept(kind, folder, words, comparison_document(found), "/compare?a={}&b={}".format(*words))
    assert kind == "ci"
    return Kept(kind, folder, (), ci_document(STATES["slower"]()), "")


def kept_run(kind: str, run: Run, folder: Path) -> Kept:
    """Store a run."""
    store(folder, [run])
    sync(folder)
    summary = summarize(find(folder, run.head.run_id))
    run_id = summary.run_id
    return Kept(kind, folder, (run_id,), run_document(summary), f"/runs/{run_id}", summary)


KINDS = (*RUNS, *VALUES, "compare", "ci")


# ── the media: what each shows, as text ─────────────────────────────────────────────────────────────────────


class _Page(HTMLParser):
    """The texts of a page, each in its own line; pictures, styles and scripts are none."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("style", "script", "svg")
        if tag not in ("code", "b", "strong", "em", "span", "wbr", "a"):
            self.texts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script", "svg")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(data)


def of_html(page: str) -> str:
    """Return the text that a page of HTML shows."""
    reader = _Page()
    reader.feed(page)
    return "".join(reader.texts)


def of_document(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the texts of a Document in their order, the rows of tables as they are read."""
    for part in parts:
        match part:
            case Text():
                yield part.text
            case CommandLine():
                yield part.words
            case Fields():
                yield from (f"{name}: {value}" for name, value in part.rows)
            case Table():
                yield " | ".join(column.title for column in part.columns)
                yield from (" | ".join(row) for row in zip(*(c.cells for c in part.columns), strict=True))
            case Doubt():
                yield f"{part.severity} {part.subject}: {part.message}. {part.advice}"
            case Section():
                yield part.title
                yield from of_document(part.parts)


def _file(one: Kept, name: str) -> bytes:
    if one.kind == "ci":
        return renderer(name).render(one.document)
    more = ["--compare"] if one.kind == "compare" else []
    there = one.folder / "reports"
    assert main(["report", *one.words, *more, "--format", name, "--output", str(there),
                 "--output-dir", str(one.folder)]) == 0  # fmt: skip
    (path,) = (path for path in there.iterdir() if path.suffix == renderer(name).suffix)
    return path.read_bytes()


def _terminal(one: Kept, _capsys: Any) -> str:
    """What the command that measured it prints at its end."""
    if one.summary is not None:
        return terminal(measured_document(Results(one.summary, Path("d.json"), Path("t.csv"), 0)), 100)
    return terminal(one.document, 100)


def _show(one: Kept, capsys: Any) -> str:
    capsys.readouterr()
    assert main(["show", *one.words, "--output-dir", str(one.folder)]) == 0
    return str(capsys.readouterr().out)


def _pdf(one: Kept, _capsys: Any) -> str:
    pypdf = pytest.importorskip("pypdf", reason="PDF is read through pypdf (pip install 'torchstone[dev]')")
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(_file(one, "pdf"))).pages)


def _slides(one: Kept, _capsys: Any) -> str:
    pptx = pytest.importorskip("pptx", reason="slides need python-pptx (pip install 'torchstone[report]')")

    def texts() -> Iterator[str]:
        for slide in pptx.Presentation(io.BytesIO(_file(one, "pptx"))).slides:
            for shape in slide.shapes:
                if shape.has_text_frame:
                    yield shape.text_frame.text
                if shape.has_table:
                    yield from (" | ".join(cell.text for cell in row.cells) for row in shape.table.rows)

    return "\n".join(texts())


def _json(one: Kept, _capsys: Any) -> str:
    return "\n".join(of_document(msgspec.json.decode(_file(one, "json"), type=Document).parts))


def _serve(one: Kept, _capsys: Any) -> str:
    pytest.importorskip("starlette", reason="pages need starlette (pip install 'torchstone[serve]')")
    from torchstone.report.pages.guard import Guard
    from torchstone.report.pages.server import application
    from torchstone.report.pages.site import Site
    from torchstone.report.pages.store import Store

    reply = get(application(Site(Store(one.folder), document_of), Guard((), None, 8642)), one.page)
    assert reply.status == 200
    return of_html(reply.text)


def _notebook(one: Kept, _capsys: Any) -> str:
    if one.summary is None:
        return of_html(fragment(one.document))
    return of_html(shown(one.summary)._repr_html_() or "")


def _markdown(one: Kept, _capsys: Any) -> str:
    return re.sub(r"\\(.)", r"\1", html.unescape(_file(one, "md").decode()))


MEDIA: Mapping[str, Callable[[Kept, Any], str]] = {
    "terminal": _terminal, "show": _show, "html": lambda one, _: of_html(_file(one, "html").decode()), "pdf": _pdf,
    "slides": _slides, "markdown": _markdown, "json": _json, "serve": _serve, "notebook": _notebook,
}  # fmt: skip
each_kind = pytest.mark.parametrize("kind", KINDS)


# ── values in a text ────────────────────────────────────────────────────────────────────────────────────────

_UNITS = r"%|×|[kMGTP]?FLOP(?:/s)?|[KMGT]iB|B\b|[mµn]?s\b|min\b|[mk]?[JW]\b|[a-z]+/s\b"
_NAMES = "|".join([*AXES, *Verdict, "better", "worse", "same", "unclear", "not comparable"])
_VALUE = re.compile(rf"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?(?: ?(?:{_UNITS}))?|\b(?:{_NAMES})\b")


def values_of(text: str) -> list[str]:
    """Return the numbers with their units, the verdicts and the settings that a text names, in their order."""
    flat = re.sub(r"[*`|]", " ", re.sub("[\u00ad\u200b\u2060]", "", text).replace("\u00a0", " ").replace("\u202f", " "))
    return [re.sub(r"[ ,]", "", found) for found in _VALUE.findall(re.sub(r"\s+", " ", flat))]


def holds(values: Sequence[str], wanted: Sequence[str], within: int = 0) -> bool:
    """Say whether values stand among others in this order, with at most `within` others between the first and last."""
    for begin, value in enumerate(values):
        if value == wanted[0]:
            rest = iter(values[begin : begin + len(wanted) + within])
            if all(one in rest for one in wanted):
                return True
    return False


# ── what every medium owes ──────────────────────────────────────────────────────────────────────────────────

_BETWEEN = 30  # other cells of a row


@each_kind
def test_every_medium_gives_the_answer_figures_doubts_and_next_action(kind, tmp_path, capsys):
    one = kept(kind, tmp_path)
    owed = {
        "the answer": [values_of(one.document.headline or "")],
        "a figure of a case": list(map(values_of, _figures(one.summary))) if one.summary else [],
        "what to doubt": [values_of(part.message) for part in _of(one.document.parts, Doubt)],
        "what to type": list(map(values_of, _to_type(one.document))),
    }
    assert owed["the answer"] != [[]] or kind in _WITHOUT_NUMBERS
    shows = {name: values_of(draw(one, capsys)) for name, draw in MEDIA.items() if (kind, name) not in LEFT_OUT}
    missing = [
        f"{name}: {what}: {' '.join(wanted)}"
        for name, values in shows.items() for what, all_ in owed.items() if (kind, name, what) not in FOLDED
        for wanted in all_
        if wanted and not holds(values, wanted, _BETWEEN if what == "a figure of a case" else 0)
    ]  # fmt: skip
    assert missing == []


_WITHOUT_NUMBERS = ("machine_check",)  # whose answer is whether it is fit to measure on


def _of(parts: Sequence[Part], kind: Any) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, kind):
            yield part
        elif isinstance(part, Section) and not part.folded:
            yield from _of(part.parts, kind)


def _to_type(document: Document) -> Iterator[str]:
    """Yield commands, and sentences that name an option."""
    yield from (part.words for part in _of(document.parts, CommandLine))
    yield from (part.text for part in _of(document.parts, Text) if "--" in part.text and part.role != Role.NOTE)


def _figures(summary: RunSummary) -> Iterator[str]:
    """Yield of each case its rate, and its verdict where there is doubt."""
    for one in without_probes(summary).cases:
        name = "output_token_throughput" if one.workload.task == Task.GENERATE else "throughput"
        rate = one.estimates.get(name)
        if rate is not None and one.workload.task != Task.LOADGEN:
            yield f"{units.significant(rate.value, 4)} {one.verdict if one.verdict != Verdict.VALID else ''}"


# ── the Document against the record ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["tune", "ab", "diagnose", "train"])
def test_the_answer_has_the_values_of_the_record(kind, tmp_path):
    one = kept(kind, tmp_path)
    assert one.summary is not None
    assert holds(values_of(one.document.headline or ""), values_of(" ".join(_answer(one.summary))), _BETWEEN)
    if isinstance(one.summary.answer, Diagnosis):
        told = "\n".join(of_document(one.document.parts))
        (first, *_) = one.summary.answer.causes
        assert first.where
        assert first.remedies
        assert all(f"{place.file}:{place.line}" in told for place in first.where)
        assert all(tried.what_if.name in told for tried in one.summary.answer.tried if tried.gain is not None)


def _answer(summary: RunSummary) -> Sequence[str]:
    """Return the values that the headline owes, as a person writes them."""
    return _OF_ANSWERS[type(summary.answer)](summary.answer, summary.cases[0])


def _of_tune(found: Any, first: Any) -> Sequence[str]:
    best, gain = found.recommended, found.gain
    rate = f"{units.significant(best.throughput, 3)} {first.workload.item}s/s"
    return [
        f"batch_size {best.point['batch_size']}",
        rate,
        *units.ratio(gain.value, gain.low, gain.high).translate({ord(c): " " for c in "[],"}).split(),
    ]


def _of_ab(found: Any, _first: Any) -> Sequence[str]:
    ratio = found.comparison.ratio  # of times: as a speed it is the inverse
    return [*(f"{1.0 / end:.3f}" for end in (ratio.value, ratio.high, ratio.low)), f"{100.0 * ratio.level:g} %"]


def _of_diagnosis(found: Any, _first: Any) -> Sequence[str]:
    gain = found.applied.gain
    return [found.applied.what_if.name, *(f"{end:.2f}" for end in (gain.value, gain.low, gain.high))]


def _of_training(found: Any, first: Any) -> Sequence[str]:
    best = found.metrics.epochs[found.metrics.best_epoch - 1]
    rate = f"{units.significant(first.estimates['throughput'].value, 3)} {found.metrics.item}s/s"
    return [f"{100.0 * best.val_accuracy:.1f} %", units.significant(best.val_loss, 4), rate]


_OF_ANSWERS: Mapping[type, Callable[[Any, Any], Sequence[str]]] = {
    TuneResult: _of_tune, AbResult: _of_ab, Diagnosis: _of_diagnosis, Training: _of_training,
}  # fmt: skip


@pytest.mark.parametrize("kind", RUNS)
def test_json_has_the_figures_of_the_record_whole(kind, tmp_path, capsys):
    one = kept(kind, tmp_path)
    assert one.summary is not None
    capsys.readouterr()
    assert main(["show", *one.words, "--json", "--output-dir", str(tmp_path)]) == 0
    told = json.loads(capsys.readouterr().out)
    read = {each["case_id"]: each for each in told["cases"]}
    for each in one.summary.cases:
        assert read[each.case_id]["verdict"] == each.verdict
        figures = {name: (found["value"], found["low"]) for name, found in read[each.case_id]["estimates"].items()}
        assert figures == {name: (found.value, found.low) for name, found in each.estimates.items()}
    assert (told["answer"] is None) == (one.summary.answer is None)


# Not of "python", whose steps of 37 µs are short beside the clock between them.
@pytest.mark.parametrize("kind", ["infer", "feed", "tune", "ab", "diagnose", "train", "program"])
def test_a_step_goes_with_its_rate(kind, tmp_path):
    """The step time that is shown is the mean: with the rate beside it, it gives the items of a step."""
    one = kept(kind, tmp_path)
    assert one.summary is not None
    rows = 0
    for each in one.summary.cases:
        step, rate = each.estimates.get("step_time_mean"), each.estimates.get("throughput")
        if step is None or rate is None:
            continue
        assert step.value * rate.value == pytest.approx(each.configuration["batch_size"], rel=0.01)
        ms, cell = units.significant(1e3 * step.value, 3), units.significant(rate.value, 4)
        rows += holds(values_of("\n".join(of_document(one.document.parts))), values_of(f"{ms} {cell}"), _BETWEEN)
    assert rows


@pytest.mark.parametrize("by", [1.0, 0.97, 0.9, 0.5])
def test_what_follows_from_the_rate_has_its_verdict(by, tmp_path):
    runs = [
        a_stored_run(number, [(case(batch_size=size), rate * size) for size in (8, 16, 32)], machine(), noise=0.04)
        for number, rate in ((1, 10.0), (2, 10.0 * by))
    ]
    facts = Facts(dataset_items=8000, task="train")
    runs = [
        msgspec.structs.replace(
            run, trials=tuple(msgspec.structs.replace(t, facts=merged(t.facts, facts)) for t in run.trials)
        )
        for run in runs
    ]
    store(tmp_path, runs)
    found = compare(gather([run.head.run_id for run in runs], tmp_path), ComparisonRequest(prices={"A": 1.0, "B": 1.0}))
    judged: dict[Any, Any] = {
        (one.comparison.candidate.case_id, one.comparison.metric): one.comparison for one in found.judged
    }
    for (case_id, metric), told in judged.items():
        if metric in FOLLOWING:
            rate = judged[case_id, "throughput"]
            assert told.verdict == rate.verdict, metric
            ends = (told.ratio.value, told.ratio.low, told.ratio.high)
            assert ends == pytest.approx([1.0 / end for end in (rate.ratio.value, rate.ratio.high, rate.ratio.low)])
    assert {"step_time_mean", "epoch_time_s", COST} <= {metric for _, metric in judged}


@pytest.mark.parametrize("kind", ["infer", "tune", "ab", "diagnose"])
def test_a_doubt_is_shown_by_every_command(kind, tmp_path, capsys):
    run = RUNS[kind]()
    doubt = [a_finding("throttled", Severity.WARNING, "at 77.7 %", "cool it", c.case_id) for c in run.head.plan.cases]
    ids = {trial.case_id for trial in run.trials}
    doubt += [a_finding("throttled", Severity.WARNING, "at 77.7 %", "cool it", i) for i in ids]
    one = kept_run(kind, msgspec.structs.replace(run, findings=tuple(doubt)), tmp_path)
    assert one.summary is not None
    assert {each.verdict for each in one.summary.cases} == {Verdict.SUSPECT}
    for name in ("terminal", "show", "serve", "notebook"):
        values = values_of(MEDIA[name](one, capsys))
        assert "SUSPECT" in values, name
        assert "77.7%" in values, name
