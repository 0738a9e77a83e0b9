"""CITATION.cff of a release: how to cite its data (Citation File Format 1.2.0)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from torchstone.analysis.summary import RunSummary
from torchstone.core.units import plain

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def citation(summaries: Sequence[RunSummary], title: str, authors: Sequence[str]) -> bytes:
    """Return the file: title, authors, the day of the newest run, and the id of every run.

    Texts are in JSON's quotes, which YAML reads as they are.
    """
    lines = ["cff-version: 1.2.0", "message: If you use these results, please cite them.", "type: dataset"]
    lines += [f"title: {_quoted(title)}", "authors:"]
    lines += [f"  - name: {_quoted(author)}" for author in authors or ("the authors of these measurements",)]
    days = [found[0] for one in summaries if (found := _DAY.match(one.started_utc)) is not None]
    if days:
        lines.append(f"date-released: {_quoted(max(days))}")
    lines.append("identifiers:")
    for one in summaries:
        lines += ["  - type: other", f"    value: {_quoted(one.run_id)}", "    description: a run of torchstone"]
    lines += ["references:", "  - type: software", "    title: torchstone", "    authors:"]
    lines += ["      - name: The torchstone authors"]
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    return msgspec.json.encode(plain(text)).decode()
