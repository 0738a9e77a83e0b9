"""Every kind of stored result in every medium: the same answer, figures and next action.

What is compared are values: numbers with their units, ids of verdicts, and names of settings. They are read out of what
each medium shows and held against the record and against the Document that is made of it; words and layout are each
medium's own.
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
from ci_results import STATES
from kinds import COMPARED, RUNS, VALUES
from over import over
from stored import store

from torchstone.analysis.compare.compare import Asked, compare
from torchstone.analysis.compare.inputs import gather
from torchstone.analysis.compare.task_answers import answers
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.api.notebook import shown
from torchstone.cli import main
from torchstone.core import units
from torchstone.core.schema.answer import AbResult, TuneResult
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Task
from torchstone.core.schema.diagnosis import Diagnosis
from torchstone.core.schema.estimate import Severity, Verdict
from torchstone.core.schema.training import Training
from torchstone.report.document import Command, Document, Doubt, Facts, Part, Section, Table, Text
from torchstone.report.documents.ci import ci_document
from torchstone.report.documents.comparison import comparison_document
from torchstone.report.documents.run import measured_document, run_document, without_probes
from torchstone.report.rendering import renderer
from torchstone.report.renderers.html.fragment import fragment
from torchstone.report.renderers.terminal import terminal
from torchstone.report.results import Result, save
from torchstone.storage.index import sync
from torchstone.storage.query import find
from torchstone.workflows.run.results import Results

pypdf = pytest.importorskip("pypdf", reason="PDF is read through pypdf (pip install 'torchstone[dev]')")
pptx = pytest.importorskip("pptx", reason="slides need python-pptx (pip install 'torchstone[report]')")
pytest.importorskip("starlette", reason="pages need starlette (pip install 'torchstone[serve]')")

from asgi import get

from torchstone.cli._stored import document_of
from torchstone.report.pages.application import application
from torchstone.report.pages.guard import Guard
from torchstone.report.pages.site import Site
from torchstone.report.pages.store import Store

# What a medium leaves out on purpose: (kind, medium) → why. Everything else is shown by all.
LEFT_OUT: Mapping[tuple[str, str], str] = {
    ("ci", "show"): "the folder of `ci measure` is judged by `ci gate` and `ci comment`, which draw the same Document",
    ("ci", "serve"): "a store has runs; the pages of a benchmark's commits are `torchstone ci history`'s",
    ("compare", "show"): "`compare` is asked anew of its runs, and keeps nothing",
    ("compare", "notebook"): "the Python API gives single runs",
    **{(kind, "notebook"): "the Python API gives runs; what --save keeps is shown by files" for kind in VALUES},
}

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
        run = RUNS[kind]()
        store(folder, [run])
        sync(folder)
        summary = summarize(find(folder, run.head.run_id))
        run_id = summary.run_id
        return Kept(kind, folder, (run_id,), run_document(summary), f"/runs/{run_id}", summary)
    if kind in VALUES:
        result = Result(kind, VALUES[kind]())
        data, _ = save(result, folder)
        return Kept(kind, folder, (str(data),), result.document(), f"/results/{kind}")
    if kind == "compare":
        runs = [make() for make in COMPARED]
        store(folder, runs)
        sync(folder)
        words = tuple(run.head.run_id for run in runs)
        found = compare(gather(words, folder), Asked())
        return Kept(kind, folder, words, comparison_document(found, answers(found)), "/compare?a={}&b={}".format(*words))
    assert kind == "ci"
    return Kept(kind, folder, (), ci_document(STATES["slower"]()), "")


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
            case Command():
                yield part.words
            case Facts():
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
    """What the command prints at its end."""
    if one.summary is not None:
        return terminal(measured_document(Results(one.summary, Path("d.json"), Path("t.csv"), 0)), 100)
    return terminal(one.document, 100)


def _show(one: Kept, capsys: Any) -> str:
    capsys.readouterr()
    assert main(["show", *one.words, "--output-dir", str(one.folder)]) == 0
    return str(capsys.readouterr().out)


def _pdf(one: Kept, _capsys: Any) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(_file(one, "pdf"))).pages)


def _slides(one: Kept, _capsys: Any) -> str:
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


@pytest.fixture(scope="module")
def _stored(tmp_path_factory):
    found: dict[str, Kept] = {}

    def one(kind: str) -> Kept:
        if kind not in found:
            found[kind] = kept(kind, tmp_path_factory.mktemp(kind))
        return found[kind]

    return one


@pytest.fixture
def shows(_stored, kind, capsys):
    """What each medium shows of a kind, in values."""
    one = _stored(kind)
    return {name: values_of(draw(one, capsys)) for name, draw in MEDIA.items() if (kind, name) not in LEFT_OUT}


@each_kind
def test_every_medium_gives_the_answer_figures_doubts_and_next_action(_stored, kind, shows):
    one = _stored(kind)
    owed = {
        "the answer": [values_of(one.document.headline or "")],
        "a figure of a case": list(map(values_of, _figures(one.summary))) if one.summary else [],
        "what to doubt": [values_of(part.message) for part in _of(one.document.parts, Doubt)],
        "what to type": [values_of(part.words) for part in _of(one.document.parts, Command)],
    }
    missing = [
        f"{name}: {what}: {' '.join(wanted)}"
        for name, values in shows.items() for what, all_ in owed.items() for wanted in all_
        if wanted and not holds(values, wanted, _BETWEEN if what == "a figure of a case" else 0)
    ]  # fmt: skip
    assert missing == []


_BETWEEN = 30  # other cells of a row


def _of(parts, kind):
    for part in parts:
        if isinstance(part, kind):
            yield part
        elif isinstance(part, Section) and not part.folded:
            yield from _of(part.parts, kind)


def _figures(summary):
    """Yield of each case its batch size, its rate, and its verdict where there is doubt."""
    for case in without_probes(summary).cases:
        name = "output_token_throughput" if case.workload.task == Task.GENERATE else "throughput"
        rate = case.estimates.get(name)
        if rate is not None and case.workload.task != Task.LOADGEN:
            doubt = case.verdict if case.verdict != Verdict.VALID else ""
            yield f"{units.significant(rate.value, 4)} {doubt}"
