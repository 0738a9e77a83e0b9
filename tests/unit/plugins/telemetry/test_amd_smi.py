"""amdsmi's answers as ROCm 6.4 gives them on MI300X and MI250, and the driver's files under /sys."""

import sys
from types import SimpleNamespace

import pytest

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.telemetry.amd_smi import AmdSmi


def info(kind="rocm", bus_id="0000:c1:00.0"):
    return DeviceInfo(kind, "cuda", "AMD", 0, "AMD Instinct MI300X", bus_id=bus_id)


class AmdSmiException(Exception):
    pass


MI300X = {
    "get_gpu_activity": {"gfx_activity": 93, "umc_activity": 20, "mm_activity": "N/A"},
    "get_gpu_memory_usage": 3_000_000_000,
    "get_power_info": {"current_socket_power": 540, "average_socket_power": "N/A", "power_limit": 750_000_000},
    "get_energy_count": {"energy_accumulator": 1000, "counter_resolution": 15.3, "timestamp": 1},
    "get_clock_info": {"clk": 2100, "min_clk": 132, "max_clk": 2100},
    "get_gpu_metrics_info": {"throttle_status": "N/A", "indep_throttle_status": 0},
    "get_gpu_process_list": [{"pid": 100}, {"pid": 200}],
}
TEMPERATURES = {"edge": AmdSmiException("not supported"), "hotspot": 57}


def library(temperatures=None, **answers):
    told = {**MI300X, **answers}

    def call(name):
        def ask(*args):
            if isinstance(told[name], Exception):
                raise told[name]
            return told[name]

        return ask

    def temperature(handle, kind, metric):
        answer = (temperatures or TEMPERATURES)[kind]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(
        **{f"amdsmi_{name}": call(name) for name in told},
        told=told,
        AmdSmiException=AmdSmiException,
        AmdSmiMemoryType=SimpleNamespace(VRAM=0),
        AmdSmiClkType=SimpleNamespace(GFX=0),
        AmdSmiTemperatureType=SimpleNamespace(EDGE="edge", HOTSPOT="hotspot"),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        amdsmi_get_processor_handles=lambda: ["0000:03:00.0", "0000:C1:00.0"],
        amdsmi_get_gpu_device_bdf=lambda handle: handle,
        amdsmi_get_temp_metric=temperature,
    )


@pytest.fixture
def proc(tmp_path):
    for pid, parent in [(100, 1), (200, 1)]:
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "stat").write_text(f"{pid} (python) S {parent} 0 0")
    return tmp_path / "proc"


def read(source, pid=None, device=None):
    return {gauge.metric: gauge.read() for gauge in source.open(pid, device or info())}


def test_every_answer_in_our_units(tmp_path, proc):
    told = read(AmdSmi(library(), tmp_path, proc), pid=100)
    assert told == {
        "device_utilization": pytest.approx(0.93), "device_memory_used_bytes": 3_000_000_000.0,
        "device_temperature_c": 57.0, "device_power_w": 540.0, "device_clock_hz": pytest.approx(2.1e9),
        "device_throttled": 0.0, "device_energy_j": None, "device_other_processes": 1.0,
        "device_power_limit_w": pytest.approx(750.0),
    }  # fmt: skip


@pytest.mark.parametrize("limit", [0, 750, "N/A"])
def test_a_power_limit_under_a_watt_is_none(tmp_path, limit):
    fake = library(get_power_info={"current_socket_power": 540, "power_limit": limit})
    assert "device_power_limit_w" not in read(AmdSmi(fake, tmp_path))


def test_what_is_not_available_is_absent_and_the_rest_stays(tmp_path):
    second_die = library(
        get_power_info={"current_socket_power": "N/A", "average_socket_power": 0},
        get_energy_count={"energy_accumulator": "N/A", "counter_resolution": "N/A"},
        get_gpu_metrics_info=AmdSmiException("not supported"),
        get_clock_info={"cur_clk": 1700},
    )
    told = read(AmdSmi(second_die, tmp_path))
    assert set(told) == {
        "device_utilization", "device_memory_used_bytes", "device_temperature_c", "device_clock_hz",
    }  # fmt: skip
    assert told["device_clock_hz"] == pytest.approx(1.7e9)


@pytest.mark.parametrize("name", ["energy_accumulator", "power"])  # the second is its name before ROCm 6.2
def test_the_energy_counter_counts_once_it_has_moved(tmp_path, name):
    fake = library(get_energy_count={name: 1_000_000, "counter_resolution": 15.3})
    (energy,) = (g for g in AmdSmi(fake, tmp_path).open(None, info()) if g.metric == "device_energy_j")
    assert energy.cumulative
    assert energy.read() is None
    assert energy.read() is None  # stuck: nobody may take that for no energy
    fake.told["get_energy_count"][name] = 2_000_000
    assert energy.read() == pytest.approx(30.6)
    assert energy.read() == pytest.approx(30.6)


def test_other_kinds_have_no_gauges():
    assert AmdSmi(library()).open(1, info("cuda")) == ()
    assert AmdSmi(library()).open(1, None) == ()


def driver_files(root, name="card1", slot="0000:c1:00.0", vendor="0x1002"):
    card = root / name / "device"
    sensors = card / "hwmon" / "hwmon4"
    sensors.mkdir(parents=True)
    for file, text in {
        card / "vendor": vendor, card / "uevent": f"DRIVER=amdgpu\nPCI_SLOT_NAME={slot}\n",
        card / "gpu_busy_percent": "42", card / "mem_info_vram_used": "123456",
        sensors / "temp1_input": "55000", sensors / "power1_average": "301000000",
        sensors / "freq1_input": "1700000000",
    }.items():  # fmt: skip
        file.write_text(text + "\n")
    return sensors


@pytest.mark.parametrize(
    "failing", [KeyError("libamd_smi.so"), OSError("libamd_smi.so"), ImportError("amdsmi"), RuntimeError("no driver")]
)
def test_without_the_library_the_drivers_files_answer(tmp_path, monkeypatch, capsys, failing):
    def start():
        print("Unable to load libamd_smi.so")
        raise failing

    monkeypatch.setitem(sys.modules, "amdsmi", SimpleNamespace(amdsmi_init=start))
    driver_files(tmp_path)
    driver_files(tmp_path, "card0", "0000:03:00.0")
    assert read(AmdSmi(None, tmp_path)) == pytest.approx(
        {
            "device_utilization": 0.42,
            "device_memory_used_bytes": 123456.0,
            "device_temperature_c": 55.0,
            "device_power_w": 301.0,
            "device_clock_hz": 1.7e9,
        }
    )
    assert capsys.readouterr().out == ""


def test_a_newer_driver_tells_power_under_another_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    sensors = driver_files(tmp_path)
    (sensors / "power1_average").rename(sensors / "power1_input")
    assert read(AmdSmi(None, tmp_path))["device_power_w"] == pytest.approx(301.0)


def test_files_fill_in_what_the_library_does_not_tell(tmp_path):
    driver_files(tmp_path)
    silent = library(get_power_info={"average_socket_power": "N/A"})
    told = read(AmdSmi(silent, tmp_path))
    assert told["device_power_w"] == pytest.approx(301.0)
    assert told["device_utilization"] == pytest.approx(0.93)


def test_several_cards_and_no_bus_id_is_no_guess(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    driver_files(tmp_path)
    driver_files(tmp_path, "card2", "0000:05:00.0", vendor="0x10de")
    assert read(AmdSmi(None, tmp_path), device=info(bus_id=None))  # one AMD card beside another vendor's
    driver_files(tmp_path, "card0", "0000:03:00.0")
    assert read(AmdSmi(None, tmp_path), device=info(bus_id=None)) == {}


def test_in_a_container_pids_of_the_host_say_nothing(tmp_path, proc):
    (proc / "self" / "ns").mkdir(parents=True)
    (proc / "self" / "ns" / "pid").touch()  # its inode is not that of the first namespace
    for pids, others in (([70_001], None), ([], None), ([100, 200], 1.0), ([100], 0.0)):
        fake = library(get_gpu_process_list=[{"pid": pid} for pid in pids])
        assert read(AmdSmi(fake, tmp_path, proc), pid=100)["device_other_processes"] == others, pids


def test_in_the_first_namespace_a_card_without_processes_has_none(tmp_path, proc):
    assert read(AmdSmi(library(get_gpu_process_list=[]), tmp_path, proc), pid=100)["device_other_processes"] == 0.0


def test_processes_that_are_not_told_are_absent(tmp_path, proc):
    refusing = library(get_gpu_process_list=AmdSmiException("no permission"))
    assert "device_other_processes" not in read(AmdSmi(refusing, tmp_path, proc), pid=100)


def test_the_list_of_processes_is_left_for_the_time_between_windows(tmp_path, proc):
    gauges = AmdSmi(library(), tmp_path, proc).open(100, info())
    assert [gauge.metric for gauge in gauges if getattr(gauge, "between_windows", False)] == ["device_other_processes"]
