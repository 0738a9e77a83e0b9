"""What devices that torch drives have in common: finding, opening, synchronising, timing, memory, objections."""

from __future__ import annotations

import os
import platform
import re
import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from time import perf_counter, perf_counter_ns
from types import SimpleNamespace
from typing import Any, NamedTuple

from torchstone.core.cores import worthwhile
from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.machine_protocols import Device, Stopwatch, Vendor

_PER_NS, _PER_MS = 1e-9, 1e-3
# Laps that may be issued: before it is known how long one takes; however long it is; and however short, as those are
# read some dozens at once.
_AHEAD, _FEWEST_AHEAD, _MOST_AHEAD = 8, 2, 512
_PARTS = 32  # of them: so many are waited for one after the other


class HostStopwatch:
    """Laps on the host clock, for a device that has finished a step when the call returns."""

    __slots__ = ("_append", "_now_ns", "_stamps_ns")

    reads = "host clock"
    asynchronous = False

    def __init__(self, now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._now_ns = now_ns
        self._begin()

    def start(self) -> None:
        self._begin()
        self._append(self._now_ns())

    def lap(self) -> None:
        self._append(self._now_ns())

    def recent(self, count: int) -> Sequence[float]:
        return _laps(self._stamps_ns[-count - 1 :]) if count > 0 else ()

    def hold(self, most_s: float, *, read: bool) -> None:
        """Do nothing: the device has finished when a lap ends."""

    def stop(self) -> Sequence[float]:
        return _laps(self._stamps_ns)

    def _begin(self) -> None:
        self._stamps_ns: list[int] = []
        self._append = self._stamps_ns.append  # bound once: a lap is two calls and nothing else


class WaitingStopwatch(HostStopwatch):
    """Laps on the host clock for a device without events: each waits for the device, and so holds the steps apart."""

    __slots__ = ("_synchronize",)

    reads = "host clock, waiting for the device at every lap (it has no timed events)"

    def __init__(self, synchronize: Callable[[], None], now_ns: Callable[[], int] = perf_counter_ns) -> None:
        super().__init__(now_ns)
        self._synchronize = synchronize

    def start(self) -> None:
        self._synchronize()
        super().start()

    def lap(self) -> None:
        self._synchronize()
        super().lap()


class EventStopwatch:
    """Laps between device events, recorded without waiting and read after the device has passed them.

    `elapsed_waits`: on this device even asking for the time between two passed events waits for everything issued
    (MPS commits and waits). There `recent` tells the host's laps of the steps that the device has finished.
    `stream`: returns the queue to record in, as `record` takes it; by default that of torch's current device.
    """

    reads = "device events"
    asynchronous = True

    def __init__(
        self,
        event: Callable[[], Any],
        synchronize: Callable[[], None],
        elapsed_waits: bool = False,
        stream: Callable[[], tuple[Any, ...]] = tuple,
        now_s: Callable[[], float] = perf_counter,
    ) -> None:
        self._event, self._synchronize, self._elapsed_waits = event, synchronize, elapsed_waits
        self._stream, self._now_s = stream, now_s
        self._pool: list[Any] = [event() for _ in range(64)]
        self._used = 0
        self._passed_s: list[float] = []
        self._issued_s: list[float] = []
        self._reached, self._began_s, self._ahead = 0, 0.0, _AHEAD

    def start(self) -> None:
        self._synchronize()
        self._used = 0
        self._passed_s, self._issued_s = [], []
        self._reached, self._began_s, self._ahead = 0, self._now_s(), _AHEAD
        self.lap()

    def lap(self) -> None:
        """Record an event from the pool; a new one is made only where a window is longer than all before it."""
        if self._used == len(self._pool):
            self._pool.append(self._event())
        self._pool[self._used].record(*self._stream())
        self._used += 1
        if self._elapsed_waits:
            self._issued_s.append(self._now_s())

    def hold(self, most_s: float, *, read: bool) -> None:
        """Wait where more laps are issued than take the device `most_s` seconds; 8 at first, two at least may be.

        It waits for one of them, or a thirtieth: the device never waits for the host, nor the host in bursts for a
        loader. Read on the way are twice as many laps as were added: enough to keep up, and never so many at once that
        the device runs out of work.
        """
        newest = self._used - 1
        if newest - self._reached < self._ahead:
            return
        before, self._reached = self._reached, newest - self._ahead + self._ahead // _PARTS + 1
        self._pool[self._reached].synchronize()
        lap_s = max((self._now_s() - self._began_s) / self._reached, _PER_NS)
        self._ahead = min(max(_FEWEST_AHEAD, int(most_s / lap_s)), _MOST_AHEAD)
        if read:
            self._read(min(self._reached, len(self._passed_s) + 2 * (self._reached - before)))

    def recent(self, count: int) -> Sequence[float]:
        """Return the last `count` laps the device has passed. What came before and nobody asked for stays unread."""
        if count <= 0:
            return ()
        passed = self._newest_passed()
        first = max(0, passed - count)
        if first > len(self._passed_s):
            return tuple(self._between(lap) for lap in range(first, passed))
        self._read(passed)
        return tuple(self._passed_s[first:passed])

    def stop(self) -> Sequence[float]:
        self._synchronize()
        known = [] if self._elapsed_waits else self._passed_s
        self._passed_s = known + [self._elapsed(lap) for lap in range(len(known), self._used - 1)]
        return tuple(self._passed_s)

    def _newest_passed(self) -> int:
        """Return the number of the newest event that the device has passed: they pass in order, so few are asked."""
        low, high = max(self._reached, len(self._passed_s)), self._used - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._pool[middle].query() else (low, middle - 1)
        return low

    def _read(self, laps: int) -> None:
        """Read the times of so many of the first laps, which the device has passed."""
        self._passed_s += [self._between(lap) for lap in range(len(self._passed_s), laps)]

    def _between(self, lap: int) -> float:
        return self._issued_s[lap + 1] - self._issued_s[lap] if self._elapsed_waits else self._elapsed(lap)

    def _elapsed(self, lap: int) -> float:
        return float(self._pool[lap].elapsed_time(self._pool[lap + 1])) * _PER_MS


def _laps(stamps_ns: Sequence[int]) -> Sequence[float]:
    return tuple((after - before) * _PER_NS for before, after in pairwise(stamps_ns))


HALF = ("bf16", "fp16")
# What torch says at initialisation where there is nothing to initialise.
_ABSENT = re.compile(r"not compiled with|no nvidia driver|no (cuda|hip|xpu) (gpus|devices)|no xpu", re.IGNORECASE)
# torchstone's raw metric ← the allocator's own name for it
STATISTICS = {
    "allocated_bytes": "allocated_bytes.all.current",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "allocator_retries": "num_alloc_retries",
}


class TorchDevice:
    """An open accelerator. What its kind cannot do, has and likes is said in the methods that it overrides.

    Whatever it asks of torch names its index: which device is torch's current one is the user's to change. `several`:
    there may be more than one of its kind, and its module takes an index.
    """

    elapsed_waits = False
    several = True

    def __init__(self, torch: Any, module: Any, info: DeviceInfo) -> None:
        self._torch, self._module, self._info = torch, module, info
        self.torch_device: Any = torch.device(info.torch_kind, info.index)
        if hasattr(module, "set_device"):
            module.set_device(info.index)
        self._index: tuple[int, ...] = (info.index,) if self.several else ()
        self._timed_events = has_timed_events(module, self.synchronize, self.stream)

    def synchronize(self) -> None:
        self._module.synchronize(*self._index)

    def stream(self) -> tuple[Any, ...]:
        """Return this device's own queue, as an event's `record` takes it; nothing where there is one queue only."""
        return (self._module.current_stream(*self._index),) if self.several else ()

    def stopwatch(self) -> Stopwatch:
        if not self._timed_events:
            return WaitingStopwatch(self.synchronize)
        return EventStopwatch(
            lambda: self._module.Event(enable_timing=True), self.synchronize, self.elapsed_waits, self.stream
        )

    def memory(self) -> Mapping[str, int]:
        read = getattr(self._module, "memory_stats", None)
        told = read(*self._index) if read is not None else {}
        return {metric: int(told[name]) for metric, name in STATISTICS.items() if name in told}

    def objection(self, axis: str, value: Scalar) -> str | None:
        if axis == "precision":
            return self.precision_objection(str(value))
        if axis == "fused" and value == "on":
            return fused_objection(self._info)
        if axis == "compile" and value not in ("off", None):
            return self.compile_objection()
        if axis == "sdpa":
            return no_attention(self._info, str(value), self.attention())
        if axis == "pin_memory" and value is True:
            return self.pinning_objection()
        return None

    def preference(self, axis: str, configuration: Mapping[str, Scalar]) -> tuple[Scalar, str] | None:
        if axis == "threads":
            return worthwhile()
        return self.layout_preference(str(configuration.get("precision"))) if axis == "channels_last" else None

    def layout_preference(self, precision: str) -> tuple[bool, str] | None:
        """Say whether convolutions in that number format are faster on NHWC images; by default nobody knows."""
        return None

    def attention(self) -> Sequence[str]:
        """Return the kernels that torch has here for scaled_dot_product_attention; by default its plain formula."""
        return ("math",)

    def precision_objection(self, precision: str) -> str | None:
        """Say what stands against a number format; by default only that TF32 is NVIDIA's."""
        return no_tf32(self._info) if precision == "tf32" else None

    def compile_objection(self) -> str | None:
        """Say what torch.compile lacks here; by default it needs Triton, and a C compiler for its launchers."""
        if find_spec("triton") is None:
            return f"torch.compile for {self._info.name} needs Triton, which is not installed"
        return None if compiler("CC", "cc", "gcc", "clang") else no_compiler("C", "CC", "gcc")

    def pinning_objection(self) -> str | None:
        """Say why page-locked memory does not help; by default it does."""
        return None


# Cards on the PCI bus as the kernel lists them, whether torch supports them or not, so that none is missed: only files
# are read, no driver is initialised. amdsmi and oneAPI's tools read the same files.

PCI = Path("/sys/bus/pci/devices")
NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
_DISPLAY, _ACCELERATOR = ("0x0300", "0x0302", "0x0380"), "0x1200"  # classes: VGA, 3D, other display; accelerator
_DATA_CENTRE = ("0x0380", _ACCELERATOR)  # AMD's Instinct cards have no display
_LENT = ("vfio-pci", "pci-stub")  # drivers that hold a card for a virtual machine
_SMALLEST_BYTES = 6 << 30  # of a card that ROCm drives; what is built into a processor is lent less
_NOTHING = ("", "-1", "none", "nodevfiles", "void")  # what schedulers and people write for no device at all


class Sighting(NamedTuple):
    """A card on the bus: its address, its class, and the kernel's driver of it (empty: none)."""

    address: str
    kind: str
    driver: str
    memory_bytes: int | None


def cards(vendor: str, pci: Path = PCI) -> Sequence[Sighting]:
    """Return that vendor's graphics cards and accelerators, those left out that a virtual machine holds."""
    found = []
    for device in sorted(pci.glob("*")):
        kind = _text(device / "class")[:6]
        if kind not in (*_DISPLAY, _ACCELERATOR) or _text(device / "vendor") != vendor:
            continue
        driver = (device / "driver").resolve().name if (device / "driver").exists() else ""
        memory = _text(device / "mem_info_vram_total")
        if driver not in _LENT:
            found.append(Sighting(device.name, kind, driver, int(memory) if memory.isdigit() else None))
    return found


def of_their_own(vendor: str, pci: Path = PCI) -> Sequence[Sighting]:
    """Return those cards that are not built into the processor, as far as the bus tells.

    Intel's built-in ones are on bus 0. AMD's are told by their memory, which is a small part of the host's.
    """
    if vendor == INTEL:
        return [card for card in cards(vendor, pci) if card.address.split(":")[1:2] != ["00"]]
    if vendor == AMD:
        return [c for c in cards(vendor, pci) if c.kind in _DATA_CENTRE or (c.memory_bytes or 0) >= _SMALLEST_BYTES]
    return cards(vendor, pci)


def hides_devices(environment: Mapping[str, str], *names: str) -> bool:
    """Say whether one of these variables hides every device: then it is its user who wants none."""
    return any(name in environment and environment[name].split(",")[0].strip().lower() in _NOTHING for name in names)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # another kernel, or the device has no such file
        return ""


class TorchVendor(Vendor):
    """Finds and opens devices of one kind through torch.

    `kind`: ours, `backend`: torch's word for it. `hiding`: variables of the environment that may hide every device.
    """

    kind: str
    backend: str
    maker: str
    pci_vendor = ""
    hiding: tuple[str, ...] = ()
    device: type[TorchDevice] = TorchDevice

    def __init__(self, pci: Path = PCI, environment: Mapping[str, str] = os.environ) -> None:
        self._pci, self._environment = pci, environment

    @abstractmethod
    def devices(self, torch: Any) -> Sequence[DeviceInfo]:
        """Return the devices that this torch sees."""

    def probe(self) -> Sequence[DeviceInfo]:
        return devices_by_torch(self.devices)

    def seen(self) -> Sequence[str]:
        """Return the cards that the kernel shows, those built into a processor left out."""
        if hides_devices(self._environment, *self.hiding):
            return ()
        found = of_their_own(self.pci_vendor, self._pci)
        return [f"an {self.maker} card at {card.address} ({card.driver or 'no'} driver)" for card in found]

    def open(self, index: int) -> Device:
        devices = devices_by_torch(self.devices)
        if not devices:
            raise Unsupported(f"no {self.kind} device: {self.missing()}")
        if not 0 <= index < len(devices):
            there = "is 1" if len(devices) == 1 else f"are {len(devices)}"
            raise Unsupported(f"no device {self.kind}:{index}; there {there}, from {self.kind}:0")
        torch, _ = torch_or_reason()
        return self.device(torch, self.module(torch), devices[index])

    def module(self, torch: Any) -> Any:
        """Return torch's module of this backend."""
        return torch.get_device_module(self.backend)

    def pretend(self, info: DeviceInfo) -> Device:
        torch, _ = torch_or_reason()
        return self.device(torch, SimpleNamespace(), info)

    def described(self, index: int, props: Any, **more: Any) -> DeviceInfo:
        """Return a device by the properties that torch tells of it."""
        uuid = getattr(props, "uuid", None)
        told: dict[str, Any] = {
            "memory_bytes": getattr(props, "total_memory", None),
            "uuid": None if uuid is None else str(uuid),
            "bus_id": bus_id(props),
        }
        return DeviceInfo(self.kind, self.backend, self.maker, index, props.name, **{**told, **more})


def torch_or_reason() -> tuple[Any, str]:
    """Return (torch, its version), or (None, why it cannot be imported)."""
    try:
        torch: Any = import_module("torch")
    except (ImportError, OSError) as error:  # OSError: a shared library of torch does not load
        return None, f"torch cannot be imported ({error})"
    return torch, version_of(torch)


def devices_by_torch(look: Callable[[Any], Sequence[DeviceInfo]]) -> Sequence[DeviceInfo]:
    """Return what `look` finds with torch; nothing where there is no torch.

    Raises Unsupported with the words of torch or the driver where a device does not start: one that is there and cannot
    be used is another thing than none.
    """
    torch, _ = torch_or_reason()
    if torch is None:
        return ()
    try:
        return look(torch)
    except (RuntimeError, AssertionError, AttributeError, OSError) as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        raise Unsupported(f"{version_of(torch)} cannot start the device: {said}") from error


def version_of(torch: Any) -> str:
    """Return torch's name and version."""
    return f"torch {torch.__version__}"


def properties(torch: Any, torch_kind: str) -> Sequence[Any]:
    """Return the properties of every device of that kind, in order; none where there is no such device.

    It is initialised first. Before that, torch counts what NVML sees, of which the driver may start fewer (a card in
    error, MIG), and afterwards no more devices than the driver has. Raises what torch raises where a device does not
    start.
    """
    module = torch.get_device_module(torch_kind)
    try:
        module.init()
    except (RuntimeError, AssertionError) as error:
        if _ABSENT.search(str(error)):
            return []
        raise
    # torch before 2.10 goes on counting by NVML.
    count = getattr(getattr(torch, "_C", None), f"_{torch_kind}_getDeviceCount", module.device_count)
    return [module.get_device_properties(index) for index in range(count())]


def bus_id(props: Any) -> str | None:
    """Return the PCI address as NVML and sysfs write it, 0000:3b:00.0; torch before 2.8 does not tell it."""
    told = [getattr(props, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    domain, bus, device = [part if isinstance(part, int) else -1 for part in told]
    return f"{domain:04x}:{bus:02x}:{device:02x}.0" if min(domain, bus, device) >= 0 else None


def has_timed_events(module: Any, synchronize: Callable[[], None], stream: Callable[[], tuple[Any, ...]]) -> bool:
    """Try two events on an idle device: some builds have the class and fail to time with it."""
    if not hasattr(module, "Event"):
        return False
    try:
        first, second = module.Event(enable_timing=True), module.Event(enable_timing=True)
        first.record(*stream())
        second.record(*stream())
        synchronize()
        return float(first.elapsed_time(second)) >= 0.0
    except (RuntimeError, NotImplementedError, TypeError):
        return False  # this is what the attempt is for


def fused_objection(info: DeviceInfo) -> str | None:
    """Say that torch has no fused optimizer kernels for that kind, asking torch itself."""
    try:
        supported = import_module("torch.utils._foreach_utils")._get_fused_kernels_supported_devices()
    except (ImportError, AttributeError):  # torch's private list: where it has moved, the kinds that always had them
        supported = ["cuda", "xpu", "cpu"]
    return None if info.torch_kind in supported else f"this torch has no fused optimizer kernels for {info.name}"


def no_tf32(info: DeviceInfo) -> str:
    """Return the objection to TF32 for a device that is not NVIDIA's."""
    return f"TF32 is a format of NVIDIA's tensor cores (Ampere and newer); {info.name} does not have it"


def no_attention(info: DeviceInfo, wanted: str, kernels: Sequence[str]) -> str | None:
    """Return the objection to an attention kernel that torch does not have for a device; None: it has it."""
    if wanted in ("auto", *kernels):
        return None
    return f"torch has no {wanted} attention for {info.name}, only {', '.join(kernels)}"


def compiler(variable: str, *names: str) -> str | None:
    """Return the path of the compiler that the variable names, else of the first found."""
    named = os.environ.get(variable, "").split()
    return next((path for name in (named[:1] or names) if (path := shutil.which(name))), None)


def no_compiler(language: str, variable: str, usual: str) -> str:
    """Return the objection to torch.compile on a machine without a compiler."""
    how = "install Xcode's command line tools" if platform.system() == "Darwin" else f"install {usual}"
    return f"torch.compile needs a {language} compiler and none was found: {how}, or name one in {variable}"
