"""Whether this Machine equals the one a run was started on, in all that affects timings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo, Host, Machine

_HOST = ("hostname", "processor", "physical_cores", "logical_cores", "memory_bytes", "governor")
_DEVICE = ("name", "memory_bytes", "uuid", "driver")
_SOFTWARE = ("python", "torch", "transformers", "timm", "torchvision")


def of_host(then: Machine, host: Host, settings: Mapping[str, str | None]) -> list[str]:
    """Return what differs of the host and its settings, each in a few words. No torch is needed to know them."""
    found = list(_changed({n: getattr(then.host, n) for n in _HOST}, {n: getattr(host, n) for n in _HOST}))
    return [*found, *_changed(then.settings, settings)]


def of_devices(then: Machine, now: Machine, placements: Sequence[Placement]) -> list[str]:
    """Return what differs of the devices in use and of the software."""
    found: list[str] = []
    for place in placements:
        pair = (_facts(m.device(place.device, place.index)) for m in (then, now))
        found += (f"{place} {words}" for words in _changed(*pair))
    versions = ({n: m.software.get(n) for n in _SOFTWARE} for m in (then, now))
    return [*found, *_changed(*versions)]


def _facts(device: DeviceInfo | None) -> Mapping[str, object]:
    return {name: getattr(device, name, None) for name in _DEVICE}


def _changed(then: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name):
            yield f"{name} was {then.get(name)}, is {now.get(name)}"
