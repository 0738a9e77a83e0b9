"""A recommendation as files in the folder analysis/: JSON for programs, Markdown for people."""

from __future__ import annotations

from pathlib import Path

from torchstone.analysis.recommend.recommend import Recommendation
from torchstone.core.errors import UsageError
from torchstone.core.own_files import write_whole
from torchstone.core.schema.codec import encode
from torchstone.report.documents.recommendation import recommendation_document
from torchstone.report.renderers.md import markdown
from torchstone.report.translation.documents import in_spoken_language


def write_recommendation(told: Recommendation, folder: Path) -> tuple[Path, Path]:
    """Write recommendation.json and recommendation.md into `folder`/analysis and return their paths.

    Raises UsageError if they cannot be written.
    """
    there = folder / "analysis"
    data, page = there / "recommendation.json", there / "recommendation.md"
    try:
        write_whole(data, encode(told) + b"\n", folder)
        write_whole(page, markdown(in_spoken_language(recommendation_document(told))).encode(), folder)
    except OSError as fault:
        raise UsageError(f"cannot write into {there}: {fault.strerror}") from None
    return data, page
