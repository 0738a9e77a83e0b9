"""A Case that runs out of memory: nothing can be compared with it, but what fits can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchstone.analysis.advice import rules
from torchstone.analysis.advice.setting import Setting
from torchstone.core import units
from torchstone.core.figures import figures
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.diagnosis import OUT_OF_MEMORY, Cause, Kind, Tried, WhatIf
from torchstone.core.schema.memory_figures import peak_memory
from torchstone.core.schema.trial import Status, Trial
from torchstone.workflows.diagnose.probes import with_settings


def out_of_memory(case: Case, trial: Trial) -> Cause:
    """Return the cause, with the rungs of the ladder as what-ifs: what costs least first."""
    rule, known = rules.FULL_MEMORY, Setting(case.configuration, trains=case.workload.task == Task.TRAIN)
    return Cause(
        OUT_OF_MEMORY, Kind.MEMORY, "it runs out of memory", 1.0, (str(trial.outcome.message or "it ran out"),),
        usual=tuple(rule.usual(known)), remedies=tuple(rule.remedies(known)), what_ifs=tuple(_rungs(case)),
    )  # fmt: skip


def _rungs(case: Case) -> Iterator[WhatIf]:
    configuration, size = case.configuration, case.configuration.get("batch_size")
    accumulation = configuration.get("grad_accumulation")
    if isinstance(size, int) and size > 1:
        halved: dict[str, Scalar] = {"batch_size": size // 2}
        if isinstance(accumulation, int):
            halved["grad_accumulation"] = 2 * accumulation
        yield WhatIf(halved, "half the batch, the same effective batch")
    if configuration.get("precision") in ("fp32", "tf32"):
        yield WhatIf({"precision": "bf16"}, "activations in half the bytes")
    if case.workload.task == Task.TRAIN and configuration.get("gradient_checkpointing") is False:
        yield WhatIf({"gradient_checkpointing": True}, "activations computed again instead of kept")
    if isinstance(size, int) and size > 8:
        yield WhatIf({"batch_size": size // 8}, "an eighth of the batch")


def what_fits(case: Case, cause: Cause, probe: Callable[[Case], Trial]) -> list[Tried]:
    """Try each rung once, and say whether it fits and how fast it is: there is no present rate to compare with."""
    return [_fits(case, cause, what_if, probe) for what_if in cause.what_ifs]


def _fits(case: Case, cause: Cause, what_if: WhatIf, probe: Callable[[Case], Trial]) -> Tried:
    trial = probe(with_settings(case, what_if.settings))
    if trial.outcome.status != Status.OK:
        return Tried(cause.id, what_if, message=f"{trial.outcome.status}: {trial.outcome.message}")
    found = figures(trial).values
    peak = peak_memory(found, case.placement.device)
    rate = units.quantity(found.get("throughput"), "items/s")
    return Tried(cause.id, what_if, memory_bytes=peak, message=f"fits: {rate} in one short trial")
