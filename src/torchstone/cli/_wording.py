"""Settings in words: they are in report/wording.py."""

from torchstone.report.wording import point_words, scalar_word

__all__ = ["point_words", "scalar_word"]
