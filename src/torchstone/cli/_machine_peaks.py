"""The best that a device really does, beside what its vendor promises, and what each figure is made of."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, existing, folder_of, writable
from torchstone.cli._measuring import busy_of
from torchstone.cli._table import Column, plain, show, terminal_width
from torchstone.core import datasheet, units
from torchstone.core.schema.peaks import COPY, MATMUL, SUSTAINED, TRIAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchstone.core.schema.machine import DeviceInfo, Machine
    from torchstone.core.schema.message import Event
    from torchstone.core.schema.peaks import Peaks, Rate

_TITLES = {
    "memory_copy": "memory, copy", "memory_triad": "memory, triad", "kernel_launch": "an operator",
    "disk_read": "disk, read", "image_decode": "decoding", "host_to_device_pinned": "to the device, pinned",
    "host_to_device_pageable": "to the device, pageable", "device_to_host_pinned": "to the host, pinned",
    "device_to_host_pageable": "to the host, pageable",
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine peaks."""
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:1, rocm, mps, xpu")
    parser.add_argument("--again", action="store_true", help="measure again, replacing the stored peaks of this device")
    parser.add_argument(
        "--when-busy", metavar="HOW", default=os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"),
        help="if another torchstone measures on the device: wait (default, or $TORCHSTONE_WHEN_BUSY), refuse or share",
    )  # fmt: skip
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Measure what is not kept yet, and print it."""
    from torchstone.core.schema.procedure import Procedure
    from torchstone.execution import plan
    from torchstone.execution.controller.device_lock import held
    from torchstone.execution.controller.session import Session
    from torchstone.workflows import peaks as asking

    busy = busy_of(options)
    folder = existing(writable(folder_of(options)))  # the disk is read where results go
    with Session(Procedure(isolation="spawn"), (), _Telling(quiet=options.json)) as session:
        machine, found = session.inspect()
        placement = plan.place(options.device, found, machine)
        peaks = None if options.again else machine.best(placement.device, placement.index)
        new = peaks is None
        if peaks is None:
            with held([placement], machine, "machine peaks", busy):
                peaks = asking.measured(session.launcher, placement, folder, session.watcher, asking.BUDGET_S)
    device = machine.device(placement.device, placement.index)
    promised = {} if device is None else promised_of(peaks, device)
    if options.json:
        from torchstone.cli._json import print_json

        print_json({"peaks": peaks, "datasheet": {name: peak._asdict() for name, peak in promised.items()}})
        return 0
    show_peaks(peaks, machine, promised, new=new)
    return 0


def promised_of(peaks: Peaks, device: DeviceInfo) -> dict[str, datasheet.Peak]:
    """Return the vendor's figure beside each Rate that has one."""
    found: dict[str, datasheet.Peak | None] = {}
    for rate in peaks.rates:
        if rate.name.startswith((MATMUL, SUSTAINED)):
            precision = rate.name.removeprefix(SUSTAINED).removeprefix(MATMUL)
            found[rate.name] = datasheet.dense_peak_flops(device.name, precision, device.memory_bytes)
        elif rate.name in (COPY, TRIAD):
            found[rate.name] = datasheet.bandwidth(device.name, device.memory_bytes)
    return {name: peak for name, peak in found.items() if peak is not None}


def show_peaks(peaks: Peaks, machine: Machine, promised: dict[str, datasheet.Peak], *, new: bool) -> None:
    """Print every Rate beside what is promised, and where both are from. `new`: measured just now."""
    threads = f", {peaks.threads} threads" if peaks.kind == "cpu" else ""
    busy = "" if peaks.busy_cores is None else f", others kept {peaks.busy_cores:g} cores busy"
    device = f"{peaks.kind}:{peaks.index} {peaks.device_name}"
    print(plain(f"{machine.host.hostname}: {device}, torch {peaks.torch}{threads}"))
    kept = "" if new else "; kept from then: --again measures anew"
    print(plain(f"measured {peaks.measured_utc} in {peaks.elapsed_s:.0f} s{busy}{kept}") + "\n")
    rates = [rate for rate in peaks.rates if rate.value is not None]
    columns = [
        Column("what", [_title(rate) for rate in rates], 0, left=True),
        Column("best measured", [_quantity(rate.value, rate.unit) for rate in rates], 0),
    ]
    if promised:
        columns.append(Column("datasheet\n(dense)", [_given(rate, promised) for rate in rates], 1))
        columns.append(Column("reached", [_reached(rate, promised) for rate in rates], 1))
    _show(columns, rates)
    for rate in peaks.rates:
        if rate.value is None:
            _say(f"not measured: {_title(rate)}: {rate.how}")
    if not promised:
        _say(f"no vendor's figures are known for {peaks.device_name}")
    for source in dict.fromkeys(peak.source for peak in promised.values()):
        _say(f"datasheet: {source}")
    if peaks.disturbed:
        _say("others were at work meanwhile: these are no peaks; `torchstone machine peaks --again` when it is quiet")


def _show(columns: Sequence[Column], rates: Sequence[Rate]) -> None:
    """Print the table: how each figure came about is its last column, or a list below where the terminal is narrow."""
    how = Column("how", [plain(rate.how) for rate in rates], 0, left=True)
    if sum(column.width + 2 for column in (*columns, how)) <= terminal_width():
        show([*columns, how])
        return
    show(columns)
    print()
    for rate in rates:
        _say(f"{_title(rate)}: {rate.how}")


def _say(line: str) -> None:
    print(textwrap.fill(plain(line), terminal_width(), subsequent_indent="  "))


def _title(rate: Rate) -> str:
    if rate.name.startswith(SUSTAINED):
        return f"products in {rate.name.removeprefix(SUSTAINED)}, kept up"
    if rate.name.startswith(MATMUL):
        return f"products in {rate.name.removeprefix(MATMUL)}"
    return _TITLES.get(rate.name, rate.name)


def _quantity(value: float | None, unit: str) -> str:
    if value is not None and unit == "bytes/s":
        return f"{units.significant(value / 1e9, 3)} GB/s"  # as datasheets have it
    return units.quantity(value, unit)


def _given(rate: Rate, promised: Mapping[str, datasheet.Peak]) -> str:
    peak = promised.get(rate.name)
    return "" if peak is None else _quantity(peak.value, rate.unit)


def _reached(rate: Rate, promised: Mapping[str, datasheet.Peak]) -> str:
    peak = promised.get(rate.name)
    return "" if peak is None or rate.value is None else units.quantity(rate.value / peak.value, "ratio")


class _Telling:
    """A Watcher that says on stderr what is measured now."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet or not sys.stderr.isatty()

    def begins(self, head: object) -> None:
        """There is no run."""

    def starts(self, slot: object, order: int) -> None:
        """There is no plan."""

    def finished(self, trial: object) -> None:
        """There is no trial."""

    def heard(self, event: Event) -> None:
        """Say what is measured next, and wipe it at the end."""
        from torchstone.core.schema.message import Ended, Entered

        if self._quiet:
            return
        if isinstance(event, Entered):
            print(f"\r\033[Kmeasuring: {plain(event.stage)} …", end="", file=sys.stderr, flush=True)
        elif isinstance(event, Ended):
            print("\r\033[K", end="", file=sys.stderr, flush=True)
