"""Too few steady steps in a window for its median, its noise or its drift to mean anything."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import again, budget, option, sound, windows
from torchstone.plugins.protocols import Check

ENOUGH = 5
_ENOUGH_IN_ALL = 10


class FewSamples:
    """Fires where the shortest window of a Case has fewer than 5 steps, and its trials together fewer than 10."""

    describes = "a window with fewer than 5 steady steps"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming its shortest window."""
        for case_id, case, trials in sound(run):
            sizes = [(len(times), name) for trial in trials for name, times in windows(trial)]
            if sizes and min(sizes)[0] < ENOUGH:
                steps, name = min(sizes)
                if run.head.procedure.in_rounds and sum(n for n, of in sizes if of == name) >= _ENOUGH_IN_ALL:
                    continue  # many short trials were meant: their medians say more than one long window
                message = f"only {steps} steady step{'s' * (steps != 1)} in the {name} window"
                more = "measure at least 20 steps after warm-up"
                advice = more if case.workload.is_loop else again(run, _advice(run.head.procedure), more)
                yield Finding("few_samples", Severity.WARNING, message, advice, case_id)


def _advice(procedure: Procedure) -> str:
    if procedure.epochs is not None:
        return f"train more epochs than {procedure.epochs}, or smaller batches"
    if procedure.iterations is not None:
        return f"measure again with {option(procedure, 'iterations', 20)}"
    return f"measure again with {budget(procedure, 4 * procedure.budget_s)} (it was {procedure.budget_s:g}s)"


PLUGIN: Check = FewSamples()
