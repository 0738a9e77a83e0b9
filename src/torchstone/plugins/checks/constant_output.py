"""An output that does not depend on the input, a loss that never changes: what was timed computes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_SAME = 1e-9
_STEPS = 6  # losses; a resident feed repeats 4 batches
_OWN = ("example", "loader")  # data of the user's own may be one item, repeated


class ConstantOutput:
    """Fires on fingerprints of outputs that are all one number, or the same for every batch, and on a constant loss."""

    describes = "outputs that do not depend on the input, or losses that never change"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case."""
        same = dict(_same_for_every_batch(run))
        for case_id, case, trials in sound(run):
            found = next((seen for trial in trials if (seen := _constant(case, trial)) is not None), None)
            if found is None and case_id in same:
                found = same[case_id]
            if found is not None:
                advice = "check for all-zero inputs, frozen weights or a branch that is never taken"
                yield Finding("constant_output", Severity.WARNING, found, advice, case_id)


def _constant(case: Case, trial: Trial) -> str | None:
    print_ = raw(trial, "fingerprint")
    if case.workload.task == Task.INFER and len(print_) == 2 and not case.workload.data.startswith(_OWN):
        size = case.configuration.get("batch_size")
        if print_[1] == 0.0 and isinstance(size, int) and size > 1:
            return f"the output is {print_[0]:g} for every one of {size} items"
    losses = raw(trial, "loss")
    learns = case.workload.task == Task.TRAIN and case.configuration.get("learning_rate") != 0.0
    if learns and len(losses) >= _STEPS and len(set(losses)) == 1 and math.isfinite(losses[0]):
        return f"the loss is {losses[0]:g} in all {len(losses)} steps: nothing is learned"
    return None


def _same_for_every_batch(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the Cases of which batches of other sizes, with other items, have the same mean and deviation."""
    alike: dict[tuple[object, ...], list[tuple[int, tuple[float, ...], str]]] = {}
    for case_id, case, trials in sound(run):
        size, print_ = case.configuration.get("batch_size"), raw(trials[0], "fingerprint")
        if case.workload.task != Task.INFER or not isinstance(size, int) or len(print_) != 2:
            continue
        if not case.workload.data.startswith(_OWN):
            rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k != "batch_size"))
            alike.setdefault((str(case.workload.canonical()), str(case.placement), rest), []).append(
                (size, print_, case_id)
            )
    for found in alike.values():
        first = found[0][1]
        if len(found) > 1 and all(_equal(first, print_) for _, print_, _ in found[1:]):
            sizes = ", ".join(str(size) for size, _, _ in found[:4])
            told = f"batches of {sizes} have the same output (mean {first[0]:g}): it does not depend on the input"
            yield from ((case_id, told) for _, _, case_id in found)


def _equal(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= _SAME * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True))


PLUGIN: Check = ConstantOutput()
