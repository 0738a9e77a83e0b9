import json

import pytest
from fake_steps import here
from run_sheet import machine
from run_sheet.here import Done

# As `nvidia-smi -q` of driver 580 has it, shortened.
SMI = """
==============NVSMI LOG==============

Driver Version                                         : 580.65.06
CUDA Version                                           : 13.0

Attached GPUs                                          : 1
GPU 00000000:1B:00.0
    Product Name                                       : NVIDIA H200
    Persistence Mode                                   : Enabled
    MIG Mode
        Current                                        : Disabled
        Pending                                        : Disabled
    GPU Virtualization Mode
        Virtualization Mode                            : Pass-Through
        Host VGPU Mode                                 : N/A
    Compute Mode                                       : Default
    ECC Mode
        Current                                        : Enabled
        Pending                                        : Enabled
    GPU Power Readings
        Average Power Draw                             : 120.34 W
        Current Power Limit                            : 700.00 W
        Max Power Limit                                : 700.00 W
    Max Clocks
        Graphics                                       : 1980 MHz
        SM                                             : 1980 MHz
"""


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("Driver Version", "580.65.06"), ("Compute Mode", "Default"), ("MIG Mode", "Disabled"),
        ("Current Power Limit", 700.0), ("SM", 1980.0), ("Virtualization Mode", "Pass-Through"),
        ("Host VGPU Mode", None), ("No Such Line", None), ("Current ECC|ECC Mode", "Enabled"),
    ],
)  # fmt: skip
def test_the_driver_tools_lines_are_read(line, value):
    assert machine.value_of(SMI, line) == value


def test_a_card_without_mig_says_so_in_its_own_word():
    assert machine.value_of("    MIG Mode\n        Current       : N/A\n", "MIG Mode") is None


def answered(found, missing):
    text = json.dumps({
        "machine": {
            "devices": found, "host": {"logical_cores": 16, "memory_bytes": 1}, "software": {"torch": "2.11.0"}
        },
        "missing": missing,
    })  # fmt: skip
    return lambda *_, **__: Done((), 0, text, "", 1.0)


def test_a_machine_without_the_device_says_what_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    step = here(device="cuda", folder=tmp_path, torchstone=answered([{"kind": "cpu"}], {"cuda": "no driver"}))
    machine.facts(step)
    assert (step.told["devices"], step.told["missing"]) == (0, "no driver")
    assert step.told["driver_tool"] == "no nvidia-smi"
    assert "device_name" not in step.told


def test_the_first_device_of_the_kind_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/nvidia-smi")
    card = {"kind": "cuda", "name": "NVIDIA H200", "memory_bytes": 150e9, "uuid": "GPU-1", "runtime": "13.0"}
    step = here(
        device="cuda", folder=tmp_path, torchstone=answered([{"kind": "cpu"}, card], {}),
        run=lambda *_, **__: Done((), 0, SMI, "", 1.0),
    )  # fmt: skip
    machine.facts(step)
    assert (step.told["devices"], step.told["device_name"]) == (1, "NVIDIA H200")
    assert (step.told["compute_mode"], step.told["mig_mode"], step.told["power_limit_w"]) == (
        "Default",
        "Disabled",
        700.0,
    )
    assert (tmp_path / "driver.txt").read_text() == SMI
