"""Runs every check on a finished run."""

from __future__ import annotations

from torchstone.core.messages import Words
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins import registry
from torchstone.plugins.protocols import Check

# What others find is mostly a symptom of what these find: their findings come first.
_CAUSES = ("neighbours", "other_processes", "steal", "swapping", "throttled")
FAILED = Words("check {check} failed: {error}", "mend or remove the plug-in")


def look(run: Run) -> list[Finding]:
    """Return what every check sees in a run."""
    findings: list[Finding] = []
    for name in sorted(registry.names("checks"), key=lambda name: name not in _CAUSES):
        try:
            check: Check = registry.load("checks", name)
            findings += check.look(run)
        except Exception as error:
            # What was measured is safe in the record; a check of a third party must not cost the run its end.
            values = {"check": name, "error": f"{type(error).__name__}: {error}"}
            findings.append(Finding(name, Severity.WARNING, "run", values, "failed", words=FAILED))
    return findings
