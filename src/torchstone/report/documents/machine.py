"""A machine as a Document: host, devices, what was measured of them, software, settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.core import units
from torchstone.core.schema.machine import DeviceInfo, Host, Machine
from torchstone.core.schema.peaks import MATMUL, Peaks, Rate
from torchstone.report.document import Document, Facts, Part, Role, Section, Text

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
        yield Section("peaks (torchstone machine peaks)", (Facts(peaks),))
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
        yield Section(title, (Facts(rows),))


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
