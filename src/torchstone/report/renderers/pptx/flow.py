"""Parts of a Document, put onto one slide after the other from its top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from torchstone.core.charts.picture import Picture
from torchstone.core.charts.vega_lite import Spec, vega_lite
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import Chart, Command, Doubt, Facts, Part, Role, Section, Table, Text
from torchstone.report.renderers._measuring import lines
from torchstone.report.renderers._pictures import parts as parts_of
from torchstone.report.renderers._typeface import shortened
from torchstone.report.renderers.pptx.slide import (
    ACROSS,
    BOLDER,
    BOTTOM,
    LINE_HEIGHT,
    MARGIN,
    SIZES,
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
from torchstone.report.translation.spoken import said

TITLE_SIZE, TITLE_LINES = 22.0, 2
_TOP_OF_FIRST = 190.0  # of what stands below the title of the first slide
_MOST_SLIDES = 40
_MOST_SLIDES_OF_A_TABLE = 3
_MOST_CHARACTERS, _MOST_OF_THE_ANSWER, _MOST_OF_A_TITLE = 700, 450, 300
_GAP = 8.0  # points between shapes
_SMALL_LINE = LINE_HEIGHT * SIZES[Style.SMALL] + _GAP
_ALL = "torchstone report --format pdf,md"
_REST = f"More is left out here; all of it: {_ALL}"


def fitted_title(title: str) -> str:
    """Return the title of a slide, cut where it takes more lines than there is room for."""
    line = shortened(line_of(title), _MOST_OF_A_TITLE)
    while lines(line, ACROSS, lambda word: BOLDER * width(word, TITLE_SIZE)) > TITLE_LINES:
        line = shortened(line, min(len(line) - 1, int(0.9 * len(line)) + 1))
    return line


def specifications(chart: Chart) -> Iterator[Spec]:
    """Yield what is drawn of a picture."""
    yield from map(vega_lite, _pictures(chart, _caption(chart)[1])[0])


def _caption(chart: Chart) -> tuple[str, float]:
    """Return what stands below a picture, and its height in points."""
    says = shortened(line_of(chart.says) or line_of(chart.name), _MOST_CHARACTERS)
    return says, height(says, Style.SMALL)


def _pictures(chart: Chart, caption: float) -> tuple[list[Picture], int]:
    """Return a picture of a slide each, whose title the slide has, and how many panels are left out."""
    whole = chart.picture
    if whole.title:
        whole = msgspec.structs.replace(whole, title=whole.subtitle, subtitle="")
    return parts_of(whole, ACROSS, TALL - caption - _GAP)


class Flow:
    """Fills slides. `how`: what the notes of each begin with."""

    def __init__(self, title: str, how: tuple[str, ...]) -> None:
        """Begin the first slide, with this title."""
        self._how = how
        self._done: list[Slide] = []
        self._left_out = self._is_said = False
        self._begin(title, _TOP_OF_FIRST)

    def _is_full(self) -> bool:
        """Whether no further slide may be begun."""
        return len(self._done) >= _MOST_SLIDES - 2  # the one being filled, and the one that says that there is more

    def topic(self, title: str, parts: Sequence[Part]) -> None:
        """Put parts onto slides of their own."""
        if not parts:
            return
        if self._is_full():
            self._left_out = True
            return
        self._close()
        self._begin(title, TOP)
        for part in parts:
            if self._topic != title:  # a section or a picture in this one had slides of its own
                if self._is_full():
                    self._left_out = True
                    return
                self._close()
                self._begin(title, TOP)
            self.put(part)

    def put(self, part: Part) -> None:
        """Put a part below the last one, or onto the next slide."""
        self._is_said = isinstance(part, Text) and (
            part.role == Role.BODY or (part.role == Role.DETAIL and self._is_said)
        )
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
            case Doubt():
                label = said("Note" if part.severity == Severity.INFO else str(part.severity).capitalize())
                self._words(f"{part.subject}: {part.message}. {part.advice}", Style.FINDING, f"{label} ")
            case Section():
                self._section(part)
            case _:
                assert_never(part)

    def ended(self) -> list[Slide]:
        """Return the slides."""
        self._close()
        if self._left_out:
            rest = said(_REST)
            words = Words(Box(MARGIN, TOP, ACROSS, height(rest, Style.BODY)), rest, Style.BODY)
            self._done.append(Slide(said("More"), (words,), ()))
        return self._done

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────────────

    def _text(self, part: Text) -> None:
        match part.role:
            case Role.HEADLINE:
                self._words(part.text, Style.ANSWER)
            case Role.BODY:
                self._words(part.text, Style.BODY)
            case Role.NOTE:
                self._words(part.text, Style.FINDING, f"{said('Note')} ")
            case Role.DETAIL:
                self._notes.append(line_of(part.text))
                if self._is_said:
                    self._words(part.text, Style.SMALL)

    def _section(self, part: Section) -> None:
        if part.folded:
            self._notes.append(f"{said('Not on these slides')}: {line_of(part.title)}: {_ALL}")
            return
        if part.title and any(isinstance(one, Chart) or (isinstance(one, Section) and one.title) for one in part.parts):
            self.topic(part.title, part.parts)
            return
        if part.title:
            self._words(part.title, Style.SUBTITLE, below=3 * height("", Style.BODY))
        for one in part.parts:
            self.put(one)

    def _words(self, text: str, style: Style, label: str = "", below: float = 0.0) -> None:
        """Put a paragraph. `below`: the room that has to be left for what it belongs to."""
        most = _MOST_OF_THE_ANSWER if style == Style.ANSWER else _MOST_CHARACTERS
        line = shortened(line_of(str(text)[: 2 * most]), most)
        high = height(label + line, style)
        if self._fits(high + below):
            self._add(Words(Box(MARGIN, self._top, ACROSS, high), line, style, label))

    def _table(self, table: Table) -> None:
        found, left_out = banded(table)
        most_left = 0
        for rows in found:
            is_cut = left_out > 0 or sum(rows.heights) > (_MOST_SLIDES_OF_A_TABLE - 1) * TALL
            below = _SMALL_LINE if is_cut else 0.0
            if not self._fits(least(rows) + below):
                return
            says, drawn = f"{self._title}: {said(f'a table of {len(rows.rows)} rows')}", 0
            for number, part in enumerate(on_slides(rows, BOTTOM - self._top - below, TALL - below)):
                if number == _MOST_SLIDES_OF_A_TABLE:
                    break
                if number and not self._next():
                    return
                self._add(grid(part, self._top, says))
                drawn += len(part.rows)
            most_left = max(most_left, len(rows.rows) - drawn)
        if more := left_out + most_left:
            rows_left = said(f"and {more:,} more row{'s' * (more != 1)}")
            self._words(f"{rows_left}: torchstone report --format pdf,csv", Style.SMALL)

    def _chart(self, part: Chart) -> None:
        """Put a picture onto a slide of its own, which has its title, too."""
        says, caption = _caption(part)
        pictures, left_out = _pictures(part, caption)
        for number, picture in enumerate(pictures):
            if not (self._next() if number else self._own(part.picture.title or self._topic)):
                return
            high = BOTTOM - self._top - caption - _GAP
            self._add(Image(Box(MARGIN, self._top, ACROSS, high), picture, says))
            self._add(Words(Box(MARGIN, self._top, ACROSS, caption), says, Style.SMALL))
        if left_out:
            self._notes.append(said(f"{left_out:,} more panels of this picture are left out"))

    # ── slides ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, title: str, top: float, *, continued: bool = False) -> None:
        self._topic, self._title, self._top = (
            title,
            fitted_title(f"{title} ({said('continued')})" if continued else title),
            top,
        )
        self._shapes: list[Shape] = []
        self._notes: list[str] = []
        if not continued:
            self._is_said = False  # whether details now belong to a text on the slide

    def _close(self) -> None:
        if not self._shapes and self._done:  # an empty slide is none
            last = self._done[-1]
            self._done[-1] = msgspec.structs.replace(last, notes=(*last.notes, *self._notes))
            return
        notes = (*self._how, *self._notes)
        self._done.append(Slide(self._title, tuple(self._shapes), notes, first=not self._done))

    def _next(self) -> bool:
        """Begin a slide that continues this one. False, and nothing is begun, where there may be none."""
        if self._is_full():
            self._left_out = True
            return False
        self._close()
        self._begin(self._topic, TOP, continued=True)
        return True

    def _own(self, title: str) -> bool:
        """Begin a slide of this title, which takes the notes of one on which nothing stands. False as of `_next`."""
        notes = [] if self._shapes else self._notes
        if self._shapes and not self._next():
            return False
        self._begin(title, TOP)
        self._notes = notes
        return True

    def _fits(self, high: float) -> bool:
        """Make room of a height, on the next slide if need be. False where there may be none."""
        return self._top + high <= BOTTOM or not self._shapes or self._next()

    def _add(self, shape: Shape) -> None:
        self._shapes.append(shape)
        self._top = shape.box.top + shape.box.height + _GAP
