"""The verification of a report or a release as a Document: whether everything follows, and what does not."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath

from torchstone.report.document import Command, Document, Facts, Part, Role, Section, Text, paragraphs
from torchstone.report.verification import Verified

_MOST = 30  # faults that are shown at once


def verification_document(verified: Verified, written: Path | None = None) -> Document:
    """Return the Document of one verified file. `written`: where what its record gives was written."""
    return Document(verified.name, tuple(_parts(verified, written)))


def _parts(verified: Verified, written: Path | None) -> Iterator[Part]:
    counted = f"{_counted(len(verified.records), 'run')}, {_counted(verified.cases, 'case')}"
    again = f"{counted}, {_counted(verified.figures, 'figure')} computed again"
    faults, left = verified.faults, len(verified.uncompared)
    if not faults and left:
        part = f"{_counted(left, 'file')} {'was' if left == 1 else 'were'} not compared with it, or only in part"
        yield Text(f"{verified.name}: what was compared follows from its record ({again}); {part}.", Role.HEADLINE)
    elif not faults:
        yield Text(f"{verified.name}: every figure and verdict follows from its record ({again}).", Role.HEADLINE)
    else:
        told = f"{_counted(len(faults), 'statement')} {'does' if len(faults) == 1 else 'do'} not follow from its record"
        yield Text(f"{verified.name}: {told} ({again}).", Role.HEADLINE)
    yield from paragraphs(faults[:_MOST], Role.DETAIL)
    if rest := faults[_MOST:]:
        yield Section(f"{len(rest)} more", paragraphs(rest, Role.DETAIL), folded=True)
    yield from paragraphs(verified.notes, Role.NOTE)
    if verified.records:
        yield Facts(tuple((f"SHA-256 of the record of {run_id}", sha256) for run_id, sha256 in verified.records))
    if written is not None:
        yield Facts((("written", str(written)),))
    elif faults or left:
        yield Text("Look at what the record gives, not at this file:")
        yield Command(
            f"torchstone verify {shlex.quote(verified.name)} --output checked{PurePath(verified.name).suffix}"
        )
    else:
        yield Text(
            "A record that was changed together with everything that follows from it passes, too: compare its SHA-256 "
            "with what the author states. To measure it again:"
        )
        yield Command(f"torchstone reproduce {shlex.quote(verified.name)}")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
