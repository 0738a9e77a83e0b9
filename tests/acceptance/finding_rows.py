"""What a reading of the accelerators' code path found (findings.toml), and the page that is made of it.

    python tests/acceptance/finding_rows.py        writes docs/accelerator-findings.md anew

A finding names what became of it, the tests that hold it, and lines of what mended it: without them one of the tests
fails (mutate.py takes them away).
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "accelerator-findings.md"
_MARK = "<!-- findings.toml -->\n"


class Without(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines that stand once in a file, and what is there without them."""

    file: str
    find: str
    put: str = ""


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`device`: the steps of the run sheet that settle it on a device; empty where none is needed."""

    number: int
    found: str
    mended: str
    device: str
    tests: tuple[str, ...]
    without: tuple[Without, ...]

    @property
    def id(self) -> str:
        """What `mutate.py` calls it: A-01 is the first."""
        return f"A-{self.number:02}"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    finding: tuple[Finding, ...]


def findings() -> tuple[Finding, ...]:
    """Return them as they are ranked."""
    return msgspec.toml.decode((HERE / "findings.toml").read_bytes(), type=_File).finding


def page() -> str:
    """Return the text of the page: its own words, with the table made anew."""
    before, found, after = PAGE.read_text(encoding="utf-8").partition(_MARK)
    if not found:
        raise ValueError(f"{PAGE.name} has no line {_MARK.strip()}")
    lines = ["| | found | mended | on a device | tests |", "|---|---|---|---|---|"]
    for one in findings():
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in one.tests)
        lines.append(f"| {one.number} | {one.found} | {one.mended} | {one.device or '–'} | {tests} |")
    return before + _MARK + "".join(f"{line}\n" for line in lines) + re.sub(r"\A(\|.*\n)*", "", after)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
