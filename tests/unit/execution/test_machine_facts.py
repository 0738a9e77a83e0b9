import subprocess
import sys

import pytest

from torchstone.execution import machine_facts


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_this_host():
    host = machine_facts.host()
    assert host.hostname
    assert host.logical_cores is None or host.logical_cores >= 1
    assert host.memory_bytes is None or host.memory_bytes > 100_000_000


def test_a_host_of_two_cores_with_two_threads_each(tmp_path):
    cpus = tmp_path / "sys/devices/system/cpu"
    for cpu in range(4):
        write(cpus / f"cpu{cpu}/topology/physical_package_id", "0\n")
        write(cpus / f"cpu{cpu}/topology/core_id", f"{cpu % 2}\n")
        write(cpus / f"cpu{cpu}/cpufreq/scaling_governor", "powersave\n" if cpu else "performance\n")
    write(tmp_path / "proc/cpuinfo", "processor: 0\nmodel name\t: AMD EPYC 9654\n")
    host = machine_facts.host(tmp_path)
    assert (host.physical_cores, host.processor, host.governor) == (2, "AMD EPYC 9654", "performance+powersave")


def test_only_variables_that_move_timings_are_kept():
    kept = {
        "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "MALLOC_TOP_PAD_": "1", "CUDA_VISIBLE_DEVICES": "",
        "PYTORCH_CUDA_ALLOC_CONF": "x", "PYTORCH_ALLOC_CONF": "y", "PYTORCH_HIP_ALLOC_CONF": "z", "KMP_BLOCKTIME": "0",
    }  # fmt: skip
    others = {"PATH": "/bin", "HF_TOKEN": "secret", "XOMP_NUM_THREADS": "1", "AWS_SECRET_ACCESS_KEY": "secret"}
    told = machine_facts.settings({**kept, **others})
    assert {name: told[name] for name in told if name.isupper()} == kept


def test_switches_of_the_kernel(tmp_path):
    write(tmp_path / "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(tmp_path / "proc/sys/kernel/randomize_va_space", "2\n")
    write(tmp_path / "proc/sys/vm/swappiness", "60\n")
    told = machine_facts.settings({}, tmp_path)
    assert (told["transparent_hugepages"], told["aslr"], told["swappiness"]) == ("madvise", "2", "60")
    assert (told["turbo"], told["cgroup_cpu_max"], told["smt"]) == (None, None, None)


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("intel_pstate/no_turbo", "1", "off"), ("intel_pstate/no_turbo", "0", "on"),
        ("cpufreq/boost", "1", "on"), ("cpufreq/boost", "0", "off"),
    ],
)  # fmt: skip
def test_turbo_has_two_spellings(tmp_path, file, text, turbo):
    write(tmp_path / "sys/devices/system/cpu" / file, f"{text}\n")
    assert machine_facts.settings({}, tmp_path)["turbo"] == turbo


def test_the_limit_of_the_control_group(tmp_path):
    write(tmp_path / "proc/self/cgroup", "0::/user.slice/job:1\n")
    write(tmp_path / "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert machine_facts.settings({}, tmp_path)["cgroup_cpu_max"] == "max 100000"  # what a container sees
    write(tmp_path / "sys/fs/cgroup/user.slice/job:1/cpu.max", "200000 100000\n")
    assert machine_facts.settings({}, tmp_path)["cgroup_cpu_max"] == "200000 100000"


def test_the_limit_of_an_old_control_group(tmp_path):
    write(tmp_path / "proc/self/cgroup", "3:cpuacct,cpu:/slurm/job_7\n0::/\n")
    write(tmp_path / "sys/fs/cgroup/cpu/slurm/job_7/cpu.cfs_quota_us", "-1\n")
    write(tmp_path / "sys/fs/cgroup/cpu/slurm/job_7/cpu.cfs_period_us", "100000\n")
    assert machine_facts.settings({}, tmp_path)["cgroup_cpu_max"] == "max 100000"


def test_no_torch_is_needed():
    code = (
        "import sys; from torchstone.execution import machine_facts as m; m.host(); m.settings(); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
