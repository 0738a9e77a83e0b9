"""Whether a driver of devices has been initialised in this process: what is forked from it then cannot use the device.

CUDA is not supported in a child of a process that has called cuInit, and says there that no device can be used. The
drivers are asked themselves: torch's own flags do not know what another library has asked (vllm-project/vllm#32611).
Asking loads no library and initialises nothing; it costs some microseconds where nothing was loaded since, so that it
can be done before each of thousands of imports.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class _Driver(NamedTuple):
    """A driver's library, a function of it that fails before initialisation, and the code that it then returns."""

    name: str
    library: re.Pattern[str]
    asked: str
    uninitialised: int
    ask: Callable[[Any], int]


def _devices(function: Any) -> int:
    return int(function(ctypes.byref(ctypes.c_int())))


def _version(function: Any) -> int:
    major_version = 0  # HSA_SYSTEM_INFO_VERSION_MAJOR
    return int(function(ctypes.c_int(major_version), ctypes.byref(ctypes.c_uint64())))


_DRIVERS = (
    # CUDA_ERROR_NOT_INITIALIZED (CUDA Driver API, cuInit).
    _Driver("the CUDA driver", re.compile(r"(^|/)libcuda\.so"), "cuDeviceGetCount", 3, _devices),
    # HSA_STATUS_ERROR_NOT_INITIALIZED. HIP initialises itself in whichever function of it is called, and so cannot be
    # asked; the HSA runtime below it can (HSA Runtime Programmer's Reference Manual 1.2, 2.1).
    _Driver(
        "the HSA runtime, on which HIP is built,", re.compile(r"(^|/)libhsa-runtime64[^/]*\.so"),
        "hsa_system_get_info", 0x100B, _version,
    ),
)  # fmt: skip


def touched() -> str | None:
    """Return which driver has been initialised in this process, and how that shows; None where none has."""
    for driver, library in _LOADED.drivers():
        if not hasattr(library, driver.asked):
            return f"{driver.name} is loaded and has no {driver.asked} to ask whether it was initialised"
        answer = driver.ask(getattr(library, driver.asked))
        if answer != driver.uninitialised:
            return f"{driver.name} was initialised ({driver.asked} returned {answer})"
    return None


def never_forks() -> str | None:
    """Return why nothing may be forked from this process whatever was asked in it, or None.

    SYCL cannot be asked whether anybody has initialised it, and importing a model of transformers does
    (pytorch/pytorch#178496).
    """
    build = getattr(sys.modules.get("torch"), "version", None)
    why = "torch is built for Intel GPUs, whose driver does not survive a fork"
    return why if getattr(build, "xpu", None) else None


class _Object(ctypes.Structure):
    """What dl_iterate_phdr tells of a loaded library (struct dl_phdr_info); `adds`: of how many were loaded so far."""

    _fields_ = (
        ("address", ctypes.c_void_p), ("name", ctypes.c_char_p), ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16), ("adds", ctypes.c_ulonglong), ("subs", ctypes.c_ulonglong),
    )  # fmt: skip


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)


class _Loaded:
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


_LOADED = _Loaded()
