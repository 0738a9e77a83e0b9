"""Agents of further nodes: real processes on this machine, and what of them is refused."""

import sys
import types

import msgspec
import pytest
from allocated import an_allocation
from build import a_machine

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.execution.controller import nodes as nodes_launcher
from torchstone.execution.controller.nodes import SpreadLauncher, nodes_of
from torchstone.plugins.launchers.spawn import Spawn
from torchstone.plugins.machine_protocols import Node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked")
HERE = Node("n1", "127.0.0.1")


def with_agent(command=()):
    launcher = SpreadLauncher(Spawn(), [HERE, Node("n2", "127.0.0.1", command)], Procedure(isolation="spawn"))
    launcher.open([], "default")
    return launcher


def test_an_agent_tells_what_it_runs_on_and_ends_with_its_controller():
    launcher = with_agent()
    (peer,) = launcher._peers
    machine = peer.ready()
    assert machine.host.hostname
    assert {"torch", "python"} <= set(machine.software)
    launcher.compare(machine)
    launcher.close()
    assert peer._process.returncode == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("sh", "-c", "echo oh >&2; exit 3"), "node n2: its agent ended with exit code 3; the lines above say why"),
        (("sh", "-c", 'read line; echo \'{"answer":"refused","why":"no disk"}\''), "node n2: no disk"),
        (("true",), "node n2: its agent ended with exit code 0"),
    ],
)
def test_an_agent_that_cannot_start_says_why(command, says):
    launcher = with_agent(command)
    with pytest.raises(MissingError, match=says):
        launcher.ready()
    launcher.close()


def test_a_command_that_is_not_there_is_named():
    launcher = SpreadLauncher(Spawn(), [HERE, Node("n2", "127.0.0.1", ("no-such-srun",))], Procedure())
    with pytest.raises(MissingError, match="no-such-srun not found"):
        launcher.open([], "default")


@pytest.fixture
def beside(monkeypatch):
    """Make a launcher with one further node of this Machine."""

    def make(machine):
        peer = types.SimpleNamespace(node=Node("n2", "127.0.0.1"), ready=lambda: machine, close=lambda: None)
        monkeypatch.setattr(nodes_launcher, "Peer", lambda *_: peer)
        launcher = SpreadLauncher(Spawn(), [HERE, peer.node], Procedure())
        launcher.open([], "default")
        return launcher

    return make


def test_another_torch_is_refused(beside):
    here = a_machine()
    there = msgspec.structs.replace(here, software={**here.software, "torch": "2.1.0"})
    with pytest.raises(MissingError, match=r"node n2 has torch 2\.1\.0, this one .*: install one of them"):
        beside(there).compare(here)


def test_nodes_of_other_kinds_are_told(beside):
    here = a_machine()
    there = msgspec.structs.replace(here, devices=(*here.devices, DeviceInfo("cuda", "cuda", "NVIDIA", 0, "H100")))
    launcher = beside(there)
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
