"""Peaks of a device as a Document: the best that it really does, beside what its vendor promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from torchstone.core import datasheet, units
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.peaks import COPY, MATMUL, SUSTAINED, TRIAD, Peaks, Rate
from torchstone.report.document import Column, Document, Doubt, Facts, Part, Role, Section, Table, Text

_TITLES = {
    "memory_copy": "memory, copy", "memory_triad": "memory, triad", "kernel_launch": "an operator",
    "disk_read": "disk, read", "image_decode": "decoding", "host_to_device_pinned": "to the device, pinned",
    "host_to_device_pageable": "to the device, pageable", "device_to_host_pinned": "to the host, pinned",
    "device_to_host_pageable": "to the host, pageable",
}  # fmt: skip

Promised = Mapping[str, datasheet.DatasheetPeak]


class MeasuredPeaks(msgspec.Struct, frozen=True):
    """The peaks of a device, None where the machine does not name it. `new`: measured just now, and not read again."""

    peaks: Peaks
    device: DeviceInfo | None
    new: bool = False


def peaks_document(found: MeasuredPeaks) -> Document:
    """Return every Rate beside what is promised of it, and how each was measured."""
    return Document(f"Peaks of {found.peaks.device_name}", tuple(_parts(found.peaks, _promised(found), new=found.new)))


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


def _parts(peaks: Peaks, promised: Promised, *, new: bool) -> Iterator[Part]:
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
        yield Section("how each was measured", (Facts(tuple((_title(rate), rate.how) for rate in rates)),))


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


def _value(rate: Rate) -> float:
    return rate.value or 0.0
