"""Trials that other work on the machine disturbed: left out, or, where too few others remain, a doubtful figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Disturber, Trial, ended_well, is_of_busy_machine, replicates
from torchstone.core.stats.disturbance import TOLERATED_CORES, words_of
from torchstone.core.stats.readings import other_cpu_cores
from torchstone.plugins.checks._cases import many, taken
from torchstone.plugins.protocols import Check

_ADVICE = {
    Disturber.PROCESSES: "stop them, and measure again",
    Disturber.QUOTA: "use no more threads than the quota has cores (--axis threads=N), or raise it",
    Disturber.STOPPED: "find what sends SIGSTOP to it, and measure again",
}  # of the others their own checks tell


class Neighbours:
    """Fires where trials were disturbed: information where they are left out, a warning where too few others remain."""

    describes = "trials disturbed by other programs, an exhausted CPU quota or a stop signal"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding per Case that has a disturbed trial."""
        for case_id, _, trials in taken(run):
            good = replicates(ended_well(trials))
            if not any(trial.disturbance is not None for trial in good):
                yield from _unjudged(case_id, good)
                continue
            disturbed = [trial for trial in good if trial.disturbed]
            causes = _causes(disturbed)
            if not disturbed:
                continue
            seen = [trial.disturbance for trial in disturbed if trial.disturbance is not None]
            if not is_of_busy_machine(good):
                message = f"{len(disturbed)} of {len(good)} trials left out: {words_of(seen, causes[0])}"
                yield Finding("neighbours", Severity.INFO, message, "nothing to do: others were measured", case_id)
            elif (cause := next((cause for cause in causes if cause in _ADVICE), None)) is not None:
                held = f"{words_of(seen, cause)} in {len(disturbed)} of {len(good)} trials"
                message = f"{held}: this is the figure of a busy machine"
                yield Finding("neighbours", Severity.WARNING, message, _ADVICE[cause], case_id)


def _causes(disturbed: Sequence[Trial]) -> list[Disturber]:
    """Return what disturbed the trials, what disturbed most of them first."""
    found = [cause for trial in disturbed if trial.disturbance is not None for cause in trial.disturbance.causes]
    return sorted(dict.fromkeys(found), key=lambda cause: -found.count(cause))


def _unjudged(case_id: str, trials: Sequence[Trial]) -> Iterator[Finding]:
    """Yield a warning where others used more than 0.15 cores in more than a tenth of trials that are all kept."""
    used = [cores for trial in trials if (cores := other_cpu_cores(trial)) is not None]
    busy = [cores for cores in used if cores > TOLERATED_CORES]
    if many(len(busy), len(used)):
        message = f"other programs used up to {max(busy):.2g} CPU cores in {len(busy)} of {len(used)} trials"
        yield Finding("neighbours", Severity.WARNING, message, _ADVICE[Disturber.PROCESSES], case_id)


PLUGIN: Check = Neighbours()
