"""A recommendation as files in the folder analysis/: JSON for programs, Markdown for people."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from torchstone.analysis.recommend.recommend import Recommendation
from torchstone.cli._recommend import print_recommendation
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode

_WIDTH = 110


def save(told: Recommendation, folder: Path) -> tuple[Path, Path]:
    """Write both files and return their paths. Raises UsageError if they cannot be written."""
    there = folder / "analysis"
    data, page = there / "recommendation.json", there / "recommendation.md"
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_recommendation(told, _WIDTH, every=True)
    shown = text.getvalue().strip().replace("```", "'''")  # a name in a record must not end the block
    try:
        there.mkdir(parents=True, exist_ok=True)
        data.write_bytes(encode(told) + b"\n")
        page.write_text(f"# Recommended, by {told.by}\n\n```\n{shown}\n```\n", encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"cannot write into {there}: {fault.strerror}") from None
    return data, page
