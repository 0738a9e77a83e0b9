"""Whether a driver was initialised in a process, asked of real libraries that have no device behind them."""

import sys
import time
from types import SimpleNamespace

import pytest
from stub_driver import environment, initialised_by, python

from torchstone.execution.worker.driver_state import never_forks, touched

ASKING = """
import ctypes, os
from torchstone.execution.worker.driver_state import touched

LIBRARY, INIT = {library!r}, {init!r}


def loaded():
    return LIBRARY.split(".")[0] in open("/proc/self/maps").read()


print(touched(), loaded())
library = ctypes.CDLL(LIBRARY)
print(touched(), loaded())
getattr(library, INIT)(0)
print(touched())
"""


@pytest.mark.parametrize(
    ("library", "init", "name"),
    [
        ("libcuda.so.1", "cuInit", "the CUDA driver was initialised (cuDeviceGetCount returned 0)"),
        ("libhsa-runtime64.so.1", "hsa_init", "HIP is built, was initialised (hsa_system_get_info returned 0)"),
    ],
)
def test_a_driver_is_asked_without_loading_or_initialising_it(driver_folder, tmp_path, library, init, name):
    log = tmp_path / "log"
    said = python(ASKING.format(library=library, init=init), environment(driver_folder, STUB_LOG=str(log)))
    nothing, only_loaded, found = said.splitlines()
    assert nothing == "None False", "it is on the path, and asking has not loaded it"
    assert only_loaded == "None True", "a library that is loaded has not asked for a device yet"
    assert name in found
    assert len(initialised_by(log)) == (1 if library == "libcuda.so.1" else 0), "the one of the test, and none of ours"


@pytest.mark.parametrize(("how", "touches"), [("no_device", False), ("not_permitted", False), ("shrinks", True)])
def test_a_driver_that_does_not_start_is_not_initialised(driver_folder, how, touches):
    code = (
        "import ctypes; from torchstone.execution.worker.driver_state import touched;"
        "ctypes.CDLL('libcuda.so.1').cuInit(0); print(touched() is not None)"
    )
    assert python(code, environment(driver_folder, STUB_DRIVER=how)).strip() == str(touches)


def test_a_child_of_a_process_with_a_driver_has_none(driver_folder):
    """The rule for which all this is: what a forked child is told, so that the parent must be asked."""
    code = (
        "import ctypes, os; cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0);"
        "pid = os.fork();"
        "pid or os._exit(cuda.cuDeviceGetCount(ctypes.byref(ctypes.c_int())));"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    assert python(code, environment(driver_folder)).strip() == "3"


def test_a_library_without_the_question_counts_as_touched(monkeypatch):
    from torchstone.execution.worker import driver_state

    cuda = driver_state._DRIVERS[0]
    monkeypatch.setattr(driver_state._LOADED, "drivers", lambda: [(cuda, SimpleNamespace())])
    assert "has no cuDeviceGetCount" in str(touched())


def test_a_build_for_intel_gpus_is_never_forked(monkeypatch):
    for build, forks in ((None, True), ("20250301", False)):
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(xpu=build)))
        assert (never_forks() is None) is forks
    monkeypatch.delitem(sys.modules, "torch")
    assert never_forks() is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/lib/x86_64-linux-gnu/libcuda.so.1", "cuda"), ("/usr/local/cuda/compat/libcuda.so.580.65.06", "cuda"),
        ("libcuda.so.1", "cuda"), ("/opt/torch/lib/libhsa-runtime64-4f2a.so.1", "hsa"),
        ("/opt/torch/lib/libcudart.so.13", None), ("/lib/libcudadebugger.so.1", None), ("", None),
    ],
)  # fmt: skip
def test_a_drivers_library_is_known_by_its_name_wherever_it_lies(path, found):
    from torchstone.execution.worker.driver_state import _DRIVERS

    names = {"cuda": "the CUDA driver", "hsa": "the HSA runtime, on which HIP is built,", None: None}
    assert next((driver.name for driver in _DRIVERS if driver.library.search(path)), None) == names[found]


def test_asking_is_cheap_enough_for_every_import():
    def once():
        began_s = time.thread_time()
        for _ in range(100):
            touched()
        return (time.thread_time() - began_s) / 100

    assert min(once() for _ in range(5)) < 100e-6  # s; 5 µs on a quiet machine: 3,000 imports of transformers are 15 ms
