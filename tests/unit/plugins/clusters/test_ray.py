"""Ray: what a task asks for, and what of Ray's settings reaches what is measured. Without Ray."""

import os
import sys

import msgspec
import pytest
from build import a_case, a_submission

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.run import Plan
from torchstone.core.schema.submission import Job
from torchstone.plugins import registry
from torchstone.plugins.clusters.ray import _aside, _connect, _placeable, _resources, share_environment

RAY = registry.load("clusters", "ray")


class FakeRay:
    """A cluster with these resources a node."""

    def __init__(self, *nodes):
        self._nodes = nodes

    def nodes(self):
        return [{"Alive": True, "Resources": node} for node in self._nodes]


def on(device, **wanted):
    plan = Plan((a_case(placement=Placement(device)),), ())
    head = msgspec.structs.replace(a_submission().head, plan=plan)
    return a_submission(head=head, shares=((0,),), cluster="ray", wanted=wanted)


A100 = {"CPU": 8, "GPU": 1, "accelerator_type:A100": 1}
H100 = {"CPU": 8, "GPU": 1, "accelerator_type:H100": 1}


def test_a_task_for_an_accelerator_asks_for_one():
    assert _resources(on("cpu")) == {"num_cpus": 1}
    assert _resources(on("cuda", cpus="4", accelerator_type="A100")) == {
        "num_cpus": 4, "num_gpus": 1, "accelerator_type": "A100",
    }  # fmt: skip


def test_which_kind_is_measured_must_not_be_open():
    _placeable(FakeRay(A100, A100), on("cuda"))
    _placeable(FakeRay(A100, H100), on("cuda", accelerator_type="H100"))
    _placeable(FakeRay(A100, H100), on("cpu"))
    with pytest.raises(UsageError, match="the cluster has A100, H100: name the one to measure"):
        _placeable(FakeRay(A100, H100), on("cuda"))


def test_what_no_node_has_is_refused_and_not_waited_for():
    with pytest.raises(UsageError, match=r"--accelerator-type B200: no node has one\. Here: A100"):
        _placeable(FakeRay(A100), on("cuda", accelerator_type="B200"))
    with pytest.raises(UsageError, match="no node of the Ray cluster has num_cpus=1, num_gpus=1"):
        _placeable(FakeRay({"CPU": 8}), on("cuda"))


def test_what_ray_sets_does_not_reach_what_is_measured():
    found = {"RAY_ADDRESS": "x", "_RAY_Y": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": "/root"}
    assert share_environment(found, None) == {"HOME": "/root"}
    assert share_environment(found, "3") == {"HOME": "/root", "OMP_NUM_THREADS": "3"}
    assert share_environment({"CUDA_VISIBLE_DEVICES": "2"}, None) == {
        "CUDA_VISIBLE_DEVICES": "2"
    }  # the card that it got


def test_without_ray_the_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingError, match=r"Ray is not installed; type: pip install 'torchstone\[ray\]'"):
        RAY.submit(on("cpu"), tmp_path, [0])


def test_a_cluster_that_is_not_there_is_told_at_once():
    with pytest.raises(MissingError, match=r"no Ray cluster at 127\.0\.0\.1:16999"):
        _connect(FakeRay(), "127.0.0.1:16999")


def test_a_task_without_an_exit_status_is_lost(tmp_path):
    (tmp_path / "ended").mkdir()
    for share, status in enumerate("012"):
        (tmp_path / "ended" / f"{share}.ray1").write_text(f"{status}\n")
    found = RAY.states(Job("ray1", (0, 1, 3), ""), tmp_path)
    assert {share: state.word for share, state in found.items()} == {0: "COMPLETED", 1: "FAILED", 3: "LOST"}


def test_what_rays_own_code_writes_goes_to_a_file(tmp_path, capfd):
    with pytest.raises(KeyboardInterrupt), _aside(tmp_path / "ray.txt"):
        os.write(2, b"a dump of sixty lines\n")
        raise KeyboardInterrupt
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
    assert (tmp_path / "ray.txt").read_text() == "a dump of sixty lines\n"
