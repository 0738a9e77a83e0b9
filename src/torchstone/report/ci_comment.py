"""A comment on a pull request: the Document as Markdown that mentions, links and closes nothing, in GitHub's size.

GitHub makes mentions and links of `@name`, `#12`, `GH-12` and addresses in text after it has read the Markdown, so that
a backslash before them does not help; a zero-width space inside does. Two dollar signs would enclose a formula
(https://docs.github.com/en/get-started/writing-on-github, "Writing mathematical expressions").
"""

from __future__ import annotations

import re

from torchstone.analysis.ci import Assessment
from torchstone.core.errors import UsageError
from torchstone.report.documents.ci import RowLimits, ci_document
from torchstone.report.renderers.md import markdown
from torchstone.report.translation.documents import in_spoken_language
from torchstone.report.translation.language import localized

MOST_BYTES = 60_000  # of a comment; GitHub refuses more than 65,536 characters
MOST_SUMMARY_BYTES = 1_000_000  # of a job's summary; GitHub refuses more than 1 MiB
_ROWS = (1000, 300, 100, 50, 20, 10, 5, 2)
_RESERVED = 300  # bytes for the marker and what stands around a link
_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._]|-(?!-)){0,63}", re.ASCII)
_FENCE = re.compile(r"`{3,}")
_BREAK = "&#8203;"
# In one pass: the space that is put in is an entity with a number of its own.
_LINKING = re.compile(r"@(?=[\w-])|(?:#|\bGH-)(?=\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)


def marker(key: str) -> str:
    """Return the hidden line by which a comment is found again. Raises UsageError for a key that cannot be in one."""
    if not _KEY.fullmatch(key):
        raise UsageError(f"--key {key[:80]!r}: write letters, digits, dots, underscores or single dashes, 64 at most")
    return f"<!-- torchstone comment: {key} -->"


def comment_text(assessment: Assessment, key: str = "default", link: str | None = None) -> str:
    """Return the text of the comment, at most 60,000 bytes. `link`: to all results, shown where rows are left out."""
    return f"{marker(key)}\n{_fitting(assessment, MOST_BYTES, None, link)}"


def summary_text(assessment: Assessment) -> str:
    """Return the text for the summary of a job: the same with every row."""
    return _fitting(assessment, MOST_SUMMARY_BYTES, _ROWS[0], None)


def _fitting(found: Assessment, most_bytes: int, seen: int | None, link: str | None) -> str:
    """Return the text with as many rows as there is room for. `seen`: rows that are not folded, as in Room."""
    left_bytes = most_bytes - _RESERVED - len((link or "").encode())
    rooms = [RowLimits(seen if seen is None else min(seen, rows), rows) for rows in _ROWS]
    whole = _text(found, rooms[0])
    if len(whole.encode()) <= left_bytes:
        return whole
    for room in rooms[1:]:
        text = _text(found, room)
        if len(text.encode()) <= left_bytes:
            break
    else:
        text = _text(found, RowLimits(0, 0))
    return f"{text}\n[{localized('All results')}]({link})\n" if link else text


def _text(found: Assessment, room: RowLimits) -> str:
    return inert(
        f"##{markdown(in_spoken_language(ci_document(found, room)))}"
    )  # the page's title as a heading of the third level


def inert(text: str) -> str:
    """Return Markdown of ours in which no text becomes a mention, a reference to an issue, or a link by itself."""
    lines, fence = [], ""
    for line in text.split("\n"):
        if _FENCE.fullmatch(line) and fence in ("", line):
            fence = "" if fence else line
            lines.append(line)
        else:
            lines.append(line if fence else _inert_line(line))
    return "\n".join(lines)


def _inert_line(line: str) -> str:
    # An entity of a stranger's would be read before mentions are looked for; those in a fold's title are ours already.
    plain = line if line.startswith("<details><summary>") else line.replace("&", "&amp;")
    unlinked = _LINKING.sub(lambda found: f"{found[0]}{_BREAK}", plain)
    return unlinked.replace("$", "<span>$</span>")
