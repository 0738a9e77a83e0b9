"""A machine as a Document: host, devices, what was measured of them, software, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from torchstone.core import datasheet, units
from torchstone.core.schema.estimate import Estimate, Severity
from torchstone.core.schema.machine import COPY, MATMUL, SUSTAINED, TRIAD, DeviceInfo, Host, Machine, Peaks, Rate
from torchstone.report.diagnosis_messages import text, texts
from torchstone.report.document import Column, Document, Doubt, Fields, Part, Role, Section, Table, Text
from torchstone.workflows.machine_check.conditions import Fitness

if TYPE_CHECKING:
    from torchstone.workflows.machine_check.examination import Examination, SideBySide

_NAMED = 4  # devices in the headline


def machine_document(machine: Machine, missing: Mapping[str, str]) -> Document:
    """Return what a machine has. `missing`: the kinds of devices that it has not, with what was looked for."""
    return Document(f"Machine {machine.host.hostname}", tuple(_sections(machine, missing)))


def _sections(machine: Machine, missing: Mapping[str, str]) -> Iterator[Part]:
    yield Text(_headline(machine), Role.HEADLINE)
    yield from _section("host", _host(machine.host))
    for device in machine.devices:
        yield from _section(f"device {device.kind}:{device.index}", _device(device))
    if machine.peaks:  # a device may have several, of other numbers of threads
        peaks = tuple((f"{one.kind}:{one.index}", _best(one)) for one in machine.peaks)
        yield Section("peaks (torchstone machine peaks)", (Fields(peaks),))
    yield from _section("not here", missing)
    yield from _section("software", machine.software)
    yield from _section("settings", {name: value for name, value in machine.settings.items() if value is not None})


def _headline(machine: Machine) -> str:
    """Return what there is to measure on, with what."""
    named = [f"{device.kind}:{device.index} {device.name}" for device in machine.devices[:_NAMED]]
    if len(machine.devices) > _NAMED:
        named.append(f"{len(machine.devices) - _NAMED} more devices")
    return f"{', '.join(named) or 'No device'}; torch {machine.software.get('torch', units.MISSING)}."


def _section(title: str, facts: Mapping[str, str | None]) -> Iterator[Part]:
    rows = tuple((name, value if value is not None else units.MISSING) for name, value in facts.items())
    if rows:
        yield Section(title, (Fields(rows),))


def _host(host: Host) -> Mapping[str, str | None]:
    return {
        "name": host.hostname,
        "platform": host.platform,
        "processor": host.processor,
        "cores": f"{host.physical_cores or units.MISSING} ({host.logical_cores or units.MISSING} logical)",
        "memory": units.quantity(host.memory_bytes, "bytes"),
        "governor": host.governor,
    }


def _device(device: DeviceInfo) -> Mapping[str, str | None]:
    return {
        "name": device.name,
        "vendor": device.vendor,
        "torch kind": device.torch_kind,
        "memory": units.quantity(device.memory_bytes, "bytes"),
        "compute capability": device.compute_capability,
        "native precisions": ", ".join(device.precisions) or None,
        "driver": device.driver,
        "runtime": device.runtime,
        "bus": device.bus_id,
        **{name: value for name, value in _place(device).items() if value is not None},
    }


def _place(device: DeviceInfo) -> Mapping[str, str | None]:
    node = None if device.numa_node is None else str(device.numa_node)
    return {"UUID": device.uuid, "NUMA node": node, "cores beside it": device.local_cpus}


def _best(peaks: Peaks) -> str:
    """Return the highest rate of products that was measured, and when."""
    products = [rate for rate in peaks.rates if rate.name.startswith(MATMUL) and rate.value]
    best = max(products, key=_value, default=None)
    rate = f"{units.quantity(best.value, 'FLOP/s')} in {best.name.removeprefix(MATMUL)}, " if best else ""
    return f"{rate}{peaks.threads} threads, measured {peaks.measured_utc[:10]}"


def _value(rate: Rate) -> float:
    return rate.value or 0.0


# ── the check of a machine ──────────────────────────────────────────────────────────────────────────────────


def machine_check_document(found: Examination) -> Document:
    """Return the verdict with the conditions behind it, then each condition, then the advice."""
    return Document("Machine check", tuple(_parts(found)))


def _parts(found: Examination) -> Iterator[Part]:
    yield Text(_verdict(found), Role.HEADLINE)
    if found.settled_in_a_minute is not None:
        least = units.quantity(found.settled_in_a_minute, "ratio")
        yield Text(f"one minute of `torchstone ab` detects a difference of {least} with a power of 95 %")
    yield Fields(tuple((c.name, f"{c.fitness}: {texts(c.seen, '; ')}") for c in found.conditions))
    advised = tuple((c.name, text(c.advice)) for c in found.conditions if c.advice is not None)
    if advised:
        yield Section("what to do", (Fields(advised),))


def _verdict(found: Examination) -> str:
    behind = [c.name for c in found.conditions if c.fitness == found.verdict] if found.verdict != Fitness.FIT else []
    return f"This machine is {found.verdict}{': ' if behind else ''}{', '.join(behind)}."


# ── all devices side by side ────────────────────────────────────────────────────────────────────────────────


_MOST_ROWS = 48


def machine_all_document(found: SideBySide) -> Document:
    """Return the verdict, a table of every device at each kind of work, and the rule."""
    return Document("Machine check of all devices", tuple(_all_parts(found)))


def _all_parts(found: SideBySide) -> Iterator[Part]:
    yield Text(_device_verdict(found), Role.HEADLINE)
    rows = found.rows
    if not rows:
        return
    columns = [
        Column("device", tuple(row.device for row in rows), left=True),
        Column("work", tuple(row.work for row in rows), left=True),
        Column("alone", tuple(units.quantity(row.alone.value, row.unit) for row in rows), 2),
    ]
    if len(found.devices) > 1:
        columns += [
            Column("of the others, alone", tuple(_ratio(row.of_median_alone) for row in rows), 1),
            Column("of the others, all at once", tuple(_ratio(row.of_median_together) for row in rows), 1),
            Column("all at once ÷ alone", tuple(_ratio(row.kept) for row in rows)),
            Column("slow", tuple(", ".join(row.slow) for row in rows), left=True),
        ]
    yield Table(tuple(columns), most=_MOST_ROWS)
    yield Text(
        f"{found.rounds} rounds, each device alone and all at once, in random order; 95 % confidence intervals. A slow "
        f"device is below {units.percent(1.0 - found.bound)} of the median of all (of two: of the other), with its "
        "whole interval, and of four or more an outlier, too (modified z-score below -3.5)."
    )


def _device_verdict(found: SideBySide) -> str:
    if len(found.devices) < 2:
        return f"There is only one device here, {', '.join(found.devices)}: nothing beside it to compare with."
    slow = list(dict.fromkeys(row.device for row in found.slow))
    worst = min(found.rows, key=lambda row: row.kept.value)
    kept = f"all at once {worst.device} keeps {_ratio(worst.kept)} of its {worst.work} alone, the least of all"
    which, count = found.what, len(found.devices)
    if not slow:
        bound = units.percent(found.bound)
        return f"None of the {which} ({count}) is slower than the others by more than {bound}; {kept}."
    return f"Of the {which} ({count}) slow: {', '.join(slow)}; {kept}."


def _ratio(one: Estimate) -> str:
    return units.ratio(one.value, one.low, one.high)


# ── peaks ───────────────────────────────────────────────────────────────────────────────────────────────────


_TITLES = {
    "memory_copy": "memory, copy",
    "memory_triad": "memory, triad",
    "kernel_launch": "an operator",
    "disk_read": "disk, read",
    "image_decode": "decoding",
    "host_to_device_pinned": "to the device, pinned",
    "host_to_device_pageable": "to the device, pageable",
    "device_to_host_pinned": "to the host, pinned",
    "device_to_host_pageable": "to the host, pageable",
}

Promised = Mapping[str, datasheet.DatasheetPeak]


class MeasuredPeaks(msgspec.Struct, frozen=True):
    """The peaks of a device, None where the machine does not name it. `new`: measured just now, and not read again."""

    peaks: Peaks
    device: DeviceInfo | None
    new: bool = False


def peaks_document(found: MeasuredPeaks) -> Document:
    """Return every Rate beside what is promised of it, and how each was measured."""
    return Document(
        f"Peaks of {found.peaks.device_name}", tuple(_peak_parts(found.peaks, _promised(found), new=found.new))
    )


def peaks_json(found: MeasuredPeaks) -> Mapping[str, Any]:
    """Return what --json prints: the peaks, and what the datasheet says of each."""
    return {"peaks": found.peaks, "datasheet": {name: peak._asdict() for name, peak in _promised(found).items()}}


def _promised(measured: MeasuredPeaks) -> Promised:
    """Return the vendor's figure of each Rate that has one."""
    found: dict[str, datasheet.DatasheetPeak | None] = {}
    device = measured.device
    if device is None:
        return {}
    for rate in measured.peaks.rates:
        if rate.name.startswith((MATMUL, SUSTAINED)):
            precision = rate.name.removeprefix(SUSTAINED).removeprefix(MATMUL)
            found[rate.name] = datasheet.dense_peak_flops(device.name, precision, device.memory_bytes)
        elif rate.name in (COPY, TRIAD):
            found[rate.name] = datasheet.bandwidth(device.name, device.memory_bytes)
    return {name: peak for name, peak in found.items() if peak is not None}


def _peak_parts(peaks: Peaks, promised: Promised, *, new: bool) -> Iterator[Part]:
    yield Text(_answer(peaks, promised), Role.HEADLINE)
    if peaks.disturbed:
        message = f"other processes kept {peaks.busy_cores or 0.0:g} cores busy meanwhile: these are no peaks"
        advice = "`torchstone machine peaks --again` when the machine is idle"
        yield Doubt(Severity.WARNING, f"{peaks.kind}:{peaks.index}", message, advice)
    yield from (Text(line) for line in _conditions(peaks, new=new))
    rates = [rate for rate in peaks.rates if rate.value is not None]
    if rates:
        yield Table(tuple(_columns(rates, promised)))
    for rate in peaks.rates:
        if rate.value is None:
            yield Text(f"not measured: {_title(rate)}: {rate.how}")
    if not promised:
        yield Text(f"no vendor's figures are known for {peaks.device_name}")
    yield from (Text(f"datasheet: {source}") for source in dict.fromkeys(peak.source for peak in promised.values()))
    if rates:
        yield Section("how each was measured", (Fields(tuple((_title(rate), rate.how) for rate in rates)),))


def _answer(peaks: Peaks, promised: Promised) -> str:
    """Return the highest rate of products and the bandwidth of the memory, each with its share of what is promised."""
    products = [rate for rate in peaks.rates if rate.name.startswith(MATMUL) and rate.value]
    told = []
    if (best := max(products, key=_value, default=None)) is not None:
        told.append(f"{_quantity(best)} in {best.name.removeprefix(MATMUL)}{_share(best, promised)}")
    if (triad := next((rate for rate in peaks.rates if rate.name == TRIAD and rate.value), None)) is not None:
        told.append(f"memory {_quantity(triad)}{_share(triad, promised)}")
    return f"Best measured: {', '.join(told)}." if told else "Neither products nor memory could be measured."


def _share(rate: Rate, promised: Promised) -> str:
    reached = _reached(rate, promised)
    return f" ({reached} of the datasheet's)" if reached else ""


def _conditions(peaks: Peaks, *, new: bool) -> Iterator[str]:
    threads = f", {peaks.threads} threads" if peaks.kind == "cpu" else ""
    device = f"{peaks.kind}:{peaks.index} {peaks.device_name}"
    yield f"{peaks.hostname}: {device}, torch {peaks.torch}{threads}"
    busy = "" if peaks.busy_cores is None else f", other processes kept {peaks.busy_cores:g} cores busy"
    kept = "" if new else "; stored: --again measures again"
    yield f"measured {peaks.measured_utc} in {peaks.elapsed_s:.0f} s{busy}{kept}"


def _columns(rates: list[Rate], promised: Promised) -> Iterator[Column]:
    yield Column("what", tuple(_title(rate) for rate in rates), left=True)
    yield Column("best measured", tuple(_quantity(rate) for rate in rates))
    if promised:
        yield Column("datasheet (dense)", tuple(_given(rate, promised) for rate in rates), 1)
        yield Column("reached", tuple(_reached(rate, promised) for rate in rates), 1)


def _title(rate: Rate) -> str:
    if rate.name.startswith(SUSTAINED):
        return f"products in {rate.name.removeprefix(SUSTAINED)}, sustained"
    if rate.name.startswith(MATMUL):
        return f"products in {rate.name.removeprefix(MATMUL)}"
    return _TITLES.get(rate.name, rate.name)


def _quantity(rate: Rate, value: float | None = None) -> str:
    """Return the Rate, or another value in its unit: bytes as datasheets have them, in GB."""
    shown = rate.value if value is None else value
    if shown is not None and rate.unit == "bytes/s":
        return f"{units.significant(shown / 1e9, 3)} GB/s"
    return units.quantity(shown, rate.unit)


def _given(rate: Rate, promised: Promised) -> str:
    peak = promised.get(rate.name)
    return "" if peak is None else _quantity(rate, peak.value)


def _reached(rate: Rate, promised: Promised) -> str:
    peak = promised.get(rate.name)
    return "" if peak is None or rate.value is None else units.quantity(rate.value / peak.value, "ratio")
