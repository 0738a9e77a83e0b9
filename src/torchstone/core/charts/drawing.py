"""Draws a chart as PNG or SVG through vl-convert, which is imported only here.

In this process, or, within `drawing_elsewhere`, in others that go on beside it: vl-convert holds the interpreter's lock
for as long as it draws.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core.charts.vega_lite import Picture, Spec, vega_lite
from torchstone.core.errors import MissingError, UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

# The shipped Korean font, for machines that have none: Spoqa Han Sans Neo, regular and bold, in its authors' own subset
# of 2,574 characters (KS X 1001 and a few), unmodified, under the SIL Open Font License 1.1 (hangul/LICENSE;
# github.com/spoqa/spoqa-han-sans, version 3.3.0).
HANGUL_REGULAR = Path(__file__).with_name("hangul") / "SpoqaHanSansNeo-Regular.ttf"
_HANGUL = re.compile("[\uac00-\ud7a3]")

_PIXELS_A_POINT = 2.0  # sharp on a dense screen
_EMPTY = b'{"data":{"values":[]},"mark":"point"}'
_KEPT, _KEPT_PNGS = 128, 32  # drawings, of a report in several formats: some 20 kB each, and 200 kB
_ID = re.compile(r'(?<=id=")(clip|gradient_)\d+(?=")|(?<="url\(#)(clip|gradient_)\d+(?=\)")')
_MOST_PROCESSES = 2  # each takes some 150 MB


# ── in another process ──────────────────────────────────────────────────────────────────────────────────────


class DrawingProcess:
    """Draws specifications in the order in which they were begun, or as they are asked for."""

    def __init__(self, pool: ProcessPoolExecutor, draw: Callable[[bytes], str]) -> None:
        self._pool, self._draw = pool, draw
        self._begun: dict[bytes, Future[str]] = {}

    def begin(self, spec: bytes) -> None:
        """Have a specification drawn meanwhile."""
        if spec not in self._begun:
            self._begun[spec] = self._pool.submit(self._draw, spec)

    def drawn(self, spec: bytes) -> str:
        """Return the drawing, once it is there. Where the process was killed, it is drawn in this one."""
        from concurrent.futures.process import BrokenProcessPool

        try:
            self.begin(spec)
            return self._begun[spec].result()
        except BrokenProcessPool:
            return self._draw(spec)


_process: DrawingProcess | None = None


@contextmanager
def drawing_process(draw: Callable[[bytes], str]) -> Iterator[DrawingProcess]:
    """Have `draw`, a function of a module, run in another process until the end of the block.

    It is a new interpreter, since a program may have threads by then, and takes no interrupt from the terminal: whoever
    started it ends it.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    count = max(1, min(_MOST_PROCESSES, (os.cpu_count() or 1) - 1))
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_uninterrupted)
    try:
        yield DrawingProcess(pool, draw)
    finally:
        pool.shutdown(cancel_futures=True)


def _uninterrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def drawing_elsewhere() -> Iterator[None]:
    """Draw in another process until the end of the block, which `begin` gives something to do before it is asked for.

    Without vl-convert there is none.
    """
    global _process
    try:
        import_vl_convert()
    except MissingError:  # said by whoever needs a picture
        yield
        return
    with drawing_process(svg_text) as _process:
        _process.begin(_EMPTY)  # it starts, and loads what it needs, while there is nothing to draw yet
        try:
            yield
        finally:
            _process = None


def begin(spec: Spec) -> None:
    """Have a Vega-Lite specification drawn meanwhile, where another process draws."""
    if _process is not None:
        _process.begin(msgspec.json.encode(spec))


# ── drawings ────────────────────────────────────────────────────────────────────────────────────────────────


def import_vl_convert() -> Any:
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
    import_vl_convert()  # what was drawn before does not hide that it is missing
    return _drawn(msgspec.json.encode(spec))


@lru_cache(maxsize=_KEPT)
def _drawn(spec: bytes) -> str:
    """Return the SVG of a specification as JSON: 50 ms and more for a panel, so that each is drawn once."""
    drawn = svg_text(spec) if _process is None else _process.drawn(spec)
    ids: dict[str, str] = {}  # Vega counts on from the pictures that were drawn before
    return _ID.sub(lambda found: ids.setdefault(found[0], f"{found[1] or found[2]}{len(ids)}"), drawn)


def svg_text(spec: bytes) -> str:
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
    if _HANGUL.search(text):
        _with_hangul()
    return import_vl_convert()


@cache
def _with_hangul() -> None:
    import_vl_convert().register_font_directory(str(HANGUL_REGULAR.parent))


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
