"""Reports of stored runs for tests: a small page of HTML with what a report carries, and ways to tamper with it."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from build import a_case, a_run, a_sweep
from comparable import a_stored_run
from stored import store

from torchstone.analysis.compare.compare import reproduced
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.case import Case
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Measurement, Stage
from torchstone.plugins.checking import look
from torchstone.report.attached import attachment_tags
from torchstone.report.bundle import Bundle, read_bundle
from torchstone.report.carried import attachments, carrying, files_of_run
from torchstone.report.document import Attachment, Chart, Document, Part, Renderer, Section, Table, Text
from torchstone.report.documents.combined import combined_document
from torchstone.report.documents.comparison import reproduction_document
from torchstone.report.documents.release import readme
from torchstone.report.documents.run import run_document
from torchstone.report.verification import Verified, verification_document
from torchstone.storage.manifest import MANIFEST, manifest_bytes, sums_of
from torchstone.storage.query import entry_of, find

Files = dict[str, bytes]


def looked_at(run: Run) -> Run:
    """The run with the findings that its checks have, as a run that has ended has them."""
    return msgspec.structs.replace(run, findings=tuple(look(msgspec.structs.replace(run, findings=()))))


def a_swept_run() -> Run:
    """Three batch sizes on a card, three trials each, of which one had retries: a check says so."""
    fixed = {"precision": "fp32", "feed": "resident"}
    points = [({"batch_size": size, **fixed}, 0.01 + 1e-4 * size) for size in (8, 32, 64)]
    run = a_sweep(points)
    retries = Measurement("allocator_retries", Stage.STEADY, (2.0,), "throughput")
    first = msgspec.structs.replace(run.trials[0], measurements=(*run.trials[0].measurements, retries))
    return looked_at(msgspec.structs.replace(run, trials=(first, *run.trials[1:])))


def stored_summary(folder: Path, run: Run) -> RunSummary:
    """The summary of a run, which is now in the store `folder`."""
    store(folder, [run])
    return summarize(find(folder, run.head.run_id))


def document_of(summary: RunSummary) -> Document:
    """The Document of a report."""
    return run_document(summary, every=True)


def a_page(document: Document) -> bytes:
    """A page of HTML: texts, tables, and what the Document carries."""
    inner = "".join(_parts(document.parts))
    title = html.escape(document.title)
    return (
        f"<!doctype html><html lang={document.language}><head><title>{title}</title>"
        "<style>td { color: #111 }</style></head><body>"
        f"<h1>{title}</h1>{inner}{attachment_tags(document.attachments)}<script>sort()</script></body></html>"
    ).encode()


def _parts(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text):
            yield f"<p>{html.escape(part.text)}</p>"
        elif isinstance(part, Section):
            yield f"<h2>{html.escape(part.title)}</h2>"
            yield from _parts(part.parts)
        elif isinstance(part, Table):
            rows = zip(*(column.cells for column in part.columns), strict=True)
            cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
            yield f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
        elif isinstance(part, Chart):
            yield f"<figure><figcaption>{html.escape(part.says)}</figcaption>{a_drawing(part.picture)}</figure>"


def a_drawing(picture: Picture, left: int = 12) -> str:
    """A picture as SVG, in place of vl-convert's: a mark that tells its value, labels, and room for them."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 99 99"><g transform="translate({left},0)">'
        f"<text>{picture.title}</text>"
        f'<path aria-label="{picture.title}: 1.5" d="M0,15h3v3z"></path></g></svg>'
    )


def with_chart(summary: RunSummary) -> Document:
    """The Document of a report with a picture in it."""
    document = document_of(summary)
    chart = Chart("speed", "throughput over batch size", Picture("throughput", ()))
    return msgspec.structs.replace(document, parts=(*document.parts, Section("Pictures", (chart,))))


class PageRenderer(Renderer):
    """Stands in for the HTML of reports."""

    describes, suffix = "a page for tests", ".html"

    def render(self, document: Document) -> bytes:
        """Return the page."""
        return a_page(document)


def reported(summary: RunSummary) -> Document:
    """The Document of a report with what it carries."""
    return carrying(document_of(summary), files_of_run(summary))


def files_of(document: Document) -> Files:
    """What a Document carries, by name."""
    return {one.name: one.content for one in document.attachments}


def resealed(files: Files) -> Files:
    """The files with a manifest, and claims, that have the hashes of what is there: a careful forger's."""
    made = dict(files)
    for name in [name for name in made if name.startswith("claims/")]:
        record = made.get(name.replace("claims/", "records/").replace(".json", ".jsonl"))
        if record is not None:
            made[name] = edited_claims(made[name], partial(_named, hashlib.sha256(record).hexdigest()))
    made.pop(MANIFEST, None)
    return {**made, MANIFEST: manifest_bytes(sums_of(made))}


def _named(sha256: str, claims: Any) -> None:
    claims["record_sha256"] = sha256


def edited_claims(data: bytes, change: Callable[[Any], object]) -> bytes:
    """Claims as JSON that `change` has changed."""
    plain = json.loads(data)
    change(plain)
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def edited_record(data: bytes, change: Callable[[list[Any]], object]) -> bytes:
    """A record whose lines, as JSON, `change` has changed."""
    lines = [json.loads(line) for line in data.splitlines()]
    change(lines)
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def as_page(path: Path, document: Document, files: Files, edit: Callable[[str], str] = lambda text: text) -> Bundle:
    """The bundle of a page with these files, whose text `edit` has changed."""
    bare = msgspec.structs.replace(document, attachments=())
    shown = edit(a_page(bare).decode()).encode()
    tags = attachment_tags(attachments(files)).encode()
    path.write_bytes(shown.replace(b"<script>", tags + b"<script>"))
    return read_bundle(path)


def one_file(name: str, content: bytes) -> Attachment:
    """An attachment."""
    return Attachment(name, "text/plain", content)


# ── Documents for the zoo ───────────────────────────────────────────────────────────────────────────────────

HOSTILE = "a|b\x1b[31m<script>`x`\n# c"
_SHA256 = "0123456789abcdef" * 4


def a_verification(faults: Sequence[str] = (), notes: Sequence[str] = ()) -> Document:
    """What `verify` shows of a release of a run."""
    found = Verified("results", 3, 42, (("20261121-100000-abcd", _SHA256),), tuple(faults), tuple(notes))
    return verification_document(found)


def a_readme(run: Run, *left_out: str) -> Document:
    """The README of a release of a run."""
    summary = summarize(entry_of(run, Path("r.jsonl")))
    names = (f"records/{run.head.run_id}.jsonl", f"reports/{run.head.run_id}.md", "CITATION.cff")
    return readme([summary], summary.name, names, left_out)


def a_reproduction(*steps_s: float, case: Case | None = None) -> Document:
    """What `reproduce` shows of a run whose steps took 10 ms; they take this long here."""
    recorded = a_stored_run([0.0100, 0.0101, 0.0099, 0.0100, 0.0101, 0.0099], case)
    return reproduction_document(reproduced(recorded, a_stored_run(steps_s, case, minutes=5), 0.1), ("again.jsonl",))


def a_combined_report(name: str = "test") -> Document:
    """One report of two runs."""
    runs = [summarize(entry_of(one, Path("r.jsonl")), ()) for one in (a_swept_run(), a_run([], cases=()))]
    runs = [msgspec.structs.replace(one, name=name) for one in runs]
    return combined_document(runs, [with_chart(one) for one in runs])


DOCUMENTS: tuple[tuple[str, Callable[[], Document]], ...] = (
    ("verify", a_verification),
    ("verify: notes", lambda: a_verification((), ("written by torchstone 0.0.9, verified by 0.1.0",))),
    ("verify: a fault", lambda: a_verification(("seed: claimed 3, the record gives 0",))),
    ("verify: forty faults", lambda: a_verification([f"case {n}: verdict: claimed VALID" for n in range(40)])),
    ("verify: hostile", lambda: a_verification((HOSTILE,), (HOSTILE,))),
    ("report: combined", a_combined_report),
    ("report: combined, hostile", lambda: a_combined_report(HOSTILE)),
    ("release", lambda: a_readme(a_swept_run())),
    ("release: something left out", lambda: a_readme(a_swept_run(), "reports as pdf: PDF needs typst")),
    ("release: own code", lambda: a_readme(a_run(cases=[a_case(model="py:net.py:load")], trials=[]))),
    ("reproduce: equivalent", lambda: a_reproduction(0.0099, 0.0100, 0.0101, 0.0099, 0.0100, 0.0101)),
    ("reproduce: different", lambda: a_reproduction(0.0199, 0.0200, 0.0201, 0.0199, 0.0200, 0.0201)),
    ("reproduce: inconclusive", lambda: a_reproduction(0.008, 0.013, 0.009, 0.012)),
    ("reproduce: hostile", lambda: a_reproduction(0.02, 0.02, 0.0201, case=a_case(model=f"py:{HOSTILE}"))),
)
