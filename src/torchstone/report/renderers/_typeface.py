"""The shipped typeface: which characters it has, and how wide each is, so that text is measured before it is drawn."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from struct import iter_unpack, unpack_from

import msgspec

from torchstone.core.plain_text import plain

FOLDER = Path(__file__).with_name("_fonts")
REGULAR, BOLD = "DejaVuSansCondensed.ttf", "DejaVuSansCondensed-Bold.ttf"
_WIDEST = 1.0  # em of a character that the typeface lacks: those of CJK and emoji are about square
_UNICODE = (3, 10)  # platform and encoding of the character map of all planes
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
    """Return one of the shipped faces."""
    return read_typeface((FOLDER / file).read_bytes())


def read_typeface(content: bytes) -> Typeface:
    """Return what a TrueType file says of its characters (OpenType specification: cmap format 12, head, hhea, hmtx).

    Raises ValueError where it has no map of all planes.
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
        if (platform, encoding) == _UNICODE and _count(content, cmap + offset) == 12:
            (groups,) = unpack_from(">I", content, cmap + offset + 12)
            for group in range(groups):
                first, last, glyph = unpack_from(">III", content, cmap + offset + 16 + 12 * group)
                yield from ((chr(code), glyph + code - first) for code in range(first, last + 1))
            return
    raise ValueError("the font has no character map of format 12")


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode()
