"""What a command has to say of a result, as data: no terminal, page or file format is known here.

A renderer (`report/renderers/`) turns a Document into text. Whoever makes one decides what is said and in which order,
the answer first; a renderer decides how it looks, and what does not fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from torchstone.core.charts.vega_lite import Picture, Spec
from torchstone.core.schema.estimate import Finding, Severity


class Role(StrEnum):
    """What a text is for."""

    HEADLINE = "headline"  # the answer, in one or two sentences with its interval
    BODY = "body"
    NOTE = "note"  # what else the figures say
    DETAIL = "detail"  # belongs to the text before it


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """A paragraph without line breaks."""

    text: str
    role: Role = Role.BODY


class CommandLine(msgspec.Struct, frozen=True, tag="command", tag_field="kind"):
    """What to type next, in one piece so that it can be copied."""

    words: str


class Fields(msgspec.Struct, frozen=True, tag="facts", tag_field="kind"):
    """Names with their values, a line each. A value may be long."""

    rows: tuple[tuple[str, str], ...]


class Column(msgspec.Struct, frozen=True):
    """One column of a Table. Where there is no room, the highest rank leaves first; rank 0 never does.

    `of`: the number of the column, from 0, whose interval this one is: both are there, or neither.
    `shorten`: names of any length, which may lose their middle where they do not all fit.
    """

    title: str
    cells: tuple[str, ...]
    rank: int = 0
    left: bool = False
    of: int | None = None
    shorten: bool = False


class Table(msgspec.Struct, frozen=True, tag="table", tag_field="kind"):
    """Columns with equally many cells. An empty cell is empty; a dash is a value that is not known.

    `most`: so many rows are shown where people read from top to bottom, and `how` is what they type for all; None: all.
    """

    columns: tuple[Column, ...]
    most: int | None = None
    how: str = "--full"

    def __post_init__(self) -> None:
        """Raise ValueError for columns of different lengths."""
        if len({len(column.cells) for column in self.columns}) > 1:
            raise ValueError(f"columns of different lengths: {[(c.title, len(c.cells)) for c in self.columns]}")

    @classmethod
    def of(cls, *columns: Column) -> Table:
        """Return the table of these columns, all of its rows shown."""
        return cls(columns)


class Chart(msgspec.Struct, frozen=True, tag="chart", tag_field="kind"):
    """A picture (core/charts), and a sentence that says what it shows to who cannot see it.

    `name`, `suffix`: of the file that is drawn of it, beside the page.
    """

    name: str
    says: str
    picture: Picture
    suffix: str = ".svg"


class Doubt(msgspec.Struct, frozen=True, tag="doubt", tag_field="kind"):
    """Why a number should not be believed, of what, and what to do; with the Finding that says so, where it is one."""

    severity: Severity
    subject: str
    message: str
    advice: str
    finding: Finding | None = None


class Section(msgspec.Struct, frozen=True, tag="section", tag_field="kind"):
    """Parts that belong together, under a title if it is not empty.

    `folded`: left out where people read from top to bottom, unless they ask for all; `how`: what they then type.
    """

    title: str
    parts: tuple[Part, ...]
    folded: bool = False
    how: str = "--full"


Part = Text | CommandLine | Fields | Table | Chart | Doubt | Section


class Attachment(msgspec.Struct, frozen=True):
    """A file that a report carries, such as the record that it was computed from. `packed`: as gzip, if it is so."""

    name: str
    media_type: str
    content: bytes
    packed: bytes | None = None


class Document(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a command says. `title` names the thing that it speaks of, for renderers that head a page with it.

    `attachments`: for formats that can carry files; others leave them out. `language`: of its texts, see
    report/translation. JSON has neither where there are no files, and English.
    """

    title: str
    parts: tuple[Part, ...]
    attachments: tuple[Attachment, ...] = ()
    language: str = "en"

    @property
    def headline(self) -> str | None:
        """The answer; None where there is none."""
        return next((p.text for p in self.parts if isinstance(p, Text) and p.role == Role.HEADLINE), None)


def paragraphs(lines: Sequence[str], role: Role = Role.BODY) -> tuple[Text, ...]:
    """Return a Text a line."""
    return tuple(Text(line, role) for line in lines)


class Renderer(ABC):
    """Writes any Document in one format: the family `renderers` of plug-ins. `suffix`: of its files, with the dot.

    `folder`: how the name of the folder ends, where it writes several files; `render` packs them into one.
    `draws`: it has `specifications`.
    """

    describes: str
    suffix: str
    folder: str | None = None
    draws = False

    @abstractmethod
    def render(self, document: Document) -> bytes:
        """Return the file. Texts may come from strangers: none may steer a terminal or become markup."""

    def files(self, document: Document) -> Mapping[str, bytes]:
        """Return the files of the folder by their names, which are no paths."""
        raise NotImplementedError

    def specifications(self, charts: Sequence[Chart]) -> Iterator[Spec]:
        """Yield the Vega-Lite specifications that `render` draws of Charts, which may begin before it is called."""
        return iter(())
