"""A Document as Markdown (CommonMark with tables): for pull requests, issues and wikis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchstone.report.document import Chart, Command, Document, Doubt, Facts, Part, Role, Section, Table, Text

_STEERING = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(document: Document) -> str:
    """Return the page. What is folded is in `<details>`, charts by the name of their file."""
    blocks = [f"# {_plain(document.title)}", *_blocks(document.parts, 2)]
    return "\n\n".join(blocks) + "\n"


def _plain(text: object) -> str:
    """Return text of one line that Markdown takes for nothing but text."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return _STEERING.sub(r"\\\1", shown)


def _blocks(parts: Sequence[Part], level: int) -> Iterator[str]:
    for part in parts:
        match part:
            case Text():
                yield _text(part)
            case Command():
                yield _code(part.words)
            case Facts():
                yield "\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in part.rows)
            case Table():
                yield _table(part)
            case Chart():
                yield f"![{_plain(part.says)}]({part.name}.svg)"
            case Doubt():
                yield f"**{part.severity}** {_plain(part.subject)}: {_plain(part.message)}. {_plain(part.advice)}"
            case Section():
                yield from _section(part, level)


def _text(part: Text) -> str:
    text = _plain(part.text)
    if part.role == Role.HEADLINE:
        return f"**{text}**"
    return f"Note: {text}" if part.role == Role.NOTE else text


def _code(words: str) -> str:
    fence = "`" * (1 + max([2, *(len(run) for run in re.findall(r"`+", words))]))
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    return f"{fence}\n{line}\n{fence}"


def _section(part: Section, level: int) -> Iterator[str]:
    if part.folded:
        yield f"<details><summary>{_plain(part.title)}</summary>"
        yield from _blocks(part.parts, level + 1)
        yield "</details>"
        return
    if part.title:
        yield f"{'#' * min(level, 6)} {_plain(part.title)}"
    yield from _blocks(part.parts, level + 1)


def _table(part: Table) -> str:
    if not part.columns:
        return ""
    lines = [
        "| " + " | ".join(_plain(column.title) for column in part.columns) + " |",
        "|" + "|".join(":---" if column.left else "---:" for column in part.columns) + "|",
    ]
    lines += ["| " + " | ".join(map(_plain, row)) + " |" for row in zip(*(c.cells for c in part.columns), strict=True)]
    return "\n".join(lines)
