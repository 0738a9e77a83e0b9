"""The best that a device really does, beside what its vendor promises, and what each figure is made of."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from torchstone.cli._folder import add_folder, existing, folder_of, writable
from torchstone.cli._measuring import busy_of
from torchstone.cli._results import add_save, print_result
from torchstone.core.units import plain
from torchstone.execution.controller.observer import Silent

if TYPE_CHECKING:
    from torchstone.core.schema.message import Event


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine peaks."""
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda:1, GPU-… (a UUID), rocm, mps, xpu")
    parser.add_argument("--again", action="store_true", help="measure again, replacing the stored peaks of this device")
    parser.add_argument(
        "--when-busy",
        metavar="HOW",
        default=os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"),
        help="if another torchstone measures on the device: wait (default, or $TORCHSTONE_WHEN_BUSY), wait:10m (no "
        "longer), refuse or share",
    )
    add_save(parser)
    add_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Measure what is not kept yet, and print it."""
    from torchstone.core.schema.procedure import Procedure
    from torchstone.execution import plan
    from torchstone.execution.controller.device_lock import held
    from torchstone.execution.controller.session import Session
    from torchstone.report.documents.machine import MeasuredPeaks
    from torchstone.workflows import peak_measurement as asking

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
    print_result(options, "peaks", MeasuredPeaks(peaks, device, new))
    return 0


class _Telling(Silent):
    """A Watcher that says on stderr what is measured now."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet or not sys.stderr.isatty()

    def heard(self, event: Event) -> None:
        """Say what is measured next, and wipe it at the end."""
        from torchstone.core.schema.message import Ended, Entered

        if self._quiet:
            return
        if isinstance(event, Entered):
            print(f"\r\033[Kmeasuring: {plain(event.stage)} …", end="", file=sys.stderr, flush=True)
        elif isinstance(event, Ended):
            print("\r\033[K", end="", file=sys.stderr, flush=True)
