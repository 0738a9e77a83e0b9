"""Looks at a finished run with every check there is."""

from __future__ import annotations

from torchstone import registry
from torchstone.extend import Check
from torchstone.terms.estimate import Finding
from torchstone.terms.run import Run


def look(run: Run) -> list[Finding]:
    """Return what every check sees in a run."""
    findings: list[Finding] = []
    for name in registry.names("checks"):
        check: Check = registry.load("checks", name)
        findings += check.look(run)
    return findings
