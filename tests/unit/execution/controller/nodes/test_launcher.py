"""Workers of further nodes: real processes on this machine, and what of them is refused."""

import os
import sys

import msgspec
import psutil
import pytest
from allocated import an_allocation
from build import a_machine

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.codec import encode
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import BurstRequest, Ended, Entered, Inspected, InspectRequest
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.controller import nodes as nodes_launcher
from torchstone.execution.controller.nodes import SpreadLauncher, inspected, nodes_of
from torchstone.plugins.launchers.spawn import NodeTrial, Spawn
from torchstone.plugins.machine_protocols import Node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked")
HERE = Node("n1", "127.0.0.1")
REFUSAL = encode(Ended(Outcome(Status.CRASHED, "no disk"))).decode()


def with_node(command=()):
    launcher = SpreadLauncher(Spawn(), [HERE, Node("n2", "127.0.0.1", command)])
    launcher.open([], "default")
    return launcher


def test_a_worker_of_a_node_says_what_is_there_and_leaves_nothing():
    live = NodeTrial(Node("n2", "127.0.0.1"), InspectRequest(), os.environ)
    found = inspected(live, "node n2")
    assert {"torch", "python"} <= set(found.software)
    assert found.devices
    assert not psutil.pid_exists(live.pid)


def test_the_end_of_stdin_ends_a_worker():
    live = NodeTrial(Node("n2", "127.0.0.1"), BurstRequest(Placement("cpu", 0)), os.environ)
    while not any(isinstance(event, Entered) for event in live.events() or ()):
        pass
    assert live.ending() == "killed by SIGKILL"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("sh", "-c", "echo oh >&2; exit 3"), "node n2 could not be inspected: exited with code 3"),
        (("sh", "-c", f"read line; echo '{REFUSAL}'"), "node n2 could not be inspected: no disk"),
    ],
)
def test_a_node_that_cannot_start_says_why(command, says):
    with pytest.raises(MissingError, match=says):
        with_node(command).compare(a_machine())


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(MissingError, match="no-such-srun not found"):
        with_node(("no-such-srun",)).compare(a_machine())


@pytest.fixture
def another(monkeypatch):
    """Make a launcher with one further node, on which there is what the Machine has."""

    def make(machine):
        found = Inspected(machine.devices, machine.software, {})
        monkeypatch.setattr(Spawn, "start_on", lambda *_: None)
        monkeypatch.setattr(nodes_launcher, "inspected", lambda *_: found)
        return with_node()

    return make


def test_another_torch_is_refused(another):
    here = a_machine()
    there = msgspec.structs.replace(here, software={**here.software, "torch": "2.1.0"})
    with pytest.raises(MissingError, match=r"node n2 has torch 2\.1\.0, this one .*: install one of them"):
        another(there).compare(here)


def test_nodes_of_other_kinds_are_told(another):
    here = a_machine()
    there = msgspec.structs.replace(here, devices=(*here.devices, DeviceInfo("cuda", "cuda", "NVIDIA", 0, "H100")))
    launcher = another(there)
    launcher.compare(here)
    assert launcher._facts.unlike_nodes[1].startswith("n2: ")
    assert "1 × H100" in launcher._facts.unlike_nodes[1]
    launcher.compare(there)
    assert launcher._facts == Facts()


def test_the_nodes_are_those_of_the_allocation(tmp_path, monkeypatch):
    an_allocation(tmp_path, monkeypatch)
    assert [node.name for node in nodes_of(2)] == ["n1", "n2"]
    assert nodes_of(2)[1].address == "127.0.0.1"
    with pytest.raises(UsageError, match="nodes=3: the allocation has 2: n1, n2"):
        nodes_of(3)
    monkeypatch.delenv("SLURMD_NODENAME")  # salloc on a machine that is no node of the allocation
    with pytest.raises(UsageError, match="needs an allocation of a cluster: torchstone submit"):
        nodes_of(2)
