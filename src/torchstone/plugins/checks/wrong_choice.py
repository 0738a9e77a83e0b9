"""A configuration labelled the best that is not the best of its own table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.core.figures import figures
from torchstone.core.schema.case import Case
from torchstone.core.schema.claim import PREFIX
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.memory_figures import DEVICE_PEAKS
from torchstone.core.schema.run import Run
from torchstone.core.units import percent, significant
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_CALLED = (f"{PREFIX}best_throughput", f"{PREFIX}best_efficiency")
_TOLERANCE = 0.005
_TOP = 0.95  # of the highest throughput: below it, efficiency is bought with speed
_MEMORIES = (*DEVICE_PEAKS, "device_memory_used_bytes")


class WrongChoice:
    """Fires where a Case is said to have the highest throughput or efficiency, and another of its run has a higher one.

    Efficiency is items/s per GB: highest where next to no memory is used, which is nobody's best. torchstone looks for
    it among Cases within 95 % of the highest throughput.
    """

    describes = "a configuration labelled best that is not the best of its own table"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for each Case that is wrongly called the best."""
        if not any(name in trial.facts for trial in run.trials for name in _CALLED):
            return
        known = [(case_id, case, _values(figures(trials[0]).values), trials) for case_id, case, trials in sound(run)]
        for case_id, _, mine, trials in known:
            for what, called in zip(("throughput", "efficiency"), _CALLED, strict=True):
                if trials[0].facts.get(called) is not True or what not in mine:
                    continue
                rivals = [(values[what], other) for _, other, values, _ in known if what in values]
                most, best = max(rivals, key=lambda rival: rival[0])
                if mine[what] < (1.0 - _TOLERANCE) * most:
                    unit = "items/s" + "/GB" * (what == "efficiency")
                    told = f"{significant(mine[what], 4)} {unit} is labelled the best {what}, but {_size(best)} has"
                    near = f"the highest among those within {percent(_TOP)} of the highest throughput"
                    advice = f"state the rule, for example: {near}"
                    yield Finding("wrong_choice", Severity.WARNING, f"{told} {significant(most, 4)}", advice, case_id)


def _values(values: Mapping[str, float]) -> dict[str, float]:
    rate, held = values.get("throughput"), next((values[m] for m in _MEMORIES if values.get(m)), None)
    found = {} if rate is None else {"throughput": rate}
    return {**found, "efficiency": rate / (held / 1e9)} if rate is not None and held else found


def _size(case: Case) -> str:
    return f"batch_size {case.configuration.get('batch_size')}"


PLUGIN: Check = WrongChoice()
