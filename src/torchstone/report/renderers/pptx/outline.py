"""A Document as slides: the answer first, a slide a section, what does not fit on the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import assert_never

import msgspec

from torchstone.core.schema.estimate import Severity
from torchstone.report.document import Chart, Command, Document, Doubt, Facts, Part, Ratios, Role, Section, Table, Text
from torchstone.report.renderers._measuring import lines
from torchstone.report.renderers._pictures import parts as parts_of
from torchstone.report.renderers._typeface import shortened
from torchstone.report.renderers.pptx import plots
from torchstone.report.renderers.pptx.slide import (
    ACROSS,
    BOTTOM,
    MARGIN,
    TALL,
    TOP,
    Box,
    Image,
    Shape,
    Slide,
    Style,
    Words,
    height,
    line_of,
    width,
)
from torchstone.report.renderers.pptx.tables import banded, grid, least, of_facts, on_slides

TITLE_SIZE, TITLE_LINES = 22.0, 2
_TOP_OF_FIRST = 190.0  # of what stands below the title of the first slide
_MOST_SLIDES = 40
_MOST_SLIDES_OF_A_TABLE = 3
_MOST_CHARACTERS, _MOST_OF_THE_ANSWER = 700, 450
_MOST_LINES = 4  # of how it was measured, which stand last of what is said of the whole
_GAP = 8.0  # points between shapes
_CONTINUED = " (continued)"
_REST = "More is left out here; all of it: torchstone report --format pdf,md"


def slides(document: Document) -> list[Slide]:
    """Return the slides, 40 at most; the last one then says that there is more."""
    parts = list(_opened(document.parts))
    answers = list(takewhile(lambda part: isinstance(part, Text) and part.role == Role.HEADLINE, parts))
    about = list(takewhile(lambda part: isinstance(part, Text) and part.role == Role.BODY, parts[len(answers) :]))
    flow = _Flow(line_of(document.title) or "Report", _how(about))
    for part in (*answers, *about):
        flow.put(part)
    loose: list[Part] = []
    for part in parts[len(answers) + len(about) :]:
        if isinstance(part, Section) and not part.folded:
            flow.topic(_title_of(loose, document), loose)
            loose = []
            flow.topic(part.title, part.parts)
        else:
            loose.append(part)
    flow.topic(_title_of(loose, document), loose)
    return flow.ended()


def fitted_title(title: str) -> str:
    """Return the title of a slide, cut where it takes more lines than there is room for."""
    line = line_of(title)
    while lines(line, ACROSS, lambda word: 1.1 * width(word, TITLE_SIZE)) > TITLE_LINES:
        line = shortened(line, min(len(line) - 1, int(0.9 * len(line)) + 1))
    return line


class _Flow:
    """Fills one slide after the other from its top."""

    def __init__(self, title: str, how: tuple[str, ...]) -> None:
        self._how = how
        self._done: list[Slide] = []
        self._left_out = False
        self._begin(title, _TOP_OF_FIRST)

    @property
    def full(self) -> bool:
        """Whether no further slide may be begun."""
        return len(self._done) >= _MOST_SLIDES - 2  # the one being filled, and the one that says that there is more

    def topic(self, title: str, parts: Sequence[Part]) -> None:
        """Put parts onto slides of their own."""
        if not parts:
            return
        if self.full:
            self._left_out = True
            return
        self._close()
        self._begin(title, TOP)
        for part in parts:
            if self._topic != title:  # a section in this one had slides of its own
                if self.full:
                    self._left_out = True
                    return
                self._close()
                self._begin(title, TOP)
            self.put(part)

    def put(self, part: Part) -> None:
        """Put a part below the last one, or onto the next slide."""
        match part:
            case Text():
                self._text(part)
            case Command():
                self._words(part.words, Style.COMMAND)
            case Facts():
                self._table(of_facts(part))
            case Table():
                self._table(part)
            case Chart():
                self._chart(part)
            case Ratios():
                self._ratios(part)
            case Doubt():
                label = "Note" if part.severity == Severity.INFO else str(part.severity).capitalize()
                self._words(f"{part.subject}: {part.message}. {part.advice}", Style.FINDING, f"{label} ")
            case Section():
                self._section(part)
            case _:
                assert_never(part)

    def ended(self) -> list[Slide]:
        """Return the slides."""
        self._close()
        if self._left_out:
            words = Words(Box(MARGIN, TOP, ACROSS, height(_REST, Style.BODY)), _REST, Style.BODY)
            self._done.append(Slide("More", (words,), ()))
        return self._done

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────────────

    def _text(self, part: Text) -> None:
        match part.role:
            case Role.HEADLINE:
                self._words(part.text, Style.ANSWER)
            case Role.BODY:
                self._words(part.text, Style.BODY)
            case Role.NOTE:
                self._words(part.text, Style.FINDING, "Note ")
            case Role.DETAIL:
                self._notes.append(line_of(part.text))

    def _section(self, part: Section) -> None:
        if part.folded:
            self._words(f"{part.title}: {part.how}", Style.SMALL)
            return
        if part.title and any(isinstance(one, Section) and one.title for one in part.parts):
            self.topic(part.title, part.parts)
            return
        if part.title:
            self._words(part.title, Style.SUBTITLE, below=3 * height("", Style.BODY))
        for one in part.parts:
            self.put(one)

    def _words(self, text: str, style: Style, label: str = "", below: float = 0.0) -> None:
        """Put a paragraph. `below`: the room that has to be left for what it belongs to."""
        most = _MOST_OF_THE_ANSWER if style == Style.ANSWER else _MOST_CHARACTERS
        line = shortened(line_of(text), most)
        high = height(label + line, style)
        if self._fits(high + below):
            self._add(Words(Box(MARGIN, self._top, ACROSS, high), line, style, label))

    def _table(self, table: Table) -> None:
        found, left_out = banded(table)
        for rows in found:
            if not self._fits(least(rows)):
                return
            says = f"{self._title}: a table of {len(rows.rows)} rows"
            for number, part in enumerate(on_slides(rows, BOTTOM - self._top, TALL)):
                if number == _MOST_SLIDES_OF_A_TABLE:
                    left_out = max(left_out, 1)
                    break
                if number and not self._next():
                    return
                self._add(grid(part, self._top, says))
        if left_out:
            self._words("and more rows: torchstone report --format pdf,csv", Style.SMALL)

    def _chart(self, part: Chart) -> None:
        says = shortened(line_of(part.says) or line_of(part.name), _MOST_CHARACTERS)
        caption = height(says, Style.SMALL)
        pictures, left_out = parts_of(part.picture, ACROSS, TALL - caption - _GAP)
        for picture in pictures:
            if self._shapes and not self._next():
                return
            high = BOTTOM - self._top - caption - _GAP
            self._add(Image(Box(MARGIN, self._top, ACROSS, high), picture, says))
            self._add(Words(Box(MARGIN, self._top, ACROSS, caption), says, Style.SMALL))
        if left_out:
            self._words(f"{left_out:,} more panels of this picture are left out", Style.SMALL)

    def _ratios(self, part: Ratios) -> None:
        found = plots.forest_of(part)
        if found is None:
            return
        below = height(found.caption, Style.SMALL) + _GAP
        if not self._fits(plots.least(found) + below):
            return
        for number, plot in enumerate(plots.on_slides(found, BOTTOM - self._top - below, TALL - below)):
            if number and not self._next():
                return
            self._add(msgspec.structs.replace(plot, box=msgspec.structs.replace(plot.box, top=self._top)))
        self._words(found.caption, Style.SMALL)

    # ── slides ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, title: str, top: float, *, continued: bool = False) -> None:
        self._topic, self._title, self._top = title, fitted_title(f"{title}{_CONTINUED if continued else ''}"), top
        self._shapes: list[Shape] = []
        self._notes: list[str] = []

    def _close(self) -> None:
        if self._shapes or self._notes or not self._done:
            notes = (*self._how, *self._notes)
            self._done.append(Slide(self._title, tuple(self._shapes), notes, first=not self._done))

    def _next(self) -> bool:
        """Begin a slide that continues this one. False, and nothing is begun, where there may be none."""
        if self.full:
            self._left_out = True
            return False
        self._close()
        self._begin(self._topic, TOP, continued=True)
        return True

    def _fits(self, high: float) -> bool:
        """Make room of a height, on the next slide if need be. False where there may be none."""
        return self._top + high <= BOTTOM or not self._shapes or self._next()

    def _add(self, shape: Shape) -> None:
        self._shapes.append(shape)
        self._top = shape.box.top + shape.box.height + _GAP


def _opened(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, those of sections without a title as well."""
    for part in parts:
        if isinstance(part, Section) and not part.title and not part.folded:
            yield from _opened(part.parts)
        else:
            yield part


def _how(about: Sequence[Part]) -> tuple[str, ...]:
    said = tuple(line_of(part.text) for part in about[-_MOST_LINES:] if isinstance(part, Text))
    return ("How it was measured:", *said) if said else ()


def _title_of(parts: Sequence[Part], document: Document) -> str:
    if any(isinstance(part, Doubt) for part in parts):
        return "Findings"
    is_told = bool(parts) and all(isinstance(part, Text) and part.role == Role.NOTE for part in parts)
    return "Notes" if is_told else document.title
