"""The colours of a picture, which people with any kind of colour vision can tell apart, and names that fit a legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torchstone.core.charts.picture import Colours
from torchstone.core.plain_text import plain

# Okabe and Ito's palette (Color Universal Design, 2008).
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#000000")
# Colour and shape of a verdict, in the order of reading. No verdict is told by its colour alone.
VERDICTS = {
    "worse": ("#d55e00", "triangle-down"), "better": ("#0072b2", "triangle-up"), "unclear": ("#777777", "diamond"),
    "same": ("#009e73", "circle"),
}  # fmt: skip
OTHER_VERDICT = ("#333333", "square")


def colours(column: str, shown: Iterable[str], among: Sequence[str]) -> Colours:
    """Return a colour for each name of `shown`: that of its place `among` all, so that it is the same elsewhere.

    Beyond eight names colours come again. A name that is not `among` them follows behind.
    """
    order = list(dict.fromkeys((*among, *shown)))
    present = set(shown)
    names = tuple(name for name in order if name in present)
    return Colours(column, names, tuple(PALETTE[order.index(name) % len(PALETTE)] for name in names))


def short(text: str, most: int) -> str:
    """Return printable text of at most so many characters; a longer one loses its middle, as names differ at ends."""
    shown = " ".join(plain(text).split())
    if len(shown) <= most:
        return shown
    head = most // 2
    return f"{shown[:head]}…{shown[len(shown) - (most - 1 - head) :]}"


def short_names(names: Iterable[str], most: int = 40) -> Mapping[str, str]:
    """Return a short name for each; two that would be the same have a number behind."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        cut = short(name, most)
        taken = set(found.values())
        number = 2
        while cut in taken:
            cut = f"{short(name, most - 4)} ({number})"
            number += 1
        found[name] = cut
    return found
