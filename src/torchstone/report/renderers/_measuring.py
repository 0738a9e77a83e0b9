"""Text in lines of a given width, as it is measured before anything is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from torchstone.report.renderers._bands import Extent

Width = Callable[[str], float]
_LONGEST_WORD = 14.0  # widths of "m" that a column has at least for a word, before it may cut it
_MOST_LINES = 12  # of a cell, for which a column is made wider at first
_BREAK, _GLUE = "\N{ZERO WIDTH SPACE}", "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(?<=\d) (?=(?:%|[µA-Za-z]{1,3})(?![A-Za-z]))")
_LONGEST_NUMBER = 24  # characters of a cell that stays in one piece


def glued(text: str) -> str:
    """Return a text in which a number and its unit are one word."""
    return _UNIT.sub(_GLUE, text)


def in_one_piece(cell: str) -> str:
    """Return the cell of a column of numbers, which has no place to break unless it is a sentence."""
    return cell.replace(" ", _GLUE) if len(cell) <= _LONGEST_NUMBER else glued(cell)


def extent(title: str, cells: Sequence[str], head: Width, body: Width, padding: float) -> Extent:
    """Return how wide a column has to be, in the unit of the widths: of its title, and of its cells."""
    words = {word for cell in cells for word in cell.split(" ")}
    longest = max([*map(body, words), *map(head, title.split(" "))], default=0.0)
    widest = max(map(body, dict.fromkeys(cells)), default=0.0)
    least = min(max(longest, widest / _MOST_LINES), _LONGEST_WORD * body("m"))
    natural = max(least, widest, _in_two_lines(title, head))
    return Extent(least + padding, natural + padding)


def _in_two_lines(title: str, width: Width) -> float:
    """Return the width in which a title takes two lines at most."""
    words = title.split(" ")
    halves = ((" ".join(words[:n]), " ".join(words[n:])) for n in range(1, len(words)))
    return min((max(width(above), width(below)) for above, below in halves), default=width(title))


def breakable(text: str, room: float, width: Width) -> str:
    """Return a text in which a word that is wider than the room may be broken anywhere: at zero-width spaces."""
    if width(text) <= room:
        return text
    return " ".join(word if width(word) <= room else _BREAK.join(word) for word in text.split(" "))


def lines(text: str, room: float, width: Width) -> int:
    """Return how many lines a text takes where words go to the next line, and are cut where they are wider."""
    count, taken, blank = 1, 0.0, width(" ")
    for word in filter(None, text.split(" ")):
        wide = width(word)
        if taken and taken + blank + wide > room:
            count, taken = count + 1, 0.0
        elif taken:
            taken += blank
        if wide <= room:
            taken += wide
            continue
        for character in word:
            one = width(character)
            if taken + one > room:
                count, taken = count + 1, 0.0
            taken += one
    return count
