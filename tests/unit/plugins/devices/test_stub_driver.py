"""The probe on a driver of a few C functions, in the ways in which drivers fail; torch is of paper, pynvml is real.

Each case is a process of its own, as the probe is. Not run on real drivers.
"""

import json

import pytest
from stub_driver import CARD, SLICE, environment, initialised_by, python, write_torch

PROBE = """
import json, sys
from torchstone.execution import inspection
from torchstone.plugins.devices import cuda

found = inspection.inspect()
cards = [d for d in found.devices if d.kind == "cuda"]
print(json.dumps({
    "cards": [(d.index, d.name, d.uuid, d.bus_id, d.driver) for d in cards],
    "missing": found.missing.get("cuda"), "seen": found.seen.get("cuda"), "unusable": found.unusable,
}))
"""


@pytest.fixture
def probed(driver_folder, tmp_path):
    """Return what the inspection finds on a stub driver that fails in a way."""
    write_torch(tmp_path)

    def probe(**how):
        where = environment(driver_folder, path=tmp_path, STUB_LOG=str(tmp_path / "log"), **how)
        return json.loads(python(PROBE, where))

    return probe


def test_a_healthy_card_is_found_and_asked_once(probed, tmp_path):
    found = probed(STUB_CARDS="2")
    assert found["cards"] == [
        [0, "NVIDIA Stub 0", f"GPU-{CARD}0", "0000:01:00.0", "580.65.06"],
        [1, "NVIDIA Stub 1", f"GPU-{CARD}1", "0000:02:00.0", "580.65.06"],
    ]
    assert (found["missing"], found["seen"], found["unusable"]) == (None, None, None)
    assert len(initialised_by(tmp_path / "log")) == 1


def test_a_count_that_shrinks_at_initialisation_leaves_the_others(probed):
    found = probed(STUB_CARDS="3", STUB_DRIVER="shrinks")
    assert [card[1] for card in found["cards"]] == ["NVIDIA Stub 0", "NVIDIA Stub 1"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("no_device", "is built for CUDA 13.0 but sees no device; NVIDIA driver 580.65.06 is there"),
        ("too_old", "cannot start the device: The NVIDIA driver on your system is too old (found version 11040)"),
        ("not_permitted", "cannot start the device: CUDA error: operation not permitted"),
    ],
)
def test_a_card_that_does_not_start_is_told_with_the_words_of_the_driver(probed, how, said):
    found = probed(STUB_DRIVER=how)
    assert found["cards"] == []
    assert said in found["missing"]
    assert found["seen"] == "NVIDIA Stub 0 (by NVML)"
    assert found["unusable"] == f"torch cannot use NVIDIA Stub 0 (by NVML): {found['missing']}"


def test_a_card_in_error_is_lost_when_a_trial_opens_it(driver_folder, tmp_path):
    write_torch(tmp_path)
    code = (
        "from torchstone.plugins.devices import cuda\n"
        "from torchstone.execution.worker.outcome import ended_by\n"
        "try:\n    cuda.PLUGIN.open(0)\n"
        "except Exception as error:\n    print(ended_by(error).outcome.message)\n"
    )
    said = python(code, environment(driver_folder, path=tmp_path, STUB_DRIVER="ecc"))
    assert said.startswith("the device was lost: RuntimeError: CUDA error: uncorrectable ECC error encountered")


def test_without_a_driver_there_is_none_and_nothing_is_seen(probed):
    found = probed(STUB_NVML="no_driver", STUB_DRIVER="no_device")
    assert found["cards"] == []
    assert "no NVIDIA driver found (NVML: DriverNotLoaded)" in found["missing"]


GAUGES = """
import json
from torchstone.plugins.telemetry.nvml import Nvml
from torchstone.core.schema.machine import DeviceInfo

device = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA Stub", uuid={uuid!r}, bus_id={bus!r})
room = Nvml().room(device)
print(json.dumps([
    {{gauge.metric: gauge.read() for gauge in Nvml().open(None, device)}},
    room and [room.shared, room.free_bytes >> 30, room.total_bytes >> 30],
]))
"""
OF_A_CARD = {
    "device_utilization": 0.55, "device_power_w": 300.0, "device_power_limit_w": 700.0, "device_energy_j": 123.456,
    "device_memory_used_bytes": 8 * 2.0**30,
}  # fmt: skip


@pytest.mark.parametrize(
    ("uuid", "bus", "how", "told", "room"),
    [
        (f"GPU-{CARD}0", None, {}, OF_A_CARD, [True, 72, 80]),
        (f"GPU-{CARD}0", None, {"STUB_MODE": "3"}, OF_A_CARD, [False, 72, 80]),
        # torch writes the UUID of a slice like that of a card.
        (f"GPU-{SLICE}", None, {"STUB_NVML": "mig"}, {"device_memory_used_bytes": 1 * 2.0**30}, [True, 9, 10]),
        (None, "0000:01:00.0", {"STUB_NVML": "mig"}, {}, None),
    ],
    ids=["a card", "a card for one process", "a slice", "a slice of which only the card is known"],
)
def test_the_whole_cards_figures_are_not_booked_on_a_slice(driver_folder, uuid, bus, how, told, room):
    gauges, left = json.loads(python(GAUGES.format(uuid=uuid, bus=bus), environment(driver_folder, **how)))
    assert {name: value for name, value in gauges.items() if name in OF_A_CARD} == pytest.approx(told)
    assert gauges["device_temperature_c"] == 61.0, "the slice is as hot as the card"
    assert left == room
