"""Advice: what was seen, what usually causes it, and what to try that is not set already."""

from __future__ import annotations

import msgspec


class Remedy(msgspec.Struct, frozen=True):
    """Advice in words. `axis`: what is tried in its place where the engine has that axis.

    `how`: how that is done in a program of one's own, which is worth telling all the more once it was measured.
    """

    text: str
    axis: str | None = None
    how: str | None = None


class Advice(msgspec.Struct, frozen=True):
    """One thing that measured values say. `remedies` leave out what the Case has already."""

    seen: str
    causes: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [self.seen]
        if self.causes:
            parts.append(f"Causes: {', '.join(self.causes)}")
        if self.remedies:
            parts.append(f"Try: {'; '.join(self.remedies)}")
        return ". ".join(parts)
