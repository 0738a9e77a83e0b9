"""The shipped Korean font, for what is drawn where a machine may have none: pictures, PDF.

Spoqa Han Sans Neo, regular and bold, in its authors' own subset of 2,574 characters (KS X 1001 and a few), unmodified,
under the SIL Open Font License 1.1 (hangul/LICENSE; github.com/spoqa/spoqa-han-sans, version 3.3.0).
"""

from __future__ import annotations

from pathlib import Path

FAMILY = "Spoqa Han Sans Neo"
_FOLDER = Path(__file__).with_name("hangul")
HANGUL_REGULAR, HANGUL_BOLD = _FOLDER / "SpoqaHanSansNeo-Regular.ttf", _FOLDER / "SpoqaHanSansNeo-Bold.ttf"
_SYLLABLES = ("\uac00", "\ud7a3")  # the first and the last


def has_hangul(text: str) -> bool:
    """Say whether a text has a Korean syllable."""
    first, last = _SYLLABLES
    return not text.isascii() and any(first <= character <= last for character in text)
