"""The kernel's account of memory, from the files of cgroup v1 and v2, of a container, and where there are none."""

from pathlib import Path

import pytest

from torchstone.execution.host_memory import available_bytes, oom_kills

GB = 1 << 30


def a_root(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


MEMINFO = {"proc/meminfo": f"MemTotal: {16 * GB // 1024} kB\nMemAvailable: {8 * GB // 1024} kB\nSwapFree: 1024 kB\n"}
VERSION_1 = {
    "proc/self/cgroup": "4:cpu,memory:/a/b\n0::/\n",
    "proc/vmstat": "oom_kill 5\n",
    "sys/fs/cgroup/memory/a/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": str(3 * GB),
    "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": str(2 * GB),
    "sys/fs/cgroup/memory/a/b/memory.stat": f"total_cache {GB + 512}\ntotal_shmem 512\n",
    "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 7\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": str(9 * GB),
}
VERSION_2 = {
    "proc/self/cgroup": "0::/a/b\n",
    "proc/vmstat": "oom_kill 5\n",
    "sys/fs/cgroup/a/b/memory.events": "max 3\noom 1\noom_kill 1\n",
    "sys/fs/cgroup/a/b/memory.max": "max\n",
    "sys/fs/cgroup/a/b/memory.current": str(GB),
    "sys/fs/cgroup/a/memory.max": str(4 * GB),
    "sys/fs/cgroup/a/memory.current": str(3 * GB),
    "sys/fs/cgroup/a/memory.stat": f"anon {2 * GB}\nfile {GB}\nshmem 0\n",
}
IN_A_CONTAINER = {
    "proc/self/cgroup": "0::/../elsewhere\n",
    "sys/fs/cgroup/memory.events": "oom_kill 4\n",
    "sys/fs/cgroup/memory.max": str(GB),
    "sys/fs/cgroup/memory.current": str(2 * GB),
}


@pytest.mark.parametrize(
    ("files", "kills", "available"),
    [
        (MEMINFO, (), 8 * GB + (1 << 20)),
        (MEMINFO | VERSION_1, (2, 5), 2 * GB + (1 << 20)),
        (MEMINFO | VERSION_2, (1, 5), 2 * GB + (1 << 20)),
        (MEMINFO | IN_A_CONTAINER, (4,), 1 << 20),
        ({}, (), None),
    ],
)
def test_the_nearest_limit_counts(tmp_path, files, kills, available):
    root = a_root(tmp_path, files)
    assert oom_kills(root) == kills
    assert available_bytes(root) == available
