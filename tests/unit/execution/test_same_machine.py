"""What must be the same for a run to go on: the host, the devices in use, the libraries, the settings."""

import msgspec
from build import a_machine

from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.machine_facts import of_devices, of_host

CARDS = tuple(DeviceInfo("cuda", "cuda", "nvidia", n, "H200", 2**37, uuid=f"GPU-{n}") for n in range(2))
THEN = a_machine(devices=CARDS, software={"torch": "2.9.0", "python": "3.11.7", "numpy": "2.0"}, settings={"aslr": "2"})


def test_the_same_machine_differs_in_nothing():
    assert of_host(THEN, THEN.host, THEN.settings) == []
    assert of_devices(THEN, THEN, [Placement("cuda", 0)]) == []


def test_each_difference_is_named():
    host = msgspec.structs.replace(THEN.host, hostname="b", memory_bytes=None)
    assert of_host(THEN, host, {"OMP_NUM_THREADS": "1"}) == [
        "hostname was host, is b",
        f"memory_bytes was {16 * 2**30}, is None",
        "aslr was 2, is None",
        "OMP_NUM_THREADS was None, is 1",
    ]


def test_only_devices_in_use_and_libraries_that_compute_count():
    other = msgspec.structs.replace(CARDS[1], uuid="GPU-9", name="H100")
    now = a_machine(devices=(CARDS[0], other), software={"torch": "2.10.0", "python": "3.11.7", "numpy": "2.1"})
    assert of_devices(THEN, now, [Placement("cuda", 0)]) == ["torch was 2.9.0, is 2.10.0"]
    assert "cuda:1 name was H200, is H100" in of_devices(THEN, now, [Placement("cuda", 1)])
    gone = a_machine(software=THEN.software)
    assert "cuda:0 name was H200, is None" in of_devices(THEN, gone, [Placement("cuda", 0)])
