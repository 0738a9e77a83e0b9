"""Whether a change may be merged, as far as its speed goes: the gate of CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from torchstone.analysis.ci.changes import Change, Verdict, change_of
from torchstone.core.schema.ci import CiResult
from torchstone.core.schema.run import Run


class Conclusion(StrEnum):
    """What follows for the pull request. Only SLOWER is the fault of its code."""

    PASSED = "passed"
    ACCEPTED = "accepted"  # slower beyond the limit, with a label and a written reason
    SLOWER = "slower"  # proven beyond the limit
    FAILED = "failed"  # a benchmark could not be measured
    NO_BASELINE = "no baseline"
    UNDECIDED = "undecided"


class Acceptance(msgspec.Struct, frozen=True):
    """A label that accepts a slower change, and the reason that somebody wrote; None: there is no reason yet."""

    label: str
    reason: str | None


class Assessment(msgspec.Struct, frozen=True):
    """All that a comment has. `control`: the base against itself; None where it was not measured.

    `limit`: a change may not be slower by more (relative). `environment`: names with their values, for people.
    """

    result: CiResult
    limit: float
    changes: tuple[Change, ...]
    control: Change | None
    conclusion: Conclusion
    acceptance: Acceptance | None = None
    environment: tuple[tuple[str, str], ...] = ()

    def of(self, *verdicts: Verdict) -> list[Change]:
        """Return the changes with one of these verdicts, the slowest first."""
        found = [one for one in self.changes if one.verdict in verdicts]
        return sorted(found, key=lambda one: (-one.ratio.value if one.ratio is not None else 0.0, one.name))

    @property
    def counts(self) -> Counter[Verdict]:
        """How many there are of each verdict."""
        return Counter(one.verdict for one in self.changes)

    @property
    def with_other_results(self) -> list[Change]:
        """The benchmarks that compute something else than the base; none where the base differs from itself."""
        if self.control is not None and self.control.other is not None:
            return []
        return [one for one in self.changes if one.other is not None]

    @property
    def is_decided(self) -> bool:
        """Whether there is something to tell people: a verdict that is proven, or that one is missing."""
        if self.conclusion not in (Conclusion.PASSED, Conclusion.UNDECIDED):
            return True
        return self.is_reliable and bool(self.of(Verdict.SLOWER, Verdict.FASTER))

    @property
    def is_reliable(self) -> bool:
        """Whether the control, where there is one, was not found to differ from itself."""
        return self.control is None or self.control.verdict not in (Verdict.SLOWER, Verdict.FASTER)

    @property
    def floor(self) -> float | None:
        """How far from 1 the control's interval reaches (relative); None without one."""
        ratio = self.control.ratio if self.control is not None else None
        if ratio is None or ratio.low is None or ratio.high is None:
            return None
        return max(ratio.high, 1.0 / ratio.low) - 1.0


def assess(
    result: CiResult, runs: Mapping[str, Run], *, limit: float | None = None, per_hour: float | None = None,
    acceptance: Acceptance | None = None,
) -> Assessment:  # fmt: skip
    """Return the assessment of a result. `limit`: in place of its own; `per_hour`: the price of an hour of the machine.

    `runs`: its records, by their ids (ci_folder.read_result). A limit below the equivalence margin is taken for that:
    an equal benchmark would exceed it.
    """
    most = max(result.margin, result.limit if limit is None else limit)
    changes = tuple(change_of(one, result, runs, most, per_hour) for one in result.benchmarks)
    control = change_of(result.control, result, runs, most) if result.control is not None else None
    made = Assessment(result, most, changes, control, Conclusion.PASSED, acceptance, _environment(runs))
    return msgspec.structs.replace(made, conclusion=_conclusion(made))


def _conclusion(found: Assessment) -> Conclusion:
    verdicts = found.counts
    is_slower = found.is_reliable and any(one.beyond for one in found.changes)
    if is_slower and not (found.acceptance is not None and found.acceptance.reason):
        return Conclusion.SLOWER
    if verdicts[Verdict.FAILED]:
        return Conclusion.FAILED
    if verdicts[Verdict.NO_BASELINE] or not found.changes:
        return Conclusion.NO_BASELINE
    if is_slower:
        return Conclusion.ACCEPTED
    is_open = not found.is_reliable or any(one.open for one in found.changes)
    return Conclusion.UNDECIDED if is_open else Conclusion.PASSED


def _environment(runs: Mapping[str, Run]) -> tuple[tuple[str, str], ...]:
    """Return what the records were measured on and with: each different value once."""
    rows: dict[str, dict[str, None]] = {}
    for run in runs.values():
        machine = run.head.machine
        told = {"host": machine.host.hostname, "processor": machine.host.processor, "system": machine.host.platform}
        told |= {f"device {device.kind}:{device.index}": device.name for device in machine.devices}
        told |= {name: machine.software.get(name) for name in ("torch", "python")}
        for name, value in told.items():
            if value and len(rows) < 20 and len(rows.setdefault(name, {})) < 5:
                rows[name][value] = None
    return tuple((name, ", ".join(values)) for name, values in rows.items() if values)
