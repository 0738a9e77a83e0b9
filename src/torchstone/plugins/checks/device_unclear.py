"""A device that is not named, or whose name its own memory contradicts: one card's figures under another's name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Trial
from torchstone.core.units import quantity
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_SIZE = re.compile(r"(?<![\d.])(\d{1,3}) ?gb\b", re.IGNORECASE)
_TOLERANCE = 0.2  # 80 GB are 79.1 GiB to one driver and 85.9 × 10⁹ bytes to another
_SLIPPED = 100.0  # that is another unit, and another check's
_OF_ANOTHER = ("mig", "gh200 480gb")  # the size is that of the whole card, or of the Grace CPU's memory beside it
_NAMELESS = ("", "unknown", "n/a", "none", "gpu", "cuda")


class DeviceUnclear:
    """Fires where a Case was measured on a device that the machine does not name, or that is not the trial's own.

    Without the card's name, results of two cards look like a factor of two in one (torchgeo-bench #292).
    """

    describes = "a device without a name or with the wrong one; a distributed run of one process"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a finding a Case: an error where two names contradict each other, else a warning."""
        for case_id, case, trials in sound(run):
            device = run.head.machine.device(case.placement.device, case.placement.index)
            for severity, message in (*_name(case, device), *_facts(case, device, trials)):
                advice = "record which device it was before comparing it with another"
                yield Finding("device_unclear", severity, message, advice, case_id)


def _name(case: Case, device: DeviceInfo | None) -> Iterator[tuple[Severity, str]]:
    if case.placement.device == "cpu":
        return
    if device is None or device.name.strip().lower() in _NAMELESS:
        yield Severity.WARNING, f"the name of {case.placement} is not recorded"
    elif device.memory_bytes and (size := _SIZE.search(device.name)) is not None:
        said = int(size[1]) * 2**30
        other = any(mark in device.name.lower() for mark in _OF_ANOTHER)
        if not other and _TOLERANCE < abs(device.memory_bytes / said - 1.0) < _SLIPPED:
            held = quantity(device.memory_bytes, "bytes")
            yield Severity.ERROR, f"{device.name} is recorded with {held} of memory, which contradicts its name"


def _facts(case: Case, device: DeviceInfo | None, trials: tuple[Trial, ...]) -> Iterator[tuple[Severity, str]]:
    own = {str(name) for t in trials if (name := t.facts.get("device_name")) is not None}
    named = device is not None and device.name.strip().lower() not in _NAMELESS
    if device is not None and named and any(name != device.name for name in own):
        yield Severity.ERROR, f"a trial ran on {', '.join(sorted(own))}, but the machine's device is {device.name}"
    if any(t.facts.get("distributed") is True for t in trials) and case.placement.devices == 1:
        yield Severity.WARNING, "labelled distributed with a world size of 1: nothing was communicated"


PLUGIN: Check = DeviceUnclear()
