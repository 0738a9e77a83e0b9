"""Bimodal step times: the median lies in one mode, which may change from run to run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.modes import Split, split
from torchstone.core.units import percent, quantity
from torchstone.plugins.checks._cases import again, alone, busy, of_their_work, sound
from torchstone.plugins.protocols import Check

_SEPARATION = 5.0  # one kind has 2.6, an even spread 3.5; noise that resembles its neighbours wanders up to 4.5
_LEAST_SHARE = 0.15  # fewer are spikes
_APART = 1.08
_STEPS = 40
_SWITCHES = 4  # steps that change level once or twice are drift
_CYCLE = 4  # a resident feed repeats 4 batches


class SeveralModes:
    """Fires where most trials have a window whose steps alternate between two levels that are cleanly apart.

    Steps whose items or tokens differ are two kinds by right, and say nothing.
    """

    describes = "bimodal step times: the median may jump between the modes"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, with the two levels; information where they follow the batches."""
        for case_id, _, every in sound(run):
            trials = alone(every)
            found = [modes for trial in trials for modes in _modes(trial)][: len(trials)]
            if len(found) > len(trials) / 2:
                seen, cyclic = found[0]
                severity = Severity.INFO if cyclic else Severity.WARNING
                message = (
                    f"step times have two modes: {percent(1.0 - seen.share)} take {quantity(seen.low, 's')}, "
                    f"{percent(seen.share)} take {quantity(seen.high, 's')}"
                )
                here = (
                    "the modes follow the batches: see what differs between them" if cyclic else
                    "check for clock changes, other users, garbage collection; use the mean, not the median"
                )  # fmt: skip
                yield Finding("several_modes", severity, message, again(run, here, "use the mean, not the median"),
                              case_id)  # fmt: skip


def _modes(trial: Trial) -> Iterator[tuple[Split, bool]]:
    """Yield the first window of two kinds, and whether the kind of a step follows its place among 4."""
    for name, times in busy(trial):
        if len(times) < _STEPS or not all(t > 0.0 for t in times) or (found := split(times)) is None:
            continue
        upper = [t > found.border for t in times]
        switches = sum(a != b for a, b in pairwise(upper))
        clean = found.separation > _SEPARATION and found.high > _APART * found.low
        if not clean or not _LEAST_SHARE <= found.share <= 1.0 - _LEAST_SHARE or switches < _SWITCHES:
            continue
        if not of_their_work(trial, name, upper):
            yield found, all(_agree(upper[place::_CYCLE]) for place in range(_CYCLE))
            return


def _agree(kinds: list[bool]) -> bool:
    return sum(kinds) in range(len(kinds) // 10 + 1) or len(kinds) - sum(kinds) in range(len(kinds) // 10 + 1)


PLUGIN: Check = SeveralModes()
