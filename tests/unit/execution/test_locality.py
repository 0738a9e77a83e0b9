"""Where a device sits, from files as Linux shows them; and keeping a process to cores."""

import os
from pathlib import Path

import pytest
from stored import CARD

from torchstone.core.cores import cores_of, cores_text
from torchstone.core.errors import UsageError
from torchstone.core.schema.machine import DeviceInfo
from torchstone.execution.inspection import keep_to, located, numa_nodes, usable_cores, wanted

GPU = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "NVIDIA H200", bus_id="0000:3B:00.0")


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """A node of two sockets with 4 logical cores each, and a card beside the second."""
    for node, cores in ((0, "0-1,4-5"), (1, "2-3,6-7"), (2, "")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cores}\n", encoding="ascii")
    card = tmp_path / "bus/pci/devices/0000:3b:00.0"
    card.mkdir(parents=True)
    (card / "numa_node").write_text("1\n", encoding="ascii")
    (card / "local_cpulist").write_text("2-3,6-7\n", encoding="ascii")
    return tmp_path


def test_a_device_knows_its_node_and_the_cores_beside_it(sys):
    found = located(GPU, sys)
    assert (found.numa_node, found.local_cpus) == (1, "2-3,6-7")
    (sys / "bus/pci/devices/0000:3b:00.0/numa_node").write_text("-1\n", encoding="ascii")
    assert located(GPU, sys).numa_node is None, "-1 is: the firmware does not tell"
    assert located(CARD, sys) == CARD, "no bus, no place"
    assert located(GPU, sys / "nowhere") == GPU


def test_nodes_and_what_words_mean_on_them(sys):
    assert numa_nodes(sys) == {0: (0, 1, 4, 5), 1: (2, 3, 6, 7)}
    assert wanted("node:1", None, sys) == (2, 3, 6, 7)
    assert wanted("device", located(GPU, sys), sys) == (2, 3, 6, 7)
    assert wanted("0-1", None, sys) == (0, 1)
    with pytest.raises(UsageError, match="no such NUMA node; there are: node:0, node:1"):
        wanted("node:7", None, sys)
    with pytest.raises(UsageError, match="does not tell which cores are next to NVIDIA H200"):
        wanted("device", GPU, sys)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_process_keeps_to_its_cores():
    ours = os.sched_getaffinity(0)
    one = min(ours)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, keep_to(str(one), None).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert cores_of(os.read(read, 100).decode()) == (one,)
    assert os.sched_getaffinity(0) == ours
    os.close(read)
    os.close(write)
    with pytest.raises(UsageError, match=f"none of the cores 60000 is among ours, {cores_text(ours)}"):
        usable_cores("60000", None)
