"""Text that a record may have brought from a stranger, made safe to print."""

from __future__ import annotations


def plain(text: object) -> str:
    """Return text of one line without what could steer a terminal: each such character is U+FFFD."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))
