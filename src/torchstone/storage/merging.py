"""When a run that comes is one that is stored, and which of the two is kept."""

from __future__ import annotations

import msgspec

from torchstone.core.schema.codec import encode
from torchstone.core.schema.run import Head, Plan, Run, is_imported
from torchstone.core.schema.trial import Status, Trial


def same_beginning(one: Run, other: Run) -> bool:
    """Say whether one is the other cut short. Resumed, it may have taken interrupted trials again and added Cases.

    What another tool wrote is known by its digest: its file may have been renamed since.
    """
    if is_imported(one) and is_imported(other) and one.head.source and other.head.source:
        return one.head.source.sha256 == other.head.source.sha256
    if encode(_without_plan(one)) != encode(_without_plan(other)) or one.head.plan.slots != other.head.plan.slots:
        return False
    if any(encode(a) != encode(b) for a, b in zip(one.head.plan.cases, other.head.plan.cases, strict=False)):
        return False
    return all(encode(a) == encode(b) for a, b in zip(_finished(one), _finished(other), strict=False))


def is_longer(run: Run, stored: Run) -> bool:
    """Say whether a run has more than the stored one that it begins with."""
    return _length(run) > _length(stored)


def is_twin(run: Run, head: Head) -> bool:
    """Say whether another tool wrote both of the same file. A file may not say when: then a copy has another id."""
    if not is_imported(run) or run.head.source is None or head.source is None:
        return False
    return head.source.sha256 == run.head.source.sha256 and head.plan == run.head.plan


def _without_plan(run: Run) -> Head:
    """Return the head without what may grow: Cases that were added, machines of jobs that were merged later."""
    head = msgspec.structs.replace(run.head, plan=Plan((), ()))
    return msgspec.structs.replace(head, machine=head.machines[0], machines=()) if head.machines else head


def _length(run: Run) -> tuple[int, bool, int]:
    return len(_finished(run)), run.end is not None, len(run.findings)


def _finished(run: Run) -> list[Trial]:
    return [t for t in run.trials if t.outcome.status != Status.INTERRUPTED]
