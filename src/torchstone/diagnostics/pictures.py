"""Draws Vega-Lite to PNG files through vl-convert, which is imported only here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchstone.errors import MissingError

_PIXELS_A_POINT = 2.0  # sharp on a dense screen


def draw(spec: dict[str, Any], path: Path) -> Path:
    """Write the picture and return its path. Raises MissingError without vl-convert."""
    try:
        import vl_convert
    except ImportError as fault:
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'") from fault
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(vl_convert.vegalite_to_png(spec, scale=_PIXELS_A_POINT))
    return path
