"""How many threads are worth having: a made-up /sys and /proc, and what is said of them."""

import os

import pytest

from torchstone.plugins.devices._cores import worthwhile


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes a machine: who shares a core with whom, which CPUs are ours, its control groups."""

    def make(siblings, ours=None, groups="0::/\n", limits=None):
        for cpu, shared in enumerate(siblings):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{shared}\n")
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
        for path, text in (limits or {}).items():
            file = tmp_path / "sys/fs/cgroup" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        allowed = set(range(len(siblings))) if ours is None else set(ours)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed, raising=False)
        return tmp_path

    return make


def test_one_thread_a_core_not_one_a_hyperthread(machine):
    pairs = ["0,4", "1,5", "2,6", "3,7"] * 2
    assert worthwhile(machine(pairs), {}) == (4, "the physical cores of 8 logical ones")


def test_cores_without_hyperthreads_are_all_worth_having(machine):
    assert worthwhile(machine(["0", "1"]), {}) == (2, "one a core")


def test_only_the_cores_that_are_ours_count(machine):
    root = machine(["0,4", "1,5", "2,6", "3,7"] * 2, ours={0, 4, 1})
    assert worthwhile(root, {}) == (2, "the physical cores of 3 logical ones")


@pytest.mark.parametrize(
    ("groups", "limits", "threads"),
    [
        ("0::/box/inner\n", {"box/cpu.max": "150000 100000\n", "box/inner/cpu.max": "max 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 4),
        ("0::/\n", {"cpu.max": "900000 100000\n"}, 4),
        (
            "4:cpu,cpuacct:/box\n2:memory:/other\n",
            {"cpu/box/cpu.cfs_quota_us": "100000\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            1,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
    ],
    ids=["an outer group's, rounded up", "no limit", "more than there is", "version 1", "version 1 without"],
)
def test_no_more_threads_than_the_control_groups_allow(machine, groups, limits, threads):
    found = worthwhile(machine(["0", "1", "2", "3"], groups=groups, limits=limits), {})
    assert found is not None
    number, why = found
    assert number == threads
    assert ("control group" in why) == (threads < 4)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_what_the_user_said_to_torch_stands(machine, name):
    root = machine(["0,1", "0,1"])
    assert worthwhile(root, {name: "2"}) is None
    assert worthwhile(root, {name: ""}) == (1, "the physical cores of 2 logical ones")


def test_nobody_can_tell(machine, tmp_path, monkeypatch):
    machine(["0"], ours={0, 9})  # CPU 9 has no page
    assert worthwhile(tmp_path, {}) is None
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # macOS
    assert worthwhile(tmp_path, {}) is None


def test_without_control_groups_there_is_no_limit(machine):
    root = machine(["0", "1"])
    (root / "proc/self/cgroup").unlink()
    assert worthwhile(root, {}) == (2, "one a core")
