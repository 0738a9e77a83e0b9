"""What every cluster owes: scripts that can be read, a refusal in one line, states that it can be asked for."""

import msgspec
import pytest
from build import a_submission

from torchstone.core.errors import TorchstoneError
from torchstone.core.schema.submission import Job
from torchstone.extend import Cluster
from torchstone.plugins import registry

NAMES = registry.names("clusters")


@pytest.fixture(params=NAMES)
def cluster(request) -> Cluster:
    return registry.load("clusters", request.param)


def test_there_are_slurm_and_ray():
    assert NAMES == ("ray", "slurm")


def test_it_describes_itself_and_what_it_may_be_asked_for(cluster):
    assert cluster.describes
    assert all(name.isidentifier() for name in cluster.takes)


def test_outside_an_allocation_there_are_no_nodes(cluster, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)
    assert list(cluster.allocation()) == []
    assert cluster.spreads in (True, False)


def test_its_scripts_carry_out_every_share_by_torchstone_run(cluster, tmp_path):
    scripts = cluster.scripts(a_submission(), tmp_path)
    assert all(text.endswith("\n") for text in scripts.values())
    assert any("-m torchstone run --plan" in text for text in scripts.values())


def test_its_scripts_are_the_same_again(cluster, tmp_path):
    assert cluster.scripts(a_submission(), tmp_path) == cluster.scripts(a_submission(), tmp_path)


def test_where_it_is_not_here_it_says_so_in_one_line(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:16999")
    for name in ("parts", "ended", "log", "jobs"):
        (tmp_path / name).mkdir()
    submission = a_submission()
    (tmp_path / "plan.json").write_bytes(msgspec.json.encode(submission))
    with pytest.raises(TorchstoneError) as fault:
        cluster.submit(submission, tmp_path, [0])
    assert "\n" not in str(fault.value)
    assert not any((tmp_path / "parts").iterdir())


def test_it_names_no_share_that_a_job_does_not_have(cluster, tmp_path, monkeypatch):
    (tmp_path / "ended").mkdir()
    try:
        found = cluster.states(Job("17", (0, 1), "2026-11-23T19:00:00+00:00"), tmp_path)
    except TorchstoneError:  # its commands are not here
        return
    assert set(found) <= {0, 1}
