"""A Document on a terminal: as wide as that is, the answer first, columns left out by rank where they do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.schema.estimate import Severity
from torchstone.core.units import plain
from torchstone.report.document import (
    Chart,
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
from torchstone.report.renderers._table import cell_width, fit_columns, hidden, table, with_what_to_type, wrapped
from torchstone.report.translation.language import in_language, localized

__all__ = ["fit_columns", "terminal"]

_NAME = 9  # cells of a fact's name
_MAIL = 100  # columns of a file


def terminal(document: Document, width: int, *, every: bool = False) -> str:
    """Return the text, each line with its end. `every`: with what is folded.

    No line is wider than `width` cells but what is there to be copied: a command, and a fact of one word, as a path is.
    """
    with in_language(document.language):
        lines = list(_lines(document.parts, width, every=every))
        if not every and any(hidden(table.columns, width) for table in _tables(document.parts)):
            lines += wrapped(localized("more columns in a wider terminal"), width, rest="  ")
        return "".join(f"{line}\n" for line in lines)


def _tables(parts: Sequence[Part]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Table):
            yield part
        elif isinstance(part, Section) and not part.folded:
            yield from _tables(part.parts)


def _lines(parts: Sequence[Part], width: int, *, every: bool, level: int = 0, titled: bool = False) -> Iterator[str]:
    """Yield the lines of parts. `level`: how many titles they stand under; `titled`: one is right above them."""
    before: Part | None = None
    begun = titled
    for part in parts:
        drawn = list(_part(part, width, every=every, level=level, titled=titled))
        if not drawn:
            continue
        if drawn[0] and _apart(before, part, begun=begun):
            yield ""
        yield from drawn
        begun = True
        if not (isinstance(part, Text) and part.role == Role.DETAIL):  # which is of what stands before it
            before = part


def _apart(before: Part | None, part: Part, *, begun: bool) -> bool:
    """Say whether an empty line stands above a part. `begun`: something does, be it a title alone."""
    if before is None:
        return begun and isinstance(part, Section) and bool(part.title)
    if isinstance(part, CommandLine) or (isinstance(part, Text) and part.role == Role.DETAIL):
        return False
    if isinstance(before, Text) and isinstance(part, Text):
        return before.role != part.role
    if isinstance(before, Text) and isinstance(part, Section) and part.folded:
        return before.role in (Role.HEADLINE, Role.NOTE)
    if isinstance(before, Text | Doubt) and isinstance(part, Doubt):
        return isinstance(before, Text) and before.role == Role.HEADLINE
    return type(before) is not type(part) or isinstance(part, Section | Table)


def _part(part: Part, width: int, *, every: bool, level: int, titled: bool) -> Iterator[str]:
    match part:
        case Text():
            yield from _text(part, width)
        case CommandLine():
            yield f"  {plain(part.words)}"  # whole, so that it can be copied
        case Fields():
            yield from _facts(part, width, "  " if titled else "")
        case Table():
            yield from table(part, width, every=every)
        case Chart():
            return  # the tables beside them have the same figures
        case Doubt():
            about = f"{localized('note')}:" if part.severity == Severity.INFO else localized(str(part.severity))
            yield from wrapped(f"{about} {part.subject}: {part.message}; {part.advice}", width, rest="  ")
        case Section() if not _is_silent(part):
            yield from _section(part, width, every=every, level=level, titled=titled)


def _text(part: Text, width: int) -> Iterator[str]:
    match part.role:
        case Role.HEADLINE:
            yield from wrapped(part.text, width)
        case Role.BODY:
            yield from wrapped(part.text, width, rest="  ")
        case Role.NOTE:
            yield from wrapped(f"{localized('note')}: {part.text}", width, rest="  ")
        case Role.DETAIL:
            yield from wrapped(part.text, width, first="  ", rest="    ")


def _facts(part: Fields, width: int, indent: str) -> Iterator[str]:
    """Yield a line a fact, the values below each other; a name that is too long for that has a line of its own.

    A value of one word, as a path is, stays whole.
    """
    names = [plain(name) for name, _ in part.rows]
    most = max(_NAME, width // 3)
    broad = max([_NAME, *(cell_width(name) for name in names if cell_width(name) <= most)])
    beside = indent + " " * (broad + 1)
    for name, (_, value) in zip(names, part.rows, strict=True):
        first = f"{indent}{name}{' ' * (broad + 1 - cell_width(name))}"
        if cell_width(name) > broad:
            yield from wrapped(name, width, first=indent, rest=f"{indent}  ")
            first = beside
        yield from wrapped(value, width, first=first, rest=beside, whole=len(plain(value).split()) == 1)


def _section(part: Section, width: int, *, every: bool, level: int, titled: bool) -> Iterator[str]:
    """Yield a section: under its title, one of parts below another title under "[title]" and indented."""
    if part.folded and not every:
        yield from with_what_to_type(part.title, part.how, width)
    elif not part.title:
        yield from _lines(part.parts, width, every=every, level=level, titled=titled)
    elif level == 0:
        title = list(wrapped(part.title, width, rest="  "))
        yield from title
        if _has_sections(part):
            yield "=" * max(map(cell_width, title))
        yield from _lines(part.parts, width, every=every, level=1, titled=True)
    elif _has_sections(part):
        yield from wrapped(part.title, width, first="── ", rest="   ")
        yield from _lines(part.parts, width, every=every, level=level + 1, titled=True)
    else:
        yield from wrapped(f"[{part.title}]", width, rest=" ")
        for line in _lines(part.parts, width - 2, every=every, level=level + 1):
            yield f"  {line}" if line else ""


def _is_silent(part: Section) -> bool:
    """Say whether a section has pictures alone, of which a terminal shows nothing."""
    return bool(part.parts) and all(
        _is_silent(one) if isinstance(one, Section) else isinstance(one, Chart) for one in part.parts
    )


def _has_sections(part: Section) -> bool:
    return any(isinstance(one, Section) and one.title and not one.folded and not _is_silent(one) for one in part.parts)


class PlainText(Renderer):
    """What a terminal shows that is as wide as a mail, with what is folded."""

    describes = f"plain text, {_MAIL} columns wide"
    suffix = ".txt"

    def render(self, document: Document) -> bytes:
        """Return the file."""
        return terminal(document, _MAIL, every=True).encode()


RENDERER = PlainText()
