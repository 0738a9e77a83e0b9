"""Intel GPUs from files as the i915 and xe drivers show them."""

import pytest

from torchstone.core.schema.machine import DeviceInfo
from torchstone.plugins.telemetry.intel_gpu import IntelGpu


def info(kind="xpu", bus_id="0000:03:00.0"):
    return DeviceInfo(kind, "xpu", "Intel", 0, "Intel Arc A770", bus_id=bus_id)


def card(root, name="card0", slot="0000:03:00.0", **files):
    folder = root / name
    for file, text in {"device/vendor": "0x8086", "device/uevent": f"DRIVER=xe\nPCI_SLOT_NAME={slot}", **files}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"{text}\n", encoding="ascii")
    return folder


I915 = {
    "device/hwmon/hwmon3/energy1_input": "5000000", "device/hwmon/hwmon3/power1_max": "190000000",
    "device/hwmon/hwmon3/in0_input": "800", "gt/gt0/rps_act_freq_mhz": "2400",
}  # fmt: skip
XE = {
    "device/hwmon/hwmon3/energy1_input": "0", "device/hwmon/hwmon3/energy2_input": "7000000",
    "device/hwmon/hwmon3/power1_cap": "0", "device/hwmon/hwmon3/power1_max": "225000000",
    "device/hwmon/hwmon3/temp2_input": "61000", "device/tile0/gt0/freq0/act_freq": "2850",
}  # fmt: skip


def read(root, device=None):
    return {gauge.metric: gauge.read() for gauge in IntelGpu(root).open(1, device or info())}


def test_of_i915(tmp_path):
    card(tmp_path, **I915)
    assert read(tmp_path) == {
        "device_energy_j": 5.0, "device_power_limit_w": pytest.approx(190.0), "device_clock_hz": 2.4e9,
    }  # fmt: skip
    (energy,) = [gauge for gauge in IntelGpu(tmp_path).open(1, info()) if gauge.metric == "device_energy_j"]
    assert energy.cumulative


def test_of_xe_the_package_where_the_card_has_no_counter(tmp_path):
    card(tmp_path, **XE)
    assert read(tmp_path) == {
        "device_energy_j": 7.0, "device_power_limit_w": pytest.approx(225.0), "device_clock_hz": 2.85e9,
        "device_temperature_c": 61.0,
    }  # fmt: skip


def test_the_card_is_found_by_its_bus_and_guessed_only_where_it_is_alone(tmp_path):
    card(tmp_path, **I915)
    card(tmp_path, "card1", "0000:04:00.0", **XE)
    card(tmp_path, "card0-HDMI-A-1", "0000:03:00.0")
    card(tmp_path, "card2", "0000:05:00.0", **{"device/vendor": "0x1002"})
    assert read(tmp_path)["device_energy_j"] == 5.0
    assert read(tmp_path, info(bus_id="0000:04:00.0"))["device_energy_j"] == 7.0
    assert read(tmp_path, info(bus_id=None)) == {}, "the order of /sys is not that of torch"


def test_other_kinds_and_no_driver(tmp_path):
    assert IntelGpu(tmp_path).open(1, info("cuda")) == ()
    assert IntelGpu(tmp_path).open(1, None) == ()
    card(tmp_path)
    assert read(tmp_path) == {}


def test_a_card_that_sleeps_when_it_is_found_has_its_clock_later(tmp_path):
    folder = card(tmp_path, **{**I915, "gt/gt0/rps_act_freq_mhz": "0"})
    (clock,) = [gauge for gauge in IntelGpu(tmp_path).open(1, info()) if gauge.metric == "device_clock_hz"]
    assert clock.read() is None, "no clock is another thing than one of 0 Hz"
    (folder / "gt/gt0/rps_act_freq_mhz").write_text("2400\n", encoding="ascii")
    assert clock.read() == 2.4e9
