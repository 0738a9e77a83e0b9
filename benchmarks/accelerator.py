"""The run sheet of an accelerator: what torchstone claims of itself on a device, checked on the one at hand.

Four parts, each under nine minutes, each of steps in processes of their own that are ended at their limits. What was
measured is written after each step into --output: sheet.json, and sheet.md, a table of expectation, figure and verdict.
Called again with the same --output it goes on where it was cut. Ends with 0 where every expectation holds, with 1 where
one does not or steps are left to do, with 2 for a wrong request.

    python benchmarks/accelerator.py --device cuda --part A       (no installation: PYTHONPATH is set to this tree)
    python benchmarks/accelerator.py --device cpu --quick         (what makes sense on any machine, under three minutes)
    python benchmarks/accelerator.py --device cuda --step A3 --again A3
    python benchmarks/accelerator.py --list
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from run_sheet import copying, driving, telling, wheels
from run_sheet.results import Sheet, State, Unfit, opened
from run_sheet.sheet import FORKS, PART_S, PARTS
from run_sheet.step import Step

ROOT = Path(__file__).resolve().parents[1]
DEVICES = ("cuda", "rocm", "xpu", "mps", "cpu")
_FINE, _NO, _WRONG, _INTERRUPTED = 0, 1, 2, 130


class Mistake(Exception):
    """A request that cannot be done: one line, what is wrong and what to type."""


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    table: tuple[Step, ...] = _sheet_of(options.sheet)
    if options.list:
        _list(table)
        return _FINE
    try:
        folder = _made("--output", options.output or _usual_folder(options))
        if options.copy is not None:
            options.copy = _made("--copy", options.copy)
            if options.copy == folder:
                raise Mistake(f"--copy {folder} is where the results are; name another folder")
        steps = _asked(options, table)
        paths = _paths(options, folder)
        with _alone(folder):
            sheet = opened(folder, options.device, quick=options.quick)
            try:
                return _carried_out(sheet, steps, table, paths, options)
            finally:
                if options.copy is not None:
                    copying.tables(folder, options.copy)
                    copying.steps(folder, options.copy)
    except (Mistake, Unfit, wheels.Unreadable) as mistake:
        more = "; name another --output, or the same --device and --quick" if isinstance(mistake, Unfit) else ""
        print(f"accelerator.py: {mistake}{more}", file=sys.stderr)
        return _WRONG
    except KeyboardInterrupt:
        print("accelerator.py: interrupted: the same command goes on from here", file=sys.stderr)
        return _INTERRUPTED


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=DEVICES, default="cuda")
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="one part, or several (default: all)")
    parser.add_argument("--step", action="append", metavar="ID", help="these steps alone, such as A3")
    parser.add_argument("--again", action="append", metavar="ID", default=[], help="take a step anew that was taken")
    parser.add_argument("--quick", action="store_true", help="only what is done in three minutes on any machine")
    parser.add_argument("--output", type=Path, help="folder of the results (default: outputs/accelerator-DEVICE)")
    parser.add_argument(
        "--wheels", type=Path, help="folder of wheels for what is not installed (default: wheels, here)"
    )
    parser.add_argument(
        "--within", type=float, default=PART_S, metavar="S", help="seconds a part (default %(default)g)"
    )
    parser.add_argument(
        "--copy",
        type=Path,
        metavar="DIR",
        help="copy the tables there after each step, an archive at the end",
    )
    parser.add_argument("--isolation", choices=("fork", "spawn"), help="how trials start (default: as they like)")
    parser.add_argument("--list", action="store_true", help="print the steps, and do nothing")
    parser.add_argument("--sheet", default="run_sheet.sheet:STEPS", help=argparse.SUPPRESS)  # its own tests have others
    return parser.parse_args(words)


def _sheet_of(word: str) -> tuple[Step, ...]:
    module, _, name = word.partition(":")
    steps: tuple[Step, ...] = getattr(import_module(module), name)
    return steps


def _list(table: Sequence[Step]) -> None:
    for part, what in PARTS.items():
        print(f"\n{part}  {what}")
        for step in (one for one in table if one.part == part):
            left_out = ", ".join(sorted(step.absent))
            print(f"  {step.id}  {step.what} ({step.usual_s:.0f} s, at most {step.limit_s:.0f} s): {step.proves}")
            if left_out or step.not_quick:
                print(f"      not: {', '.join(filter(None, [left_out, '--quick' * bool(step.not_quick)]))}")


def _usual_folder(options: argparse.Namespace) -> Path:
    return Path("outputs") / f"accelerator-{options.device}{'-quick' * options.quick}"


def _made(option: str, asked: Path) -> Path:
    folder = asked.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise Mistake(f"{option} {folder} cannot be made: {fault.strerror}; name another folder") from None
    return folder


def _asked(options: argparse.Namespace, table: Sequence[Step]) -> list[Step]:
    known = {step.id for step in table}
    for word in [*(options.step or ()), *options.again]:
        if word not in known:
            raise Mistake(f"no step {word}; there are {', '.join(sorted(known))}")
    if options.step:
        return [step for step in table if step.id in options.step]
    parts = options.part or sorted(PARTS)
    return [step for step in table if step.part in parts]


def _paths(options: argparse.Namespace, folder: Path) -> tuple[Path, ...]:
    """Return what goes before the environment's own modules: this tree, and what is lacking from the wheels."""
    beside: Path = options.wheels or ROOT / "wheels"
    if options.wheels is not None and not beside.is_dir():
        raise Mistake(f"--wheels {beside}: there is no such folder")
    into = folder / "site-packages"
    if beside.is_dir():
        taken = wheels.unpack(beside, into)
        print(f"from {beside}: {', '.join(taken) or 'nothing is lacking'}", flush=True)
    own = [ROOT / "src", ROOT / "benchmarks"]
    return (*own, into) if into.is_dir() else tuple(own)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder: two programs at once would measure each other, and write over each other's results."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Mistake(
                f"another run of the sheet is at work in {folder}; wait for it, or name another --output"
            ) from None
        driving.end_all(folder)  # what an earlier run left that was killed itself
        yield


# ── the steps ───────────────────────────────────────────────────────────────────────────────────────────────


def _carried_out(
    sheet: Sheet, steps: Sequence[Step], table: Sequence[Step], paths: tuple[Path, ...], options: argparse.Namespace
) -> int:
    for name in options.again:
        sheet.forget(name)
    for step in table:  # this program was killed while one was taken: what that had told by then
        if (taken := sheet.steps.get(step.id)) is not None and taken.state == State.BEGUN:
            taken.figures = driving.figures_so_far(sheet.folder, step)
    for name, value in _about(options.device).items():
        sheet.about.setdefault(name, value)
    with _told_to_stop():
        for part in sorted({step.part for step in steps}):
            ends_s = time.monotonic() + options.within
            for step in (one for one in steps if one.part == part):
                _step(sheet, step, table, paths, options, ends_s)
                sheet.write_table(table)
                if options.copy is not None:
                    copying.tables(sheet.folder, options.copy)
    path = sheet.write_table(table)
    fine = sheet.is_fine(steps)
    left = [step.id for step in steps if sheet.wants(step)]
    print(f"\n{path}")
    if left:
        print(f"left to do: {', '.join(left)}; the same command goes on from here")
    if not fine:
        bad = [step.id for step in steps if sheet.failed(step)]
        print(f"not as expected: {', '.join(bad)}" if bad else "nothing failed so far")
    return _FINE if fine else _NO


def _step(
    sheet: Sheet,
    step: Step,
    table: Sequence[Step],
    paths: tuple[Path, ...],
    options: argparse.Namespace,
    part_ends_s: float,
) -> None:
    """Take a step if it is still to be taken, makes sense here, and has time left in its part."""
    if not sheet.wants(step):
        print(f"{step.id}  taken before: {sheet.steps[step.id].state}", flush=True)
        return
    why = step.objection(sheet.device, quick=sheet.quick)
    if why is not None:
        sheet.leave_out(step, why)
        print(f"{step.id}  not here: {why}", flush=True)
        return
    left_s = part_ends_s - time.monotonic()
    if left_s < min(step.usual_s, step.limit_s):
        print(f"{step.id}  no time left in part {step.part}", flush=True)
        return
    limit_s = min(step.most_s(sheet.device), left_s)
    asked = driving.Asked(sheet.device, sheet.quick, _isolation(sheet, table, options), sheet.folder, paths)
    print(f"{step.id}  {step.what} …", flush=True)
    sheet.begin(step)
    began_s = time.monotonic()
    try:
        ended = driving.take(step, asked, limit_s, own_limit=limit_s < left_s)
    except BaseException:
        told = driving.figures_so_far(sheet.folder, step)
        sheet.end(step, State.CUT, time.monotonic() - began_s, told, "the program was stopped")
        sheet.steps[step.id].attempts -= 1  # whoever stops it is not a step that ends everything
        sheet.write()
        raise
    sheet.steps[step.id].said = ended.said
    sheet.end(step, ended.state, ended.took_s, ended.figures, ended.why)
    print(*telling.ended(step.id, sheet.steps[step.id], sheet.rows(step)), sep="\n", flush=True)


def _isolation(sheet: Sheet, table: Sequence[Step], options: argparse.Namespace) -> str | None:
    """Return how trials start: as asked, in new interpreters where forks were found not to work, else as they like."""
    if options.isolation is not None:
        return str(options.isolation)
    forks = next((step for step in table if step.id == FORKS), None)
    return "spawn" if forks is not None and sheet.failed(forks) else None


@contextmanager
def _told_to_stop() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end it as Ctrl-C does: the step is ended, and what it told is kept."""

    def stop(number: int, _frame: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _about(device: str) -> dict[str, str]:
    """Return what is known without importing anything: versions, and the card's name where its driver has a tool."""
    found = {"python": platform.python_version()}
    for name in ("torch", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # the steps will say what they lack
            continue
    if device == "cuda" and shutil.which("nvidia-smi") is not None:
        ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            told = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError) as fault:  # a tool that fails or hangs is A0's to tell, too
            print(f"nvidia-smi: {fault}", flush=True)
        else:
            if told:
                found["device_name"] = told.splitlines()[0].strip()
    return found


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
