"""Draws Vega-Lite to PNG and SVG files through vl-convert, which is imported only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchstone.core.errors import MissingError, UsageError

_PIXELS_A_POINT = 2.0  # sharp on a dense screen


def library() -> Any:
    """Return vl-convert. Raises MissingError, saying what to install, where it is not here."""
    try:
        import vl_convert
    except ImportError as fault:
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'") from fault
    return vl_convert


def draw(spec: dict[str, Any], path: Path) -> Path:
    """Write the picture, PNG or SVG by its suffix, and return its path.

    Raises UsageError for another suffix, MissingError without vl-convert.
    """
    kind = path.suffix.lower()
    if kind not in (".png", ".svg"):
        raise UsageError(f"{path}: a picture is written as PNG or SVG; name it {path.stem or 'picture'}.png or .svg")
    vl_convert = library()
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    else:
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=_PIXELS_A_POINT))
    return path
