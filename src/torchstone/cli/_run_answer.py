"""The rate of a Case in words: report/documents/run_answer.py has it. To go with `_answer.py`."""

from __future__ import annotations

from torchstone.report.documents.run_answer import rate_words

__all__ = ["rate_words"]
