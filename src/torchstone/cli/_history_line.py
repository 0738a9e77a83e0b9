"""A series as one line of text: report/documents/history_line.py has it. To go with `_history.py`."""

from __future__ import annotations

from torchstone.report.documents.history_line import CHANGED, LEFT_OUT, line

__all__ = ["CHANGED", "LEFT_OUT", "line"]
