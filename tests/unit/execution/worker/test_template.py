"""What a template does before it forks: the environment it imports in, and the question without which it never does."""

import ast
import importlib
import json
import os
import socket
import sys
import time
from types import SimpleNamespace

import pytest
from stub_driver import environment, initialised_by, python

from torchstone.core.schema.advice import Statement
from torchstone.execution.worker import template
from torchstone.execution.worker.template import PreloadWatch, never_forks, touched
from torchstone.plugins import registry

CHECK = "PYTORCH_NVML_BASED_CUDA_CHECK"


@pytest.mark.parametrize(("users", "during"), [(None, "1"), ("0", "0")])
def test_while_it_imports_torch_counts_devices_by_nvml_unless_the_user_says_otherwise(monkeypatch, users, during):
    seen = []
    plugin = SimpleNamespace(preload=lambda *_: seen.append(os.environ.get(CHECK)))
    monkeypatch.setattr(registry, "load", lambda family, name: plugin)
    monkeypatch.setattr(registry, "usable", lambda family: [("train", plugin)])
    monkeypatch.delenv(CHECK, raising=False)
    if users is not None:
        monkeypatch.setenv(CHECK, users)
    assert template._import_for(["hf:bert", "builtin:mlp"]).reason() is None
    assert seen == [during] * 3
    assert os.environ.get(CHECK) == users, "trials have the environment of their user"


def test_where_a_driver_was_initialised_nothing_is_forked_and_the_controller_is_told_why(monkeypatch):
    ours, theirs = socket.socketpair()
    end, given = os.pipe()
    socket.send_fds(ours, [b'{"ask":"inspect"}\n'], [given])
    os.close(given)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("this child could not use the device"))
    living: set[int] = set()
    assert template._fork_for_request(theirs, living, SimpleNamespace(reason=lambda: Statement("intel")))  # type: ignore[arg-type]
    assert json.loads(ours.recv(4096)) == {"unforkable": {"id": "intel", "values": {}}}
    assert os.read(end, 1) == b"", "the line to the trial that is not there is closed"
    assert not living
    for one in (ours, theirs):
        one.close()
    os.close(end)


ASKING = """
import collections, torch
from torchstone.execution.worker import template

asked = collections.Counter()


def listen(module, name):
    real = getattr(module, name)

    def noting(*args, **named):
        asked[f"{module.__name__}.{name}"] += 1
        return real(*args, **named)

    setattr(module, name, noting)


for module, names in {
    torch.cuda: ("init", "_lazy_init", "is_available", "device_count", "current_device", "get_device_properties"),
    torch._C: ("_get_accelerator",),  # get_device_module() without an argument, which asks the driver (pytorch#190708)
    torch.xpu: ("is_available",),
}.items():
    for name in names:
        listen(module, name)
print(template._import_for(["builtin:cnn", "hf:bert", "hf:gpt2", "hf:vit-base"]).reason(), dict(asked))
"""


def test_our_own_preloads_ask_no_cuda_device_and_transformers_asks_for_intels():
    said = python(ASKING, dict(os.environ)).strip()
    reason, _, asked = said.partition(" ")
    assert reason == "None"
    assert set(ast.literal_eval(asked)) <= {"torch.xpu.is_available"}


ASKING_DRIVER_STATE = """
import ctypes, os
from torchstone.execution.worker.template import touched

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
        ("libcuda.so.1", "cuInit", "'asked': 'cuDeviceGetCount', 'returned': 0"),
        (
            "libhsa-runtime64.so.1",
            "hsa_init",
            "'asked': 'hsa_system_get_info', 'returned': 0",
        ),
    ],
)
def test_a_driver_is_asked_without_loading_or_initialising_it(driver_folder, tmp_path, library, init, name):
    log = tmp_path / "log"
    said = python(ASKING_DRIVER_STATE.format(library=library, init=init), environment(driver_folder, STUB_LOG=str(log)))
    nothing, only_loaded, found = said.splitlines()
    assert nothing == "None False", "it is on the path, and asking has not loaded it"
    assert only_loaded == "None True", "a library that is loaded has not asked for a device yet"
    assert name in found
    assert len(initialised_by(log)) == (1 if library == "libcuda.so.1" else 0), "the one of the test, and none of ours"


@pytest.mark.parametrize(("how", "touches"), [("no_device", False), ("not_permitted", False), ("shrinks", True)])
def test_a_driver_that_does_not_start_is_not_initialised(driver_folder, how, touches):
    code = (
        "import ctypes; from torchstone.execution.worker.template import touched;"
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
    from torchstone.execution.worker import template

    cuda = template._DRIVERS[0]
    monkeypatch.setattr(template._LOADED, "drivers", lambda: [(cuda, SimpleNamespace())])
    assert touched() == Statement("unknown", {"driver": "CUDA driver", "asked": "cuDeviceGetCount"})


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
    from torchstone.execution.worker.template import _DRIVERS

    names = {"cuda": "CUDA driver", "hsa": "HSA runtime of HIP", None: None}
    assert next((driver.name for driver in _DRIVERS if driver.library.search(path)), None) == names[found]


def test_asking_is_cheap_enough_for_every_import():
    def once():
        began_s = time.thread_time()
        for _ in range(100):
            touched()
        return (time.thread_time() - began_s) / 100

    assert min(once() for _ in range(5)) < 100e-6  # s; 5 µs on a quiet machine: 3,000 imports of transformers are 15 ms


ASKED: list[str] = []
DRIVER = Statement("initialised", {"driver": "CUDA driver"})


def ask():
    return DRIVER if ASKED else None


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Return a function that writes modules and puts them on the path; `TOUCH` in a text initialises the driver."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(template, "never_forks", lambda: None)
    ASKED.clear()

    def write(**texts):
        for name, text in texts.items():
            touch = "import sys\nsys.modules['watched_driver'].append(__name__)\n"
            (tmp_path / f"{name}.py").write_text(text.replace("TOUCH", touch))
        importlib.invalidate_caches()

    monkeypatch.setitem(sys.modules, "watched_driver", ASKED)
    yield write
    for name in [name for name in sys.modules if name.startswith("seen_")]:
        del sys.modules[name]


def test_the_import_that_asked_is_named(modules):
    modules(seen_a="import seen_b\nimport seen_c", seen_b="", seen_c="TOUCH", seen_d="")
    with PreloadWatch(ask) as watch:
        watch.begins("hf:first")
        watch.begins("hf:second")
        importlib.import_module("seen_a")
        importlib.import_module("seen_d")
        watch.begins("task train")
    values = {"driver": "CUDA driver", "step": "hf:second", "module": "seen_c"}
    assert watch.reason() == Statement("initialised.import", values)


def test_a_preload_that_asked_without_an_import_is_named(modules):
    with PreloadWatch(ask) as watch:
        watch.begins("tower:small")
        ASKED.append("itself")
        watch.begins("task train")
    values = {"driver": "CUDA driver", "step": "tower:small", "module": ""}
    assert watch.reason() == Statement("initialised.preload", values)


def test_what_asked_before_or_after_everything_is_told_apart(modules):
    with PreloadWatch(ask) as watch:
        watch.begins("hf:bert")
    assert watch.reason() is None
    ASKED.append("a thread")
    reason = watch.reason()
    assert reason is not None
    assert reason.id == "initialised.after"
    with PreloadWatch(ask) as watch:
        watch.begins("hf:bert")
    reason = watch.reason()
    assert reason is not None
    assert reason.id == "initialised.before"


def test_it_finds_no_module_and_is_gone_afterwards(modules):
    modules(seen_a="VALUE = 7")
    before = list(sys.meta_path)
    with pytest.raises(ModuleNotFoundError, match="seen_nothing"), PreloadWatch(ask) as watch:
        assert importlib.import_module("seen_a").VALUE == 7
        watch.begins("hf:bert")
        importlib.import_module("seen_nothing")
    assert sys.meta_path == before


def test_a_build_that_never_forks_says_so(modules, monkeypatch):
    monkeypatch.setattr(template, "never_forks", lambda: Statement("intel"))
    with PreloadWatch(ask) as watch:
        watch.begins("hf:bert")
    assert watch.reason() == Statement("intel")
