"""NVML answers as an H100 and an old card give them, with the real library's own exceptions."""

import sys
from types import SimpleNamespace

import pynvml
import pytest
from fakes import FakeClock

from torchstone.core.datasheet import dense_peak_flops
from torchstone.core.schema.machine import DeviceInfo, Room
from torchstone.plugins.telemetry._gauges import FunctionGauge
from torchstone.plugins.telemetry.nvml import Nvml, Ticking

UUID = "GPU-8a5f0c1e-0000-1111-2222-333344445555"
BUS = "0000:3b:00.0"
NOT_SUPPORTED = pynvml.NVMLError_NotSupported()
CARDS_OWN = {"device_utilization", "device_power_w", "device_power_limit_w", "device_energy_j"}


def info(kind="cuda", **more):
    return DeviceInfo(kind, "cuda", "NVIDIA", 0, "NVIDIA H100", **{"uuid": UUID, "bus_id": BUS, **more})


class FakeNvml:
    """The calls that the source makes. `answers` replaces one; an exception as an answer is raised."""

    def __init__(self, **answers):
        self.asked = []
        power = SimpleNamespace(nvmlReturn=0, valueType=1, value=SimpleNamespace(uiVal=412_345))
        self.answers = {
            "nvmlInit": None,
            "nvmlDeviceGetHandleByUUID": "by uuid",
            "nvmlDeviceGetHandleByPciBusId": "by bus",
            "nvmlDeviceGetHandleByIndex": "by index",
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=41),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=85_520_809_984, free=1, used=2_147_483_648),
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetFieldValues": [power],
            "nvmlDeviceGetPowerUsage": 398_000,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetTotalEnergyConsumption": 123_456_789,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksEventReasons": 0x0,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetProcessUtilization": pynvml.NVMLError_NotFound(),  # nothing ran
            "nvmlDeviceIsMigDeviceHandle": SimpleNamespace(value=0),
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetComputeMode": 0,
            **answers,
        }

    def __getattr__(self, name):
        if not name.startswith("nvml"):
            return getattr(pynvml, name)  # exceptions and constants are the real ones

        def call(*args):
            self.asked.append((name, args))
            answer = self.answers[name]
            if isinstance(answer, Exception):
                raise answer
            return answer(*args) if callable(answer) else answer

        return call


def read(nvml, device=None, pid=None, **more):
    gauges = Nvml(nvml, **more).open(pid, device or info())
    return {gauge.metric: gauge.read() for gauge in gauges}


def test_every_answer_in_our_units():
    assert read(FakeNvml()) == pytest.approx(
        {
            "device_utilization": 0.87,
            "device_memory_used_bytes": 2_147_483_648,
            "device_temperature_c": 61.0,
            "device_power_w": 412.345,
            "device_power_limit_w": 700.0,
            "device_energy_j": 123_456.789,
            "device_clock_hz": 1.98e9,
            "device_throttled": 0.0,
            "device_power_capped": 0.0,
        }
    )


def test_energy_alone_counts_up():
    gauges = Nvml(FakeNvml()).open(None, info())
    assert [g.metric for g in gauges if g.cumulative] == ["device_energy_j"]


@pytest.mark.parametrize("kind", ["cpu", "rocm", "mps"])
def test_other_kinds_have_no_gauges_and_nothing_is_asked(kind):
    nvml = FakeNvml()
    assert Nvml(nvml).open(1, info(kind)) == ()
    assert Nvml(nvml).open(1, None) == ()
    assert nvml.asked == []


@pytest.mark.parametrize("error", [pynvml.NVMLError_LibraryNotFound(), pynvml.NVMLError_DriverNotLoaded()])
def test_no_driver_is_no_gauges(error):
    assert read(FakeNvml(nvmlInit=error)) == {}


def test_no_package_is_no_gauges(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as where it is not installed: importing it fails
    assert Nvml().open(None, info()) == ()


def test_what_an_old_card_does_not_support_is_absent_and_the_rest_stays():
    unsupported = pynvml.NVMLError_NotSupported()
    told = read(
        FakeNvml(
            nvmlDeviceGetTotalEnergyConsumption=unsupported,
            nvmlDeviceGetUtilizationRates=unsupported,
            nvmlDeviceGetEnforcedPowerLimit=unsupported,
            nvmlDeviceGetFieldValues=unsupported,
            nvmlDeviceGetCurrentClocksEventReasons=pynvml.NVMLError_FunctionNotFound(),
            nvmlDeviceGetComputeRunningProcesses=pynvml.NVMLError_NoPermission(),
        ),
        pid=1,
    )
    assert set(told) == {
        "device_memory_used_bytes", "device_temperature_c", "device_power_w", "device_clock_hz", "device_throttled",
        "device_power_capped",
    }  # fmt: skip
    assert told["device_power_w"] == pytest.approx(398.0)
    assert told["device_throttled"] == told["device_power_capped"] == 1.0


def test_a_field_that_answers_not_supported_falls_back_to_the_mean_power():
    field = SimpleNamespace(nvmlReturn=pynvml.NVML_ERROR_NOT_SUPPORTED, valueType=0, value=None)
    assert read(FakeNvml(nvmlDeviceGetFieldValues=[field]))["device_power_w"] == pytest.approx(398.0)


def test_a_gauge_that_fails_later_tells_nothing_just_then():
    nvml = FakeNvml()
    gauges = {gauge.metric: gauge for gauge in Nvml(nvml).open(None, info())}
    nvml.answers["nvmlDeviceGetTemperature"] = pynvml.NVMLError_GpuIsLost()
    assert gauges["device_temperature_c"].read() is None
    nvml.answers["nvmlDeviceGetTemperature"] = 70
    assert gauges["device_temperature_c"].read() == 70.0


@pytest.mark.parametrize(
    ("reasons", "held"),
    [
        (0x0, 0),
        (0x1, 0),
        (0x2, 0),
        (0x10, 0),
        (0x100, 0),
        (0x4, 1),
        (0x8, 1),
        (0x20, 1),
        (0x40, 1),
        (0x80, 1),
        (0x5, 1),
    ],
)
def test_idle_and_wished_clocks_are_no_throttling(reasons, held):
    assert read(FakeNvml(nvmlDeviceGetCurrentClocksEventReasons=reasons))["device_throttled"] == held


def handle_of(nvml, device, **environment):
    read(nvml, device, environment=environment)
    return next(args[0] for name, args in nvml.asked if name == "nvmlDeviceGetMemoryInfo")


def test_the_device_is_found_by_uuid_then_bus_then_index():
    assert handle_of(FakeNvml(), info()) == "by uuid"
    unknown = pynvml.NVMLError_NotFound()
    assert handle_of(FakeNvml(nvmlDeviceGetHandleByUUID=unknown), info()) == "by bus"
    assert handle_of(FakeNvml(), info(uuid=None, bus_id=None)) == "by index"


def test_the_index_counts_among_the_visible_devices():
    nvml = FakeNvml()
    handle_of(nvml, info(uuid=None, bus_id=None), CUDA_VISIBLE_DEVICES="3, 1")
    assert ("nvmlDeviceGetHandleByIndex", (3,)) in nvml.asked
    assert handle_of(FakeNvml(), info(uuid=None, bus_id=None), CUDA_VISIBLE_DEVICES="GPU-77") == "by uuid"


def test_a_slice_is_found_by_its_own_kind_of_uuid():
    def by_uuid(name):
        if name.startswith("GPU-"):
            raise pynvml.NVMLError_InvalidArgument
        return f"slice {name}"

    assert handle_of(FakeNvml(nvmlDeviceGetHandleByUUID=by_uuid), info()) == "slice MIG-" + UUID.removeprefix("GPU-")


def computing(*pids):
    return FakeNvml(nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=p, usedGpuMemory=None) for p in pids])


@pytest.fixture
def proc(tmp_path):
    """A /proc in which 100 is the trial, 101 its child, 200 a stranger; and which shows no namespaces."""
    for pid, parent in [(100, 1), (101, 100), (200, 1)]:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (python) S {parent} 0 0")
    return tmp_path


def test_other_processes_are_those_outside_the_trial(proc):
    assert read(computing(100, 101, 200), pid=100, proc=proc)["device_other_processes"] == 1.0
    assert read(computing(100), pid=100, proc=proc)["device_other_processes"] == 0.0
    assert read(computing(), pid=100, proc=proc)["device_other_processes"] == 0.0
    assert "device_other_processes" not in read(computing(200), pid=None, proc=proc)


def sample(pid, busy, at_us):
    return SimpleNamespace(pid=pid, smUtil=busy, timeStamp=at_us)


def test_a_process_that_holds_the_device_and_waits_has_not_worked(proc):
    """Of what the driver tells: the trial, one that waits, one that has ended, one that works."""
    samples = [sample(100, 97, 5), sample(200, 0, 5), sample(300, 40, 5)]
    asked = []

    def utilization(handle, since_us):
        asked.append(since_us)
        newer = [one for one in samples if one.timeStamp > since_us]
        if not newer:
            raise pynvml.NVMLError_NotFound
        return newer

    nvml = computing(100, 101, 200)
    nvml.answers["nvmlDeviceGetProcessUtilization"] = utilization
    (gauge,) = [one for one in Nvml(nvml, proc=proc).open(100, info()) if one.metric == "device_working_processes"]
    assert gauge.read() is None, "what was before it was opened is another trial's; the driver has shown no work since"
    samples += [sample(300, 60, 7), sample(200, 0, 7)]
    assert gauge.read() == 0.0, "300 has ended, 200 waits"
    samples.append(sample(200, 1, 9))
    assert gauge.read() == 1.0
    assert gauge.read() == 0.0
    assert asked == [0, 5, 5, 7, 9]


def test_where_the_driver_tells_no_process_s_share_the_others_are_counted_alone(proc):
    nvml = computing(100, 200)
    nvml.answers["nvmlDeviceGetProcessUtilization"] = NOT_SUPPORTED
    told = read(nvml, pid=100, proc=proc)
    assert told["device_other_processes"] == 1.0
    assert "device_working_processes" not in told


def test_a_driver_that_never_shows_work_is_not_believed(proc):
    """Its samples of all that is alive are 0 while the trial itself works: those that only wait count as well."""
    nvml = computing(100, 200)
    stamps = iter(range(1, 9))
    nvml.answers["nvmlDeviceGetProcessUtilization"] = lambda handle, since_us: [
        sample(pid, 0, stamp) for stamp in [next(stamps)] for pid in (100, 200)
    ]
    shown = read(nvml, pid=100, proc=proc)
    assert (shown["device_working_processes"], shown["device_other_processes"]) == (None, 1.0)


def test_in_a_container_pids_of_the_host_say_nothing(proc):
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "pid").touch()  # its inode is not that of the first namespace
    assert read(computing(70_001), pid=100, proc=proc)["device_other_processes"] is None
    assert read(computing(100, 200), pid=100, proc=proc)["device_other_processes"] == 1.0
    said = read(computing(), pid=100, proc=proc)["device_other_processes"]
    assert said is None, "not even the trial is in the list: it tells nothing"


@pytest.mark.parametrize(
    ("answers", "absent"),
    [
        ({}, set()),
        ({"nvmlDeviceIsMigDeviceHandle": SimpleNamespace(value=1)}, CARDS_OWN),
        (
            {"nvmlDeviceGetMigMode": [1, 1]},
            {*CARDS_OWN, "device_memory_used_bytes", "device_other_processes", "device_working_processes"},
        ),
        ({"nvmlDeviceGetMigMode": [0, 1]}, set()),
        ({"nvmlDeviceIsMigDeviceHandle": AttributeError(), "nvmlDeviceGetMigMode": NOT_SUPPORTED}, set()),
    ],
    ids=["a card", "a slice", "the card of a slice", "divided after the next reset", "from before there was MIG"],
)
def test_what_is_of_the_whole_card_is_not_told_of_a_slice(proc, answers, absent):
    whole = read(FakeNvml(), pid=100, proc=proc)
    told = read(FakeNvml(**answers), pid=100, proc=proc)
    assert set(whole) - set(told) == absent


@pytest.mark.parametrize(("mode", "shared"), [(0, True), (1, False), (2, False), (3, False), (NOT_SUPPORTED, True)])
def test_room_is_what_is_free_and_whether_a_second_process_is_admitted(mode, shared):
    room = Nvml(FakeNvml(nvmlDeviceGetComputeMode=mode)).room(info())
    assert room == Room(shared, 1, 85_520_809_984)


def test_room_is_not_known_of_another_kind_without_a_driver_or_of_an_unknown_slice():
    assert Nvml(FakeNvml()).room(info("rocm")) is None
    assert Nvml(FakeNvml(nvmlInit=pynvml.NVMLError_DriverNotLoaded())).room(info()) is None
    assert Nvml(FakeNvml(nvmlDeviceGetMigMode=[1, 1])).room(info()) is None
    assert Nvml(FakeNvml(nvmlDeviceGetMemoryInfo=NOT_SUPPORTED)).room(info()) is None


def test_no_datasheet_is_that_of_a_slice():
    assert dense_peak_flops("NVIDIA H100 80GB HBM3", "bf16", 85_520_809_984) is not None
    assert dense_peak_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bf16", 10_468_982_784) is None


def test_the_real_library_without_a_driver_gives_no_gauges_or_some():
    assert isinstance(list(Nvml().open(None, info(uuid=None, bus_id=None))), list)


@pytest.mark.parametrize(
    ("reasons", "capped"), [(0x0, 0), (0x4, 1), (0x5, 1), (0x24, 0), (0x44, 0), (0x80, 0), (0x8, 0)]
)
def test_the_power_limit_alone_is_told_from_heat_and_the_hardware(reasons, capped):
    assert read(FakeNvml(nvmlDeviceGetCurrentClocksEventReasons=reasons))["device_power_capped"] == capped


def test_the_list_of_processes_alone_is_left_for_the_time_between_windows(proc):
    gauges = Nvml(computing(100), proc=proc).open(100, info())
    left = [gauge.metric for gauge in gauges if getattr(gauge, "between_windows", False)]
    assert left == ["device_other_processes", "device_working_processes"]


def test_the_energy_counter_can_say_how_often_it_moves():
    (counter,) = [gauge for gauge in Nvml(FakeNvml()).open(None, info()) if gauge.metric == "device_energy_j"]
    assert isinstance(counter, Ticking)
    assert counter.read() == pytest.approx(123_456.789)


def test_a_driver_that_has_lost_the_older_name_of_the_temperature():
    nvml = FakeNvml(
        nvmlDeviceGetTemperature=pynvml.NVMLError_FunctionNotFound(),
        nvmlDeviceGetTemperatureV=lambda handle, sensor: {pynvml.NVML_TEMPERATURE_GPU: 62}[sensor],
    )
    assert read(nvml)["device_temperature_c"] == 62.0
    neither = FakeNvml(nvmlDeviceGetTemperature=NOT_SUPPORTED, nvmlDeviceGetTemperatureV=NOT_SUPPORTED)
    assert "device_temperature_c" not in read(neither)


def ticking(every_s: float | None, watts: float = 300.0) -> tuple[Ticking, FakeClock]:
    """A counter of energy that is brought up to date so often; None: it stands still."""
    clock = FakeClock()

    def read() -> float:
        return watts * every_s * (clock.now_s // every_s) if every_s else 5.0

    return Ticking(FunctionGauge("device_energy_j", read, cumulative=True), clock, clock.sleep), clock


@pytest.mark.parametrize("every_s", [0.1, 0.02, 0.04])
def test_the_tick_is_the_time_between_two_moves(every_s):
    counter, clock = ticking(every_s)
    assert counter.tick_s() == pytest.approx(every_s, abs=0.0021)
    assert clock.now_s <= 0.61
    assert (counter.metric, counter.cumulative) == ("device_energy_j", True)


@pytest.mark.parametrize("every_s", [None, 0.5])
def test_a_counter_that_stands_still_or_moves_once_has_none(every_s):
    counter, clock = ticking(every_s)
    assert counter.tick_s() is None
    assert clock.now_s == pytest.approx(0.6, abs=0.01)
