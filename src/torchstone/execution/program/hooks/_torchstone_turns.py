"""How a program takes turns with another one.

It first waits where it is about to build something: its first module, or else its first optimizer. What comes before,
importing as a rule, is done by both sides at once; what follows would be several times slower beside the other side.
Where nothing speaks against it, the process that waits is forked for pair after pair: each of these is the program as
it was typed, from that point on. When it is warm it waits at the end of a step until its turn. Nothing but the standard
library is imported.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import random
import signal
import sys
import threading
import time
from typing import Any

_DRIVERS = ("libcuda.so", "libhsa-runtime64", "libze_loader")  # a device does not survive a fork
_INSTALLED = ("site-packages", "dist-packages")


_LONG_S = 0.1  # a step: fewer of them fill a device before a turn
_clock = time.perf_counter
_shift: Any = None  # of a fork: keeps its heap from beginning where that of another does
_files: Any = {}  # that were open before the program began


def prepare(program: Any) -> None:
    """Have the program wait before it builds anything, where it is the one that was started for it."""
    if program.plan["waits"] != os.getppid() or sys.platform != "linux":
        return
    _end_with_parent()
    program.waits = True
    _files.update(_open_files())
    atexit.register(_end_at_once, program)  # first of all, to be called last


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent ends: it may be stopped then."""
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG


def _end_at_once(program: Any) -> None:
    """End a fork whose turns are over, when all else that is called at the end of a program has been called."""
    if program.complete and _shift is not None:
        sys.stdout.flush()
        os._exit(0)


def _open_files() -> Any:
    """Return the descriptors that are open, and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one by which the folder was read
            continue
    return found


def wait_to_build(program: Any) -> None:
    """Wait until the program shall go on, and fork it as often as is asked for. An import of a library goes on."""
    if threading.current_thread() is not threading.main_thread() or _is_library_import(sys._getframe(1)):
        return
    program.waits = False
    if program.plan.get("compiler"):
        import torch._dynamo  # noqa: F401  as the first optimizer does, in a second
    program.say("waits", obstacle=_obstacle(program))
    here = os.getcwd()
    while (word := program.hear()) is not None and word["word"] == "fork":
        _fork(program, word, here)


def _is_library_import(frame: Any) -> bool:
    while frame is not None:
        is_import = frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__"
        if is_import and any(part in frame.f_code.co_filename for part in _INSTALLED):
            return True
        frame = frame.f_back
    return False


def _obstacle(program: Any) -> Any:
    """Return why nothing may be forked from this process; None: a fork is what a new process would be.

    Threads do not survive a fork, and forks share the place at which a file is read. Those of OpenBLAS end by
    themselves before a fork, so what is left after one is counted.
    """
    own = program.connection.fileno() if program.connection is not None else -1
    files = [what for number, what in _open_files().items() if number not in _files and number != own]
    if files := [what for what in files if not what.startswith("/dev/")]:
        return f"open: {files[0]}"
    with open("/proc/self/maps") as maps:
        loaded = maps.read()
    if drivers := [name for name in _DRIVERS if name in loaded]:
        return f"loaded: {drivers[0]}"
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        if children.read().split():
            return "it has started other processes"
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
        return "it handles SIGCHLD"
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "it has started threads" if len(os.listdir("/proc/self/task")) > 1 else None


def _fork(program: Any, word: Any, here: Any) -> None:
    """Fork once, and say when the child has ended; in the child return when it has taken the place of a trial."""
    global _shift
    drawn, parent = random.getstate(), os.getpid()  # a fork would be seeded anew
    program.forks = True
    pid = os.fork()
    program.forks = False
    if pid:
        program.say("forked", pid=pid)
        status = os.waitpid(pid, 0)[1]
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)  # what it left behind
        program.say("ended", code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status))
        return
    os.setsid()
    _end_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = os.open(os.path.join(word["place"], name), os.O_WRONLY)
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(here)
    random.setstate(drawn)
    _shift = bytearray(word["shift_bytes"])
    os.environ["TORCHSTONE_PROGRAM"] = os.path.join(word["place"], "hooks")
    program.connection.close()
    program.connection, program.heard, program.pid = None, b"", os.getpid()
    program.say("waits", obstacle=None)


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


def begin(program: Any) -> bool:
    """Say that the program is warm, and wait for its first turn; False: there is none."""
    program.say("ready", **_readiness(program))
    return _next_turn(program)


def _readiness(program: Any) -> Any:
    """Return what a step takes, the steps to do before those of a turn, and after how many the optimizers repeat.

    What lies ready in a loader is used up first; on a device two steps fill its queue, or a long one.
    """
    ends = [program.times[place] for place, kind in enumerate(program.kinds) if kind == program.kinds[-1]][-9:]
    laps = sorted(map(float.__sub__, ends[1:], ends))
    step_s = laps[len(laps) // 2] if laps else 0.0
    stops = program.device == "cpu" and sys.platform == "linux"  # the workers of a loader, too
    queue = min(1, program.workers) if stops else 2 * program.workers
    if program.device != "cpu":
        queue = max(queue, 2 if step_s < _LONG_S else 1)
    ended = program.ended_by
    rarest = min((ended.count(number) for number in set(ended)), default=1)
    return {"step_s": step_s, "queue": queue, "cycle": max(1, round(len(ended) / rarest)) if ended else 1}


def _next_turn(program: Any) -> bool:
    """Wait for a word: a turn, or the end."""
    from_s = _clock()
    while (word := program.hear()) is not None and word["word"] == "begin":
        pass  # it has built nothing for which it would have waited
    program.idle.append((len(program.kinds), _clock() - from_s))
    if word is None or word["word"] != "turn":
        program.turn = None
        return False
    program.turn = [word["lead_in"], word["steps"], _clock(), time.process_time()]
    return True


def step_ended(program: Any, synchronize: Any) -> bool:
    """Count a step of a turn; after its last one say how long they took, and wait for the next. False: none follows."""
    turn = program.turn
    if turn[0]:
        turn[0] -= 1
        if turn[0] == 0:
            synchronize()
            turn[2:] = _clock(), time.process_time()
        return True
    turn[1] -= 1
    if turn[1]:
        return True
    synchronize()
    elapsed_s, cpu_s = _clock() - turn[2], time.process_time() - turn[3]
    program.taken.append((turn[2], elapsed_s))
    program.say("turn", begin_s=turn[2], elapsed_s=elapsed_s, cpu_s=cpu_s)
    return _next_turn(program)
