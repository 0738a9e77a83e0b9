"""A few words for each Case: report/documents/findings.py has them. To go once `check` says a Document."""

from __future__ import annotations

from torchstone.report.documents.findings import labels

__all__ = ["labels"]
