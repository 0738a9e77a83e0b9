"""The language of what commands print and write: from a flag, the environment, or English."""

from __future__ import annotations

import argparse

from torchstone.report.translation.spoken import VARIABLE, usual


def add_language(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add --lang. `default`: argparse.SUPPRESS where another parser has the flag, and its value, already."""
    parser.add_argument(
        "--lang",
        metavar="LANGUAGE",
        default=default or usual(),
        help=f"language of results and advice: en or ko (default: ${VARIABLE}, or en); JSON is always English",
    )
