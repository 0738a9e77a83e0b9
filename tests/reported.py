"""Reports of stored runs for tests: a small page of HTML with what a report carries, and ways to tamper with it."""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from build import a_sweep
from stored import store

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.charts.picture import Picture
from torchstone.core.schema.run import Run
from torchstone.plugins.checking import look
from torchstone.report.attached import attachment_tags
from torchstone.report.bundle import Bundle, read_bundle
from torchstone.report.carried import attachments, with_record
from torchstone.report.document import Attachment, Chart, Document, Part, Section, Table, Text
from torchstone.report.documents.run import run_document
from torchstone.storage.manifest import MANIFEST, manifest_bytes, sums_of
from torchstone.storage.query import find

Files = dict[str, bytes]


def looked_at(run: Run) -> Run:
    """The run with the findings that its checks have, as a run that has ended has them."""
    return msgspec.structs.replace(run, findings=tuple(look(msgspec.structs.replace(run, findings=()))))


def a_swept_run() -> Run:
    """Three batch sizes on a card, three trials each; the checks find what they find."""
    fixed = {"precision": "fp32", "feed": "resident"}
    points = [({"batch_size": size, **fixed}, 0.01 + 1e-4 * size) for size in (8, 32, 64)]
    return looked_at(a_sweep(points))


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
        f"<!doctype html><html lang=en><head><title>{title}</title><style>td {{ color: #111 }}</style></head><body>"
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
    """A picture as SVG, in place of vl-convert's: a mark that tells its value, labels, and room at the left for them."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg"><g transform="translate({left},0)"><text>{picture.title}</text>'
        f'<path aria-label="{picture.title}: 1.5" d="M0,15h3v3z"></path></g></svg>'
    )


def with_chart(summary: RunSummary) -> Document:
    """The Document of a report with a picture in it."""
    document = document_of(summary)
    chart = Chart("speed", "throughput over batch size", Picture("throughput", ()))
    return msgspec.structs.replace(document, parts=(*document.parts, Section("Pictures", (chart,))))


class PageRenderer:
    """Stands in for the HTML of reports."""

    describes, suffix = "a page for tests", ".html"

    def render(self, document: Document) -> bytes:
        """Return the page."""
        return a_page(document)


def reported(summary: RunSummary) -> Document:
    """The Document of a report with what it carries."""
    return with_record(document_of(summary), summary)


def files_of(document: Document) -> Files:
    """What a Document carries, by name."""
    return {one.name: one.content for one in document.attachments}


def resealed(files: Files) -> Files:
    """The files with a manifest, and claims, that have the hashes of what is there: a careful forger's."""
    made = dict(files)
    for name in [name for name in made if name.startswith("claims/")]:
        record = made.get(name.replace("claims/", "records/").replace(".json", ".jsonl"))
        if record is not None:
            told = {"record_sha256": hashlib.sha256(record).hexdigest()}
            made[name] = edited_claims(made[name], lambda claims, told=told: claims.update(told))
    made.pop(MANIFEST, None)
    return {**made, MANIFEST: manifest_bytes(sums_of(made))}


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
    path.write_bytes(shown.replace(b"<script>sort()", tags + b"<script>sort()"))
    return read_bundle(path)


def one_file(name: str, content: bytes) -> Attachment:
    """An attachment."""
    return Attachment(name, "text/plain", content)
