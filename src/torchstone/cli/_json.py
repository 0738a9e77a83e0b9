"""The one JSON document that --json prints on stdout."""

from __future__ import annotations

import sys

from torchstone.core.schema.codec import encode, with_texts


def print_json(term: object) -> None:
    """Print a term as JSON, and nothing else."""
    sys.stdout.buffer.write(encode(with_texts(term)) + b"\n")
    sys.stdout.buffer.flush()
