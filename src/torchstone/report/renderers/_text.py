"""Text in the cells of a terminal, of which a wide character takes two and a combining one none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchstone.core.units import plain

# First and last of the blocks in which every character takes one cell: Latin, dashes and dots, arrows and signs, boxes.
_SINGLE = (("\x20", "\u02ff"), ("\u2010", "\u2027"), ("\u2190", "\u22ff"), ("\u2500", "\u25a0"), ("\ufffd", "\ufffd"))
_NARROWEST = 8  # cells that a line has beside its indent, however narrow the terminal is
_WORDS = re.compile(r" +(?!%)")  # a number and its percent sign are one word


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii() or all(map(_is_single, text)):
        return len(text)  # rich's tables of widths take longer to load than all else
    from rich.cells import cell_len

    return cell_len(text)


def _is_single(character: str) -> bool:
    return any(first <= character <= last for first, last in _SINGLE)


def wrapped(text: object, width: int, *, first: str = "", rest: str = "", whole: bool = False) -> Iterator[str]:
    """Yield a text in lines of at most `width` cells, the first one behind `first`, the others behind `rest`.

    `whole`: a word that is wider than a line stays in one piece, as it is there to be copied; else it is cut.
    """
    shown = plain(text).strip()
    if cells(first) + cells(shown) <= width:
        yield (first + shown).rstrip()
        return
    room = max(width - max(cells(first), cells(rest)), _NARROWEST)
    line, begun = first, False
    for word in _WORDS.split(shown):
        for piece in [word] if whole or cells(word) <= room else _pieces(word, room):
            if begun and cells(line) + 1 + cells(piece) > width:
                yield line
                line, begun = rest, False
            line += f" {piece}" if begun else piece
            begun = True
    yield line


def with_what_to_type(text: str, words: str, width: int) -> Iterator[str]:
    """Yield "text: words" on one line, or where that is too narrow the words on a line of their own, in one piece."""
    line = plain(f"{text}: {words}")
    if cells(line) <= width:
        yield line
        return
    yield from wrapped(f"{text}:", width, rest="  ")
    yield f"  {plain(words)}"


def _pieces(word: str, room: int) -> Iterator[str]:
    piece = ""
    for character in word:
        if piece and cells(piece + character) > room:
            yield piece
            piece = ""
        piece += character
    yield piece
