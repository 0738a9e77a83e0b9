"""What is said of hardware where no two devices can be compared: who ran what, what is in the way, what to type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from torchstone.analysis.recommend.candidates import Entered, doubted
from torchstone.analysis.recommend.suggested_command import TRIALS, Vary, run_command
from torchstone.storage.measured import Measured


class Tried(msgspec.Struct, frozen=True):
    """Of one model: all that ran, what may be recommended, and what can be judged. `why_not`: lines on what cannot."""

    ran: Sequence[Entered]
    allowed: Sequence[Entered]
    judged: Sequence[Entered]
    why_not: Sequence[str]


class Undecided(msgspec.Struct, frozen=True):
    """Of the model that most devices ran: those devices, those that can be judged, and what stands in the way."""

    ran: tuple[str, ...]
    judged: tuple[str, ...]
    left_out: tuple[str, ...]
    cautions: tuple[str, ...]
    to_type: str | None


def undecided(tried: Sequence[Tried], learned: Callable[[Measured], Vary]) -> Undecided:
    """Return it. `tried`: one a model, each with an entrant that ran; of equals the last speaks.

    `learned`: the learning rate to type, where losses say which.
    """
    one = max(reversed(tried), key=lambda one: (len(_devices(one.ran)), len(one.judged) > 0))
    ran, judged = _devices(one.ran), _devices(one.judged)
    alone = len(ran) < 2
    return Undecided(
        ran, judged, (*one.why_not, *_not_allowed(one)), tuple(doubted(one.ran)),
        _elsewhere(one, learned) if alone else _more_trials(one, judged, learned),
    )  # fmt: skip


def _devices(entrants: Sequence[Entered]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.offer.device for one in entrants))


def _not_allowed(one: Tried) -> Iterator[str]:
    if count := len(one.ran) - len(one.allowed):
        yield f"{count} of {len(one.ran)} settings: they nearly fill the memory or train worse"


def _best(entrants: Sequence[Entered]) -> Entered:
    return max(entrants, key=lambda one: one.offer.value)


def _elsewhere(one: Tried, learned: Callable[[Measured], Vary]) -> str:
    """Return what to type on another machine, or for another device of this one."""
    newest = _best(one.judged or one.allowed or one.ran).readings[-1]
    return run_command(newest, learned(newest), device="auto")


def _more_trials(one: Tried, judged: Sequence[str], learned: Callable[[Measured], Vary]) -> str | None:
    """Return what to type for a device whose trials differ too much; None where that is not what is in the way."""
    among = [each for each in one.allowed if each.offer.device not in judged]
    if not among:
        return None
    best = _best(among)
    return run_command(best.readings[-1], learned(best.readings[-1]), trials=2 * max(TRIALS, len(best.logs)))
