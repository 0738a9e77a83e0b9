"""Is it within what the device can do, is it known which device it was, and was it there to the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from torchstone.core.datasheet import DatasheetPeak
from torchstone.core.figures import figures, raw
from torchstone.core.messages import Value, Values
from torchstone.core.schema.case import Case
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Reason, Stage, Status, Trial
from torchstone.plugins.checks._cases import here_or_there, once, peak_of, sound, trials_by_case
from torchstone.plugins.protocols import check

Seen = tuple[Severity, str, Mapping[str, Value]]  # how bad, which message, and its values

# ── its peak ────────────────────────────────────────────────────────────────────────────────────────────────

TOLERANCE, NEVER = 1.10, 2.5
_TWICE = (1.9, 2.1)


@check("more operations per second than the device's peak, or an MFU that uses the sparse peak")
def faster_than_peak(run: Run) -> Iterator[Finding]:
    """Fire on achieved operations above the dense peak of the datasheet, on an MFU above 1, on a sparse peak.

    It is an error where nothing can explain it.
    """
    remedies = (here_or_there(run, "missing_wait"),)
    for case_id, case, trials in sound(run):
        peak = peak_of(run, case)
        yield from once(
            Finding("faster_than_peak", severity, case_id, values, reason, remedies)
            for trial in trials
            for severity, reason, values in _excess(case, trial, peak)
        )


def _excess(case: Case, trial: Trial, peak: DatasheetPeak | None) -> Iterator[Seen]:
    claimed = trial.facts.claimed
    flops, steps = trial.values("flops", Stage.SETUP), raw(trial, "step_time_s", False)
    achieved = flops[0] * len(steps) / sum(steps) if flops and sum(steps) > 0.0 else claimed.get("achieved_flops")
    mfu = claimed.get("mfu")
    if mfu is not None and mfu > 1.0:
        yield Severity.ERROR, "mfu", {"mfu": mfu}
    if peak is None:
        return
    most = peak.value * case.placement.devices
    if achieved is not None and achieved > TOLERANCE * most:
        severity = Severity.ERROR if achieved > NEVER * most else Severity.WARNING
        yield severity, "achieved", {"achieved": achieved, "peak": most, "source": peak.source}
    said = claimed.get("peak_flops")
    if said is not None and said > TOLERANCE * peak.value:
        reason = "sparse_peak" if peak.sparse and abs(said / peak.sparse - 1.0) < 0.05 else "peak_used"
        yield Severity.WARNING, reason, {"used": said, "peak": peak.value, "source": peak.source}
    elif mfu and achieved and _TWICE[0] <= achieved / most / mfu <= _TWICE[1]:
        yield Severity.WARNING, "half", {"mfu": mfu, "achieved": achieved, "share": achieved / most}


# ── its size and its limits ─────────────────────────────────────────────────────────────────────────────────

_ALLOWANCE = 1.02  # drivers keep some of the card, and round
_MEMORIES = (
    "allocated_bytes",
    "reserved_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_memory_used_bytes",
)
# No device of 2026 comes near, and a unit that slipped passes them by a factor of 1,000.
_MOST = {"device_clock_hz": (5e9, "clock"), "device_temperature_c": (150.0, "hot")}
_LARGEST, _SMALLEST = 4 * 2**40, 64 * 2**20
_COLDEST_C = -60.0


@check("memory, utilization, clock or temperature above what the device can have")
def beyond_device(run: Run) -> Iterator[Finding]:
    """Fire where a figure is larger than its device allows; where the card itself is too large, its unit slipped."""
    for case_id, case, trials in sound(run):
        device = run.head.machine.device(case.placement.device, case.placement.index)
        each = [figures(trial).values for trial in trials]
        if _has_own_memory(case, device) and device is not None and not _is_possible(device):
            card = {"device": device.name, "memory": device.memory_bytes}
            yield Finding("beyond_device", Severity.WARNING, case_id, card, "card")
        beyond = (one for values in each for one in _beyond(case, device, values))
        yield from once(
            Finding("beyond_device", Severity.ERROR, case_id, values, reason)
            for reason, values in (*_host(run, each), *beyond)
        )


def _has_own_memory(case: Case, device: DeviceInfo | None) -> bool:
    return device is not None and device.memory_bytes is not None and case.placement.device not in ("cpu", "mps")


def _is_possible(device: DeviceInfo) -> bool:
    return _SMALLEST <= (device.memory_bytes or 0) <= _LARGEST


def _beyond(
    case: Case, device: DeviceInfo | None, values: Mapping[str, float]
) -> Iterator[tuple[str, Mapping[str, Value]]]:
    if _has_own_memory(case, device) and device is not None and _is_possible(device):
        room = (device.memory_bytes or 0) * case.placement.devices
        for name in _MEMORIES:
            if values.get(name, 0.0) > _ALLOWANCE * room:
                yield "memory", {"figure": name, "value": values[name], "device": device.name, "room": room}
    share = values.get("device_utilization", 0.0)
    if share > 1.0 + 1e-9:
        yield "utilization", {"value": share}
    for name, (most, reason) in _MOST.items():
        if values.get(name, 0.0) > most:
            yield reason, {"figure": name, "value": values[name]}
    if values.get("device_temperature_c", 0.0) < _COLDEST_C:
        yield "cold", {"figure": "device_temperature_c", "value": values["device_temperature_c"]}


def _host(run: Run, each: list[dict[str, float]]) -> Iterator[tuple[str, Mapping[str, Value]]]:
    room = run.head.machine.host.memory_bytes
    most = max((values.get("peak_rss_bytes", 0.0) for values in each), default=0.0)
    if room and most > _ALLOWANCE * room:
        yield "host", {"figure": "peak_rss_bytes", "value": most, "room": room}


# ── its name ────────────────────────────────────────────────────────────────────────────────────────────────

_SIZE = re.compile(r"(?<![\d.])(\d{1,3}) ?gb\b", re.IGNORECASE)
_SIZE_TOLERANCE = 0.2  # 80 GB are 79.1 GiB to one driver and 85.9 × 10⁹ bytes to another
_SLIPPED = 100.0  # that is another unit, and another check's
_OF_ANOTHER = ("mig", "gh200 480gb")  # the size is that of the whole card, or of the Grace CPU's memory beside it
_NAMELESS = ("", "unknown", "n/a", "none", "gpu", "cuda")


@check("a device without a name or with the wrong one; a distributed run of one process")
def device_unclear(run: Run) -> Iterator[Finding]:
    """Fire where a Case was measured on a device that the machine does not name, or that is not the trial's own.

    Without the card's name, results of two cards look like a factor of two in one (torchgeo-bench #292). It is an error
    where two names contradict each other.
    """
    for case_id, case, trials in sound(run):
        device = run.head.machine.device(case.placement.device, case.placement.index)
        for severity, reason, values in (*_name(case, device), *_names_of_trials(case, device, trials)):
            yield Finding("device_unclear", severity, case_id, values, reason)


def _name(case: Case, device: DeviceInfo | None) -> Iterator[Seen]:
    if case.placement.device == "cpu":
        return
    if device is None or device.name.strip().lower() in _NAMELESS:
        yield Severity.WARNING, "nameless", {"device": str(case.placement)}
    elif device.memory_bytes and (size := _SIZE.search(device.name)) is not None:
        said = int(size[1]) * 2**30
        other = any(mark in device.name.lower() for mark in _OF_ANOTHER)
        if not other and _SIZE_TOLERANCE < abs(device.memory_bytes / said - 1.0) < _SLIPPED:
            yield Severity.ERROR, "memory", {"device": device.name, "memory": device.memory_bytes}


def _names_of_trials(case: Case, device: DeviceInfo | None, trials: tuple[Trial, ...]) -> Iterator[Seen]:
    own = {str(name) for t in trials if (name := t.facts.device_name) is not None}
    named = device is not None and device.name.strip().lower() not in _NAMELESS
    if device is not None and named and any(name != device.name for name in own):
        yield Severity.ERROR, "another", {"names": tuple(sorted(own)), "device": device.name}
    if any(t.facts.distributed is True for t in trials) and case.placement.devices == 1:
        yield Severity.WARNING, "one_process", {}


# ── its loss ────────────────────────────────────────────────────────────────────────────────────────────────

_LOGS = {"cuda": "`dmesg | grep -i xid`", "rocm": "`dmesg | grep -i amdgpu`", "xpu": "`dmesg | grep -iE 'i915|xe '`"}


@check("a device that disappeared while a trial ran")
def device_lost(run: Run) -> Iterator[Finding]:
    """Fire on a Case with a trial whose device was lost; the advice knows whether it worked again afterwards."""
    every = list(trials_by_case(run))
    for case_id, case, trials in every:
        lost = [t for t in trials if t.outcome.reason == Reason.DEVICE_LOST]
        if lost:
            same = {other_id for other_id, other, _ in every if other.placement == case.placement}
            later = (t for t in run.trials if t.order > lost[0].order and t.case_id in same)
            back = any(t.outcome.status == Status.OK for t in later)
            values: Values = {
                "device": str(case.placement),
                "trials": len(lost),
                "of": len(trials),
                "log": _LOGS.get(case.placement.device, "`dmesg`"),
            }
            remedies = ("blocking_launches" if back else "reset_device",)
            yield Finding("device_lost", Severity.WARNING, case_id, values, remedies=remedies)
