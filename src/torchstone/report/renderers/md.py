"""A Document as Markdown (CommonMark with tables): for reports, pull requests, issues and wikis."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Renderer,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers._table import fit_columns, important_first
from torchstone.report.translation.language import in_language, localized

_MOST_COLUMNS = 7  # of a table that is read without scrolling
# What steers wherever it stands; and what does so at the edge of a word, or as the end of a link's text.
_STEERING = re.compile(r"[\\`*<>|~]|(?<![^\W_])_|_(?![^\W_])|(?<!\S)#|\](?=[(\[:])")
_AT_THE_START = re.compile(r"^(?:[-+](?=\s|$)|-(?=-+$)|\d+(?=[.)](?:\s|$)))")  # of a list or a line


def markdown(document: Document) -> str:
    """Return the page. What is folded is in `<details>`, charts by the name of their file."""
    with in_language(document.language):
        blocks = [f"# {_plain(document.title)}", *_blocks(document.parts, 2)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _line(text: object) -> str:
    """Return text as one line that is printable."""
    shown = "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return " ".join(shown.split())


def _plain(text: object) -> str:
    """Return text of one line that Markdown takes for nothing but text, where it does not begin a block."""
    return _STEERING.sub(lambda found: f"\\{found[0]}", _line(text))


def _block(text: object) -> str:
    """Return the same for text that begins a block."""
    plain = _plain(text)
    begins = _AT_THE_START.match(plain)
    if begins is None:
        return plain
    end = begins.end()
    return f"{plain[:end]}\\{plain[end:]}" if plain[0].isdigit() else f"\\{plain}"


def _blocks(parts: Sequence[Part], level: int) -> Iterator[str]:
    details: list[str] = []
    for part in parts:
        if isinstance(part, Text) and part.role == Role.DETAIL:
            details.append(f"- {_block(part.text)}")
            continue
        if details:
            yield "\n".join(details)
            details = []
        yield from _part(part, level)
    if details:
        yield "\n".join(details)


def _part(part: Part, level: int) -> Iterator[str]:
    match part:
        case Text():
            yield _text(part)
        case CommandLine():
            yield _code(part.words)
        case Fields():
            rows = (
                f"- {_block(name)}: {_plain(value)}" if name else f"  - {_block(value)}" for name, value in part.rows
            )
            yield "\n".join(rows)
        case Table():
            yield from _table(part)
        case Chart():
            says = part.says.replace("[", "(").replace("]", ")")
            yield f"![{_plain(says)}]({part.name}{part.suffix})"
        case Doubt():
            about = f"**{localized(str(part.severity))}** {_plain(part.subject)}"
            yield f"{about}: {_plain(part.message)}. {_plain(part.advice)}"
        case Section():
            yield from _section(part, level)


def _text(part: Text) -> str:
    if part.role == Role.HEADLINE:
        return f"**{_plain(part.text)}**"
    return f"{localized('Note')}: {_plain(part.text)}" if part.role == Role.NOTE else _block(part.text)


def _code(words: str) -> str:
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall(r"`+", words))]))
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    return f"{fence}\n{line}\n{fence}"


def _section(part: Section, level: int) -> Iterator[str]:
    blocks = list(_blocks(part.parts, level + 1))
    if part.parts and not blocks:  # what is there is for formats with pictures
        return
    if part.folded:
        title = html.escape(_line(part.title))  # no Markdown is read there
        yield from (f"<details><summary>{title}</summary>", *blocks, "</details>")
        return
    if part.title:
        yield f"{'#' * min(level, 6)} {_plain(part.title)}"
    yield from blocks


def _table(part: Table) -> Iterator[str]:
    """Yield the important columns, and all of them folded where they are more."""
    columns = important_first(part.columns)
    shown, gone = fit_columns(columns, _MOST_COLUMNS, len)
    yield _grid(shown)
    if gone:
        yield from (
            f"<details><summary>{localized('all {0} columns', len(columns))}</summary>",
            _grid(columns),
            "</details>",
        )


def _grid(columns: Sequence[Column]) -> str:
    if not columns:
        return ""
    lines = [
        "| " + " | ".join(_plain(column.title) for column in columns) + " |",
        "|" + "|".join(":---" if column.left else "---:" for column in columns) + "|",
    ]
    lines += ["| " + " | ".join(map(_plain, row)) + " |" for row in zip(*(c.cells for c in columns), strict=True)]
    return "\n".join(lines)


class Markdown(Renderer):
    """A page for pull requests, issues and wikis."""

    describes = "Markdown, as GitHub shows it"
    suffix = ".md"

    def render(self, document: Document) -> bytes:
        """Return the file."""
        return markdown(document).encode()


RENDERER = Markdown()
