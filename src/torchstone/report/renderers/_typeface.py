"""The shipped typefaces: what characters they have, and how wide each is: text is measured before it is drawn."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from struct import iter_unpack, unpack_from

import msgspec

from torchstone.core.charts.hangul_font import HANGUL_BOLD, HANGUL_REGULAR
from torchstone.core.plain_text import plain

FOLDER = Path(__file__).with_name("_fonts")
REGULAR, BOLD = "DejaVuSansCondensed.ttf", "DejaVuSansCondensed-Bold.ttf"
_WIDEST = 1.0  # em of a character that the typeface lacks: those of CJK and emoji are about square
_HANGUL = {REGULAR: HANGUL_REGULAR, BOLD: HANGUL_BOLD}
_MAPS = {(3, 10): 12, (3, 1): 4}  # platform and encoding of character maps, and their format: all planes, the first
_RIGHT_TO_LEFT = ("R", "AL", "AN")  # these also reorder their neighbours


class Typeface(msgspec.Struct, frozen=True):
    """Advance widths in em by character."""

    widths: Mapping[str, float]

    def width(self, text: str, size: float) -> float:
        """Return the width of a line at a size, in the unit of the size; without kerning, which only narrows it."""
        return size * sum(self.widths.get(character, _WIDEST) for character in text)

    def lacks(self, text: str) -> bool:
        """Say whether some character of a text cannot be drawn, or is written from right to left."""
        return not (text.isascii() or all(map(self._has, text)))

    def shown(self, text: object, most: int | None = None) -> str:
        r"""Return text of one line in this typeface's characters, each other one as its code: \u6a21.

        `most`: a longer text ends after so many characters with an ellipsis.
        """
        line = shortened(plain(text), most)
        return line if not self.lacks(line) else "".join(c if self._has(c) else _code(c) for c in line)

    def _has(self, character: str) -> bool:
        return character in self.widths and unicodedata.bidirectional(character) not in _RIGHT_TO_LEFT


def shortened(line: str, most: int | None) -> str:
    """Return at most so many characters, the last one then an ellipsis."""
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


@cache
def typeface(file: str = REGULAR) -> Typeface:
    """Return one of the shipped faces, with the characters that only the Korean one has."""
    hangul = read_typeface(_HANGUL[file].read_bytes())
    return Typeface({**hangul.widths, **read_typeface((FOLDER / file).read_bytes()).widths})


def read_typeface(content: bytes) -> Typeface:
    """Return what a TrueType file says of its characters (OpenType: tables cmap, formats 4 and 12, head, hhea, hmtx).

    Raises ValueError where it has neither map.
    """
    tables = {tag: offset for tag, _, offset, _ in iter_unpack(">4sIII", content[12 : 12 + 16 * _count(content, 4)])}
    em = _count(content, tables[b"head"] + 18)
    measured = _count(content, tables[b"hhea"] + 34)
    advances = [_count(content, tables[b"hmtx"] + 4 * glyph) / em for glyph in range(measured)]
    glyphs = dict(_characters(content, tables[b"cmap"]))
    return Typeface({character: advances[min(glyph, measured - 1)] for character, glyph in glyphs.items()})


def _count(content: bytes, offset: int) -> int:
    found: int = unpack_from(">H", content, offset)[0]
    return found


def _characters(content: bytes, cmap: int) -> Iterator[tuple[str, int]]:
    """Yield each character with the number of its glyph."""
    for number in range(_count(content, cmap + 2)):
        platform, encoding, offset = unpack_from(">HHI", content, cmap + 4 + 8 * number)
        if _count(content, cmap + offset) != _MAPS.get((platform, encoding)):
            continue
        if (platform, encoding) == (3, 10):
            (groups,) = unpack_from(">I", content, cmap + offset + 12)
            for group in range(groups):
                first, last, glyph = unpack_from(">III", content, cmap + offset + 16 + 12 * group)
                yield from ((chr(code), glyph + code - first) for code in range(first, last + 1))
        else:
            yield from _of_first_plane(content, cmap + offset)
        return
    raise ValueError("the font has no character map of format 4 or 12")


def _of_first_plane(content: bytes, at: int) -> Iterator[tuple[str, int]]:
    """Yield the characters of a map of format 4: runs of codes, whose glyphs follow each other, or stand in a list."""
    runs = _count(content, at + 6) // 2
    for run in range(runs):
        last, first, shift, listed = (
            _count(content, at + 14 + 2 * run + 2 * runs * table + (2 if table else 0)) for table in range(4)
        )
        for code in range(first, min(last, 0xFFFE) + 1):
            glyph = code + shift
            if listed:  # counted from its own place in the file
                place = at + 16 + 2 * run + 6 * runs + listed + 2 * (code - first)
                glyph = _count(content, place)
                glyph += shift if glyph else 0
            if glyph & 0xFFFF:
                yield chr(code), glyph & 0xFFFF


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode()
