"""The template: a process that has imported torch and the models' libraries, and forks a trial for each request.

It holds no device context and runs no parallel operation (an OpenMP pool does not survive a fork), so a trial starts
from a clean state and is live in under 0.1 s. What it imports may initialise a driver all the same, whose device no
child could then use: it looks before each fork, and says why there is none. When its socket closes, or its controller
dies, it ends its trials.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from torchstone.core.cores import end_with
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.message import Request
from torchstone.execution.worker import pipe
from torchstone.execution.worker.execution import carry_out
from torchstone.execution.worker.pipe import EventPipe
from torchstone.plugins import registry

# Whether a driver of devices has been initialised in this process: what is forked from it then cannot use the device.
#
# CUDA is not supported in a child of a process that has called cuInit, and says there that no device can be used. The
# drivers are asked themselves: torch's own flags do not know what another library has asked (vllm-project/vllm#32611).
# Asking loads no library and initialises nothing; it costs some microseconds where nothing was loaded since, so that it
# can be done before each of thousands of imports.


class _Driver(NamedTuple):
    """A driver's library, a function of it that fails before initialisation, and the code that it then returns."""

    name: str
    library: re.Pattern[str]
    symbol: str
    uninitialised: int
    ask: Callable[[Any], int]


def _devices(function: Any) -> int:
    return int(function(ctypes.byref(ctypes.c_int())))


def _version(function: Any) -> int:
    major_version = 0  # HSA_SYSTEM_INFO_VERSION_MAJOR
    return int(function(ctypes.c_int(major_version), ctypes.byref(ctypes.c_uint64())))


_DRIVERS = (
    # CUDA_ERROR_NOT_INITIALIZED (CUDA Driver API, cuInit).
    _Driver("CUDA driver", re.compile(r"(^|/)libcuda\.so"), "cuDeviceGetCount", 3, _devices),
    # HSA_STATUS_ERROR_NOT_INITIALIZED. HIP initialises itself in whichever function of it is called, and so cannot be
    # asked; the HSA runtime below it can (HSA Runtime Programmer's Reference Manual 1.2, 2.1).
    _Driver(
        "HSA runtime of HIP",
        re.compile(r"(^|/)libhsa-runtime64[^/]*\.so"),
        "hsa_system_get_info",
        0x100B,
        _version,
    ),
)


def touched() -> Statement | None:
    """Return which driver has been initialised in this process, and how that shows; None where none has."""
    for driver, library in _LOADED.drivers():
        about: dict[str, Scalar] = {"driver": driver.name, "asked": driver.symbol}
        if not hasattr(library, driver.symbol):
            return Statement("unknown", about)
        answer = driver.ask(getattr(library, driver.symbol))
        if answer != driver.uninitialised:
            return Statement("initialised", {**about, "returned": answer})
    return None


def never_forks() -> Statement | None:
    """Return why nothing may be forked from this process whatever was asked in it, or None.

    SYCL cannot be asked whether anybody has initialised it, and importing a model of transformers does
    (pytorch/pytorch#178496).
    """
    build = getattr(sys.modules.get("torch"), "version", None)
    return Statement("intel") if getattr(build, "xpu", None) else None


class _Object(ctypes.Structure):
    """What dl_iterate_phdr tells of a loaded library (struct dl_phdr_info); `adds`: of how many were loaded so far."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
        ("adds", ctypes.c_ulonglong),
        ("subs", ctypes.c_ulonglong),
    )


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)


class _LoadedDrivers:
    """The drivers' libraries that this process has loaded. It looks again only where something was loaded since."""

    def __init__(self) -> None:
        self._iterate = getattr(ctypes.CDLL(None), "dl_iterate_phdr", None) if os.name == "posix" else None
        self._adds = -1
        self._found: dict[_Driver, Any] = {}

    def drivers(self) -> list[tuple[_Driver, Any]]:
        """Return those that are loaded, each with its library."""
        if self._iterate is not None and self._changed():
            for path in self._paths():
                for driver in _DRIVERS:
                    if driver not in self._found and driver.library.search(path):
                        self._found[driver] = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
        return list(self._found.items())

    def _changed(self) -> bool:
        adds = -1

        def first(one: Any, _size: int, _data: object) -> int:
            nonlocal adds
            adds = one.contents.adds
            return 1  # all of them tell the same number

        self._visit(first)
        changed, self._adds = adds != self._adds, adds
        return changed

    def _paths(self) -> list[str]:
        paths: list[str] = []

        def every(one: Any, _size: int, _data: object) -> int:
            paths.append(os.fsdecode(one.contents.name or b""))
            return 0

        self._visit(every)
        return paths

    def _visit(self, function: Callable[[Any, int, object], int]) -> None:
        if self._iterate is not None:
            self._iterate(_Visit(function), None)


_LOADED = _LoadedDrivers()


# Finds the import that initialised a driver, by asking the driver after each preload and before each import in it.
#
# It stands first among the finders of modules and finds none, so that it hears of every import before that is done, and
# it is gone when preloading is over.


class PreloadWatch:
    """Use as a context manager around what preloads. `ask`: says which driver has been initialised, or None."""

    def __init__(self, ask: Callable[[], Statement | None] = touched) -> None:
        self._ask = ask
        self._step = self._import = ""
        self._reason: Statement | None = None

    def __enter__(self) -> Self:
        self._look("before")
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.meta_path.remove(self)
        self._look()

    def begins(self, step: str) -> None:
        """Note that the next step of preloading begins, and so that the last one is over."""
        self._look()
        self._step, self._import = step, ""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note that this module is about to be imported (importlib.abc.MetaPathFinder), and leave it to be found."""
        self._look()
        self._import = name

    def reason(self) -> Statement | None:
        """Return why nothing may be forked from this process now, and what made it so; None: a fork is safe.

        Its texts are those of the finding `not_forked`.
        """
        self._look("after")
        return self._reason or never_forks()

    def _look(self, when: str = "") -> None:
        if self._reason is None and (driver := self._ask()) is not None:
            when = when or ("import" if self._import else "preload")
            values = {**driver.values, "step": self._step, "module": self._import}
            self._reason = Statement(f"{driver.id}.{when}" if driver.id == "initialised" else driver.id, values)


_LARGEST_REQUEST = 1 << 20
# Lets torch.cuda.is_available count devices through NVML, which initialises nothing (vllm-project/vllm#15951). It is
# for what is imported here alone: trials have the environment of their user.
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


def serve(descriptor: int, models: Sequence[str]) -> None:
    """Import, say "ready", then fork for every request until the socket closes."""
    end_with(os.getppid())
    control = socket.socket(fileno=descriptor)
    if _is_closed(control):  # the controller was killed before the line above could ask for the kernel's help
        return
    watch = _import_for(models)
    gc.collect()
    gc.freeze()  # what was imported stays shared with the children instead of being copied when their collector runs
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to answer
    living: set[int] = set()
    try:
        control.sendall(b'{"ready":1}\n')
    except BrokenPipeError:  # Ctrl-C while this was importing
        return
    while True:
        waiting: list[socket.socket | int] = [control, wake_read]
        readable, _, _ = select.select(waiting, [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
            if not _report_ended(control, living):
                break
        if control in readable and not _fork_for_request(control, living, watch):
            break
    for pid in living:
        _end(pid)


def _import_for(models: Sequence[str]) -> PreloadWatch:
    """Import what these models and every task need; return what was seen of drivers meanwhile."""
    before = os.environ.get(_COUNT_BY_NVML)
    os.environ.setdefault(_COUNT_BY_NVML, "1")
    with PreloadWatch() as watch:
        for model in models:
            scheme, _, name = model.partition(":")
            watch.begins(model)
            registry.load("models", scheme).preload(name)
        for task, engine in registry.usable("engines"):
            watch.begins(f"task {task}")
            engine.preload()
    if before is None:
        del os.environ[_COUNT_BY_NVML]
    return watch


def _fork_for_request(control: socket.socket, living: set[int], watch: PreloadWatch) -> bool:
    """Read one request and its descriptor, fork, tell the pid; or tell why there is no fork.

    Returns False when the controller has gone.
    """
    try:
        data, descriptors, _, _ = socket.recv_fds(control, _LARGEST_REQUEST, 1)
    except ConnectionResetError:  # it went without having read what it was told last
        return False
    if not data:
        return False
    while not data.endswith(b"\n"):
        data += control.recv(_LARGEST_REQUEST)
    if (reason := watch.reason()) is not None:
        os.close(descriptors[0])
        return _tell(control, msgspec.json.encode({"unforkable": reason}) + b"\n")
    template = os.getpid()
    pid = os.fork()
    if pid == 0:
        control.close()
        _be_trial(data, descriptors[0], template)
    os.close(descriptors[0])
    living.add(pid)
    return _tell(control, b'{"pid":%d}\n' % pid)


def _be_trial(data: bytes, descriptor: int, template: int) -> None:
    status = 1
    try:
        os.setsid()  # a session of its own: a scheduler group of its own, and one signal ends all its processes
        end_with(template)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        pipe.prepare_process(descriptor)
        carry_out(msgspec.json.decode(data, type=Request), EventPipe(descriptor))
        sys.stderr.flush()
        status = 0
    finally:
        os._exit(status)


def _is_closed(control: socket.socket) -> bool:
    try:
        return control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:  # it lives, and has asked for nothing yet
        return False


def _report_ended(control: socket.socket, living: set[int]) -> bool:
    """Tell which trials have ended. Returns False when the controller has gone."""
    there = True
    for pid in list(living):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            living.discard(pid)
            _end(pid)  # what it started and left behind
            there = _tell(control, b'{"ended":%d,"status":%d}\n' % (pid, status)) and there
    return there


def _tell(control: socket.socket, line: bytes) -> bool:
    """Send a line to the controller. Returns False when it has gone: Ctrl-C ends it at any moment."""
    try:
        control.sendall(line)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _end(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing is left of it
