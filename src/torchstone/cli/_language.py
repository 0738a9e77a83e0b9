"""The language of what commands print and write: from a flag, the environment, or English."""

from __future__ import annotations

import argparse
import os

from torchstone.report.translation.catalogue import ENGLISH


def add_language(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add --lang. `default`: argparse.SUPPRESS where another parser has the flag, and its value, already."""
    parser.add_argument(
        "--lang", metavar="LANGUAGE", default=default or os.environ.get("TORCHSTONE_LANG") or ENGLISH,
        help="language of results and advice: en or ko (default: $TORCHSTONE_LANG, or en); JSON is always English",
    )  # fmt: skip
