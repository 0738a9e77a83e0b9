"""What stands for devices on a machine, and processes of them that fail or answer."""

import socket
from typing import Any

import msgspec
import pytest
from build import a_machine
from stored import CARD, PROCESSOR

from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.message import BurstDone, Ended, Entered
from torchstone.core.schema.trial import Outcome, Status
from torchstone.workflows.machine_check.examination import CheckedUnit, Processes, units_of

CPU = Placement("cpu")


def sys_of(folder, nodes, siblings=()):
    for node, cores in enumerate(nodes):
        path = folder / f"devices/system/node/node{node}"
        path.mkdir(parents=True)
        (path / "cpulist").write_text(cores, encoding="ascii")
    for core, text in enumerate(siblings):
        path = folder / f"devices/system/cpu/cpu{core}/topology"
        path.mkdir(parents=True)
        (path / "thread_siblings_list").write_text(text, encoding="ascii")
    return folder


def test_accelerators_go_before_the_cpu():
    cards = (CARD, msgspec.structs.replace(CARD, index=1))
    what, units = units_of(a_machine(devices=(PROCESSOR, *cards)))
    assert what == "devices"
    assert [unit.word for unit in units] == ["cuda:0", "cuda:1"]


def test_without_them_the_numa_nodes_else_the_physical_cores(tmp_path):
    machine, ours = a_machine(devices=(PROCESSOR,)), frozenset(range(4))
    what, units = units_of(machine, sys_of(tmp_path / "two", ("0-1", "2-3", "")), ours)
    assert (what, [unit.cores for unit in units]) == ("NUMA nodes", [(0, 1), (2, 3)])
    one = sys_of(tmp_path / "one", ("0-3",), ("0,2", "1,3", "0,2", "1,3"))
    what, units = units_of(machine, one, ours)
    assert (what, [unit.cores for unit in units]) == ("cores", [(0,), (1,)])
    assert [unit.word for unit in units_of(machine, one, frozenset({3}))[1]] == ["core 3"]
    many = units_of(machine, tmp_path / "none", frozenset(range(100)))[1]
    assert len(many) == 16
    assert sorted(core for unit in many for core in unit.cores) == list(range(100))


class Live:
    """A process that says these things, a list of events a read, and hears what it is told."""

    def __init__(self, *said):
        self._said, self.pid = list(said), 0
        self.facts: dict[str, Any] = {}
        self._ours, self.theirs = socket.socketpair()
        self.theirs.send(b"x")

    def fileno(self):
        return self._ours.fileno()

    def events(self):
        return self._said.pop(0) if self._said else None

    def ask_where(self):
        pass

    def kill(self):
        pass

    def ending(self):
        self._ours.close()
        self.theirs.close()


def test_processes_answer_in_the_order_they_were_asked():
    rates = [{"products": 1.0}, {"products": 2.0}]
    live: list[Any] = [Live([Entered("ready", 0.0)], [BurstDone(one)]) for one in rates]
    processes = Processes(live, [CheckedUnit("a", "A", CPU), CheckedUnit("b", "B", CPU)])
    processes.ready()
    assert processes.burst([1, 0]) == [rates[1], rates[0]]
    assert b'"burst"' in live[0].theirs.recv(1000)
    processes.close()


def test_a_process_that_fails_is_named_with_its_reason():
    lost: Any = Live([Ended(Outcome(Status.CRASHED, "CUDA error: out of memory"))])
    processes = Processes([lost], [CheckedUnit("cuda:3", "NVIDIA H200", CPU)])
    with pytest.raises(TorchstoneError, match=r"cuda:3 \(NVIDIA H200\): CUDA error: out of memory"):
        processes.ready()
    processes.close()
