"""The stub libraries of tests/stubs, built with the machine's compiler, and a torch made of paper that drives them.

Where they lie on LD_LIBRARY_PATH a process finds a driver, and its cards, as it would a real one: ctypes, pynvml and
torch's own counting by NVML load them by name. How they fail is said by the variables that their sources name.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "stubs"
LIBRARIES = {"cuda.c": "libcuda.so.1", "nvml.c": "libnvidia-ml.so.1", "hsa.c": "libhsa-runtime64.so.1"}
TOUCHES = "import ctypes\nctypes.CDLL('libcuda.so.1').cuInit(0)\n"  # what an import does that asks for devices
SLICE = "11111111-1111-1111-1111-111111111111"
CARD = "00000000-0000-0000-0000-00000000000"  # and the number of the card

# As torch.cuda is: counted by NVML before it is initialised and by the driver afterwards, with the words of torch.
PAPER_TORCH = """
import ctypes
from types import SimpleNamespace

__version__ = "2.13.0"
version = SimpleNamespace(cuda="13.0", hip=None, xpu=None)


def device(kind, index=None):
    return f"{kind}:{index}"


class _Cuda:
    initialised = False

    def _driver(self):
        return ctypes.CDLL("libcuda.so.1")

    def init(self):
        try:
            driver = self._driver()
        except OSError:
            raise RuntimeError("Found no NVIDIA driver on your system. Please check that you have one") from None
        version = ctypes.c_int()
        driver.cuDriverGetVersion(ctypes.byref(version))
        if version.value < 12000:
            raise RuntimeError(f"The NVIDIA driver on your system is too old (found version {version.value}).")
        code = driver.cuInit(0)
        if code:
            raise RuntimeError({100: "No CUDA GPUs are available", 800: "CUDA error: operation not permitted",
                                3: "Cannot re-initialize CUDA in forked subprocess."}[code])
        self.initialised = True

    def is_available(self):
        return self.device_count() > 0

    def device_count(self):
        count = ctypes.c_int()
        if self.initialised:
            self._driver().cuDeviceGetCount(ctypes.byref(count))
            return count.value
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetCount()

    def get_device_properties(self, index):
        name = ctypes.create_string_buffer(64)
        if not 0 <= index < self.device_count():
            raise AssertionError("Invalid device id")
        self._driver().cuDeviceGetName(name, 64, index)
        return SimpleNamespace(
            name=name.value.decode(), total_memory=80 << 30, major=9, minor=0,
            uuid=f"00000000-0000-0000-0000-00000000000{index}", pci_domain_id=0, pci_bus_id=index + 1, pci_device_id=0,
        )

    def set_device(self, index):
        context = ctypes.c_void_p()
        if self._driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), index) == 214:
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    def synchronize(self, device=None):
        pass

    def current_stream(self, device=None):
        return device


cuda = _Cuda()
_none = SimpleNamespace(init=lambda: (_ for _ in ()).throw(AssertionError("Torch not compiled with it enabled")))
backends = SimpleNamespace(
    mps=SimpleNamespace(is_available=lambda: False, is_built=lambda: False),
    cudnn=SimpleNamespace(is_available=lambda: False), cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX2"),
)


def get_device_module(kind):
    return cuda if kind == "cuda" else _none
"""


def build(folder: Path) -> Path:
    """Build the libraries into a folder and return it; skip the test where there is no compiler."""
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None or sys.platform != "linux":
        pytest.skip("the stub driver needs Linux and a C compiler (cc, gcc or clang), and there is none")
    for source, library in LIBRARIES.items():
        words = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{library}"]
        command = [compiler, *words, "-o", str(folder / library), str(SOURCES / source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    return folder


def environment(libraries: Path, *, path: Path | None = None, **how: str) -> dict[str, str]:
    """Return the environment of a process that finds the stub driver, and `path` before all other modules."""
    own = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    own.pop("CUDA_VISIBLE_DEVICES", None)
    if path is not None:
        own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
    return {**own, **how}


def write_torch(folder: Path) -> Path:
    """Write the torch made of paper into a folder, to be put on the path, and return the folder."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(PAPER_TORCH)
    return folder


def initialised_by(log: Path) -> list[int]:
    """Return the process ids that have called cuInit, a call each."""
    return [int(line.split()[1]) for line in log.read_text().splitlines()] if log.exists() else []


def python(code: str, environment: dict[str, str]) -> str:
    """Return what a new interpreter prints that runs this code with our modules."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
