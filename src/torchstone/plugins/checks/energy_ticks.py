"""Windows too short for the device's energy counter: why energy per item is missing."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.stats.readings import FEWEST_TICKS, energy_tick_s, spans_s, ticked_enough
from torchstone.plugins.checks._cases import longer, many, sound
from torchstone.plugins.protocols import Check


class EnergyTicks:
    """Tells where the energy counter moved fewer than 20 times in the windows of more than a tenth of the trials."""

    describes = "windows too short for the device's energy counter"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield an information a Case, with the trial that came nearest."""
        for case_id, _, trials in sound(run):
            counted = [t for t in trials if any(s.metric == "device_energy_j" for s in t.series) and spans_s(t)]
            short = [trial for trial in counted if not ticked_enough(trial)]
            if many(len(short), len(counted)):
                message = (
                    f"the device's energy counter updated at most {max(map(_ticks, short)):.0f} times in the windows "
                    f"of {len(short)} of {len(counted)} trials: below {FEWEST_TICKS} updates no energy is reported"
                )
                yield Finding("energy_ticks", Severity.INFO, message, _advice(run.head.procedure), case_id)


def _advice(procedure: Procedure) -> str:
    """Say how windows become longer: by more steps where so many were asked for, else by not ending so soon."""
    if procedure.iterations is not None or procedure.epochs is not None:
        return f"for energy per item use longer windows: {longer(procedure)}"
    return "for energy per item omit --trials, or add --target 0.1% to lengthen the windows"


def _ticks(trial: Trial) -> float:
    tick_s = energy_tick_s(trial)
    return sum(end - begin for begin, end in spans_s(trial)) / tick_s if tick_s else 0.0


PLUGIN: Check = EnergyTicks()
