"""Settings in words: report/documents/wording.py has them. To go with the last view that imports them from here."""

from __future__ import annotations

from torchstone.report.documents.wording import point_words, scalar_word

__all__ = ["point_words", "scalar_word"]
