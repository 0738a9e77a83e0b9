"""Print this machine: host, devices, software, and the settings that affect timings.

torchstone machine          host, devices, software, settings
torchstone machine check    is it fit to measure on? (about a minute; --quick: half of it)
torchstone machine check --all   which of several devices is slow, and what they take from each other
torchstone machine peaks    the measured peak rates of a device (half a minute), beside its datasheet
"""

from __future__ import annotations

import argparse
from pathlib import Path

from torchstone.cli._measuring import add_busy, busy_of
from torchstone.cli._output import StatusLine, add_json, add_save, check_save, print_json, print_result, show_document
from torchstone.cli._parsing import Parser, add_language
from torchstone.cli._place import add_folder, existing, folder_of, writable
from torchstone.core.errors import ExitCode, MissingError, TorchstoneError, UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import Peaks
from torchstone.core.schema.message import PeaksMeasured, PeaksRequest
from torchstone.core.schema.trial import Status
from torchstone.core.units import share
from torchstone.execution.controller.observer import Watcher, wait_for_answer
from torchstone.plugins.machine_protocols import Launcher
from torchstone.storage import stored_peaks as cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of machine, and of its two words."""
    add_json(parser)
    words = parser.add_subparsers(dest="word", metavar="check | peaks", parser_class=Parser)
    for word, meaning, add in (
        ("check", "check whether this machine is fit to measure on", _add_check),
        ("peaks", "measure the peak rates of a device", _add_peaks),
    ):
        own = words.add_parser(word, help=meaning, description=meaning)
        # Without a default of its own: that would overrule a --json that comes before the word.
        add_json(own, default=argparse.SUPPRESS)
        add_language(own, default=argparse.SUPPRESS)
        own.add_argument("--device", default="auto", help="auto (default), cpu, cuda:1, GPU-… (a UUID), rocm, mps, xpu")
        add(own)
        add_save(own)
        add_folder(own)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="skip the A/A test, half of the time")
    parser.add_argument(
        "--all", action="store_true", help="every device alone and all at once: which is slow, what they share"
    )
    parser.add_argument("--bound", metavar="P", help="with --all: a device is slow below this share less (default 5%%)")


def _add_peaks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--again", action="store_true", help="measure again, replacing the stored peaks of this device")
    add_busy(parser)


def run(options: argparse.Namespace) -> int:
    """Print the machine, whether it is fit to measure on, or the peaks of a device."""
    if options.word == "check":
        return _check_all(options) if options.all else _check(options)
    return _peaks(options) if options.word == "peaks" else _print_machine(options)


def _print_machine(options: argparse.Namespace) -> int:
    from torchstone.core.schema.procedure import Procedure
    from torchstone.execution.controller.session import Session
    from torchstone.report.documents.machine import machine_document

    with Session(Procedure(isolation="spawn"), ()) as session:
        machine, inspection = session.inspect()
    if options.json:
        print_json({"machine": machine, "missing": inspection.missing})
    else:
        show_document(machine_document(machine, inspection.missing))
    return ExitCode.DONE


def _check(options: argparse.Namespace) -> int:
    """Examine the machine; return 0 if it is fit, 1 if it is not."""
    from torchstone.workflows.machine_check.conditions import Fitness
    from torchstone.workflows.machine_check.examination import examine

    check_save(options)
    if options.bound is not None:
        raise UsageError("--bound is of --all: torchstone machine check --all --bound 5%")
    status = StatusLine(quiet=options.json)
    folder = existing(writable(folder_of(options)))
    fitness = examine(
        options.device, folder, quick=options.quick, tell=lambda stage: status.show(f"looking at: {stage} …")
    )
    status.wipe()
    print_result(options, "machine_check", fitness)
    return ExitCode.DONE if fitness.verdict == Fitness.FIT else ExitCode.NO


def _check_all(options: argparse.Namespace) -> int:
    """Measure all devices; return 1 where one is slower than the others beyond the bound."""
    from torchstone.workflows.machine_check.examination import BOUND, examine_all

    check_save(options)
    status = StatusLine(quiet=options.json)
    bound = share(options.bound, "--bound") if options.bound is not None else BOUND
    devices = examine_all(bound=bound, tell=lambda stage: status.show(f"{stage} …"))
    status.wipe()
    print_result(options, "machine_check_all", devices)
    return ExitCode.NO if devices.slow else ExitCode.DONE


def _peaks(options: argparse.Namespace) -> int:
    """Measure the peaks that are not stored yet, and print them."""
    from torchstone.core.schema.procedure import Procedure
    from torchstone.execution import plan
    from torchstone.execution.controller.device_lock import held
    from torchstone.execution.controller.session import Session
    from torchstone.report.documents.machine import MeasuredPeaks

    busy = busy_of(options)
    folder = existing(writable(folder_of(options)))  # the disk is read where results go
    with Session(Procedure(isolation="spawn"), (), _watcher(StatusLine(quiet=options.json))) as session:
        machine, inspection = session.inspect()
        placement = plan.place(options.device, inspection, machine)
        peaks = None if options.again else machine.best(placement.device, placement.index)
        new = peaks is None
        if peaks is None:
            with held([placement], machine, "machine peaks", busy):
                peaks = current_peaks(session.launcher, placement, folder, session.watcher, PEAKS_BUDGET_S)
    device = machine.device(placement.device, placement.index)
    print_result(options, "peaks", MeasuredPeaks(peaks, device, new))
    return ExitCode.DONE


def _watcher(status: StatusLine) -> Watcher:
    """Return a Watcher that shows what is measured."""
    from torchstone.core.schema.message import Ended, Entered, Event
    from torchstone.execution.controller.observer import Silent

    class Stages(Silent):
        def heard(self, event: Event) -> None:
            if isinstance(event, Entered):
                status.show(f"measuring: {event.stage} …")
            elif isinstance(event, Ended):
                status.wipe()

    return Stages()


PEAKS_BUDGET_S = 22.0  # of measuring, but for starting processes; on accelerators what products keep up takes 12
_MOST_S = 10.0  # times the budget: then it hangs


def current_peaks(launcher: Launcher, placement: Placement, folder: Path, watcher: Watcher, budget_s: float) -> Peaks:
    """Return the Peaks of a device as they are now, and keep them. `folder`: where the disk is read.

    Raises MissingError where the device cannot be opened, TorchstoneError where the process fails or hangs.
    """
    live = launcher.start(PeaksRequest(placement, budget_s, str(folder)))
    answer, ended = wait_for_answer(live, PeaksMeasured, _MOST_S * budget_s, watcher.heard)
    if ended.outcome.status == Status.UNSUPPORTED:
        raise MissingError(f"{placement}: {ended.outcome.message}")
    if answer is None:
        raise TorchstoneError(f"the peaks of {placement} could not be measured: {ended.outcome.message}")
    cache.keep_peaks(answer.peaks, cache.folder())
    return answer.peaks
