"""Steps for the run sheet's own tests, on no device: each ends in one of the ways a step can end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from run_sheet.expecting import at_most, equal, near_one, noted
from run_sheet.here import NotHere
from run_sheet.step import Step


def good(here):
    here.note("answer", 42)
    here.note("device", here.device)
    here.note("isolation", here.isolation)


def off(here):
    here.note("ratio", 1.2)


def hangs(here):
    here.note("before", 1.5)
    # A child in a session of its own, as a trial is, and one of that: no process group has all three.
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    here.note("child", child.pid)
    time.sleep(600)


class OutOfMemoryError(RuntimeError):  # as torch calls its own
    pass


def device_memory(here):
    here.note("before", 2.5)
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def host_memory(here):
    here.note("before", 3.5)
    raise MemoryError


def crashes(here):
    here.note("before", 4.5)
    sys.stderr.write("the last words\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def raises(here):
    here.note("before", 5.5)
    raise ValueError("this one\nhas two lines")


def exits(here):
    here.note("before", 6.5)
    os._exit(7)


def no_answer(here):
    os._exit(0)


def no_figure(here):
    pass


def wrong_type(here):
    here.note("before", 7.5)
    here.tell("list", [1, 2])


def no_json(here):
    here.note("before", 8.5)
    with (here.folder / "answers.jsonl").open("a") as answers:
        answers.write("this is no JSON\n")


def torn(here):
    here.note("before", 9.5)
    with (here.folder / "answers.jsonl").open("a") as answers:
        answers.write('{"figure": "half')
    os.kill(os.getpid(), signal.SIGKILL)


def not_here(here):
    raise NotHere("no abacus is attached")


def waits(here):
    """Waits for a file named `go` in the folder of the results; tells a figure before and after."""
    here.note("before", 10.5)
    go = Path(here.folder).parent.parent / "go"
    while not go.exists():
        time.sleep(0.02)
    here.note("after", 1)


def forks_fail(here):
    here.note("children_work", False)


def _step(name, do, *expects, limit_s=20.0, **more):
    return Step(name, do, 0.1, limit_s, "how a step ends", f"fake_steps:{do}", expects, **more)


BEFORE = noted("before")
STEPS = (
    _step("A0", "good", equal("answer", 42), noted("device"), noted("isolation")),
    _step("A2", "hangs", BEFORE, equal("after", 1), limit_s=4.0),
    _step("A3", "not_here", equal("after", 1)),
    _step("B1", "device_memory", BEFORE),
    _step("B2", "host_memory", BEFORE),
    _step("B3", "crashes", BEFORE),
    _step("B4", "raises", BEFORE),
    _step("C1", "exits", BEFORE),
    _step("C2", "no_answer", BEFORE),
    _step("C3", "no_figure", BEFORE),
    _step("C4", "wrong_type", BEFORE),
    _step("D1", "no_json", BEFORE),
    _step("D2", "torn", BEFORE),
    _step("D3", "off", near_one("ratio", 0.01)),
    _step("D4", "good", equal("answer", 42), absent={"cuda": "of a CPU only"}),
)
GOOD = (
    _step("A0", "good", equal("answer", 42)),
    _step("B1", "waits", equal("after", 1)),
    _step("D1", "good", equal("answer", 42), not_quick="it takes minutes"),
)
FORKS = (_step("A1", "forks_fail", equal("children_work", True)), _step("A2", "good", noted("isolation")))
SLOW = (_step("A0", "waits", equal("after", 1)), _step("A1", "good", at_most("answer", 42.0)))


def here(**more):
    """A Here whose figures are kept in `told`."""
    told: dict[str, object] = {}
    return SimpleNamespace(told=told, note=told.__setitem__, **more)
