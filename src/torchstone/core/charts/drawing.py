"""Draws a picture as PNG or SVG through vl-convert, which is imported only here.

In this process, or, within `drawing_elsewhere`, in another one that goes on beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core.charts.hangul_font import HANGUL_REGULAR, has_hangul
from torchstone.core.charts.picture import Picture
from torchstone.core.charts.vega_lite import Spec, vega_lite
from torchstone.core.errors import MissingError, UsageError

if TYPE_CHECKING:
    from torchstone.core.charts.drawing_process import DrawingProcess

_PIXELS_A_POINT = 2.0  # sharp on a dense screen
_EMPTY = b'{"data":{"values":[]},"mark":"point"}'
_KEPT, _KEPT_PNGS = 128, 32  # drawings, of a report in several formats: some 20 kB each, and 200 kB
_ID = re.compile(r'(?<=id=")(clip|gradient_)\d+(?=")|(?<="url\(#)(clip|gradient_)\d+(?=\)")')

_process: DrawingProcess | None = None


@contextmanager
def drawing_elsewhere() -> Iterator[None]:
    """Draw in another process until the end of the block, which `begin` gives something to do before it is asked for.

    Without vl-convert there is none.
    """
    global _process
    try:
        library()
    except MissingError:  # said by whoever needs a picture
        yield
        return
    from torchstone.core.charts.drawing_process import drawing_process

    with drawing_process(text_of) as _process:
        _process.begin(_EMPTY)  # it starts, and loads what it needs, while there is nothing to draw yet
        try:
            yield
        finally:
            _process = None


def begin(spec: Spec) -> None:
    """Have a Vega-Lite specification drawn meanwhile, where another process draws."""
    if _process is not None:
        _process.begin(msgspec.json.encode(spec))


def library() -> Any:
    """Return vl-convert. Raises MissingError, saying what to install, where it is not here."""
    try:
        import vl_convert
    except ImportError as fault:
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'") from fault
    return vl_convert


def as_svg(picture: Picture) -> str:
    """Return the text of an SVG file, the same for the same picture. Raises MissingError without vl-convert."""
    return svg_of(vega_lite(picture))


def svg_of(spec: Spec) -> str:
    """Return the text of an SVG file of a Vega-Lite specification, the same for the same one."""
    library()  # what was drawn before does not hide that it is missing
    return _drawn(msgspec.json.encode(spec))


@lru_cache(maxsize=_KEPT)
def _drawn(spec: bytes) -> str:
    """Return the SVG of a specification as JSON: 50 ms and more for a panel, so that each is drawn once."""
    drawn = text_of(spec) if _process is None else _process.drawn(spec)
    ids: dict[str, str] = {}  # Vega counts on from the pictures that were drawn before
    return _ID.sub(lambda found: ids.setdefault(found[0], f"{found[1] or found[2]}{len(ids)}"), drawn)


def text_of(spec: bytes) -> str:
    """Return the SVG that vl-convert makes of a specification as JSON, drawn in this process."""
    vl_convert = _library_for(spec.decode())
    return str(vl_convert.vegalite_to_svg(msgspec.json.decode(spec)))  # as text, it is laid out in another way


def as_png(picture: Picture) -> bytes:
    """Return the bytes of a PNG file, two pixels a point. Raises MissingError without vl-convert."""
    return _pixels(as_svg(picture))


@lru_cache(maxsize=_KEPT_PNGS)
def _pixels(svg: str) -> bytes:
    return bytes(_library_for(svg).svg_to_png(svg, scale=_PIXELS_A_POINT))


def _library_for(text: str) -> Any:
    """Return vl-convert, which knows the shipped Korean font where the text needs it."""
    if has_hangul(text):
        _with_hangul()
    return library()


@cache
def _with_hangul() -> None:
    library().register_font_directory(str(HANGUL_REGULAR.parent))


def draw(picture: Picture, path: Path) -> Path:
    """Write the picture, PNG or SVG by its suffix, and return its path.

    Raises UsageError for another suffix, MissingError without vl-convert.
    """
    kind = path.suffix.lower()
    if kind not in (".png", ".svg"):
        raise UsageError(f"{path}: a picture is written as PNG or SVG; name it {path.stem or 'picture'}.png or .svg")
    data = as_svg(picture).encode() if kind == ".svg" else as_png(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
