"""What is here, in blocks: host, devices, software, settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from torchstone.cli._table import plain
from torchstone.core import units
from torchstone.core.schema.peaks import MATMUL

if TYPE_CHECKING:
    from torchstone.core.schema.machine import Machine
    from torchstone.core.schema.message import Inspected
    from torchstone.core.schema.peaks import Rate


def run(options: argparse.Namespace) -> int:
    """Print the Machine."""
    from torchstone.core.schema.procedure import Procedure
    from torchstone.execution.controller.session import Session

    with Session(Procedure(isolation="spawn"), ()) as session:
        machine, found = session.inspect()
    if options.json:
        from torchstone.cli._json import print_json

        print_json({"machine": machine, "missing": found.missing})
        return 0
    _print(machine, found)
    return 0


def _print(machine: Machine, found: Inspected) -> None:
    host = machine.host
    _block(
        "host",
        {
            "name": host.hostname,
            "platform": host.platform,
            "processor": host.processor,
            "cores": f"{host.physical_cores} ({host.logical_cores} logical)",
            "memory": units.quantity(host.memory_bytes, "bytes"),
            "governor": host.governor,
        },
    )
    for d in machine.devices:
        _block(
            f"device {d.kind}:{d.index}",
            {
                "name": d.name,
                "vendor": d.vendor,
                "torch kind": d.torch_kind,
                "memory": units.quantity(d.memory_bytes, "bytes"),
                "compute capability": d.compute_capability,
                "native precisions": ", ".join(d.precisions) or None,
                "driver": d.driver,
                "runtime": d.runtime,
                "bus": d.bus_id,
            },
        )
    for peaks in machine.peaks:
        products = [rate for rate in peaks.rates if rate.name.startswith(MATMUL) and rate.value]
        best = max(products, key=_value, default=None)
        rate = f"{units.quantity(best.value, 'FLOP/s')} in {best.name.removeprefix(MATMUL)}, " if best else ""
        when = f"{rate}{peaks.threads} threads, measured {peaks.measured_utc[:10]}"
        _block("peaks (torchstone machine peaks)", {f"{peaks.kind}:{peaks.index}": when})
    _block("not here", dict(found.missing))
    _block("software", dict(machine.software))
    _block("settings", {name: value for name, value in machine.settings.items() if value is not None})


def _value(rate: Rate) -> float:
    return rate.value or 0.0


def _block(title: str, facts: dict[str, str | None]) -> None:
    if facts:
        width = max(map(len, facts))
        print(f"\n{title}")
        for name, value in facts.items():
            print(plain(f"  {name:<{width}}  {value if value is not None else units.MISSING}"))
