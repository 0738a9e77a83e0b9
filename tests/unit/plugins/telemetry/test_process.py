import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchstone.plugins.telemetry._gauges import CoreWaits, Descendants
from torchstone.plugins.telemetry._system import ProcessSource, _ByPsutil

GROWN = "x = bytearray(60_000_000); print('grown', flush=True); input()"
PARENT = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GROWN!r}]); print('alone', flush=True); input()"
)


def by_metric(gauges) -> dict[str, Any]:
    return {gauge.metric: gauge for gauge in gauges}


@pytest.mark.parametrize("proc", [Path("/proc"), Path("/nonexistent")], ids=["proc", "psutil"])
def test_a_child_counts_while_it_lives_and_its_time_after(proc):
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin
        assert parent.stdout
        gauges = by_metric(ProcessSource(proc).open(parent.pid, None))
        assert gauges["process_cpu_s"].cumulative
        parent.stdout.readline()
        with_child, cpu_s = gauges["rss_bytes"].read(), gauges["process_cpu_s"].read()
        assert with_child > 60e6
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.stdout.readline()
        assert gauges["rss_bytes"].read() < with_child - 50e6
        assert gauges["process_cpu_s"].read() >= cpu_s
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.wait()
    assert gauges["rss_bytes"].read() is None
    assert gauges["process_cpu_s"].read() is None


BUSY = """import time
while time.process_time() < 0.3: pass
print(time.process_time(), flush=True); input()"""


def test_cpu_time_is_that_of_the_system():
    words = [sys.executable, "-c", BUSY]  # a process of its own: this one has children of other tests
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout
        own_s = float(busy.stdout.readline())
        cpu_s = by_metric(ProcessSource().open(busy.pid, None))["process_cpu_s"].read()
        busy.communicate("\n")
    assert cpu_s == pytest.approx(own_s, abs=0.03)


def test_the_count_never_falls_where_psutil_answers(monkeypatch):
    taken = iter([(0.03, 0.03, 0.0), (0.0, 0.0, 0.06), (0.02, 0.0, 0.0), (0.1, 0.0, 0.0)])

    def fake(pid):
        times = [SimpleNamespace(user=part, system=0.0) for part in next(taken)]
        own, *others = [
            SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=1), cpu_times=lambda one=one: one) for one in times
        ]
        own.children = lambda recursive: others
        return own

    monkeypatch.setattr("psutil.Process", fake)
    gauge = _ByPsutil(7)
    counted = []
    for _ in range(4):
        gauge._root = None
        counted.append(gauge.read()["process_cpu_s"])
    assert counted == [0.06, 0.06, 0.06, 0.1]


@pytest.mark.parametrize("proc", [Path("/proc"), Path("/nonexistent")], ids=["proc", "psutil"])
def test_no_such_process_is_no_gauges(proc):
    assert not ProcessSource(proc).open(None, None)
    assert not ProcessSource(proc).open(2**22 + 1, None)


def stat(proc, pid, parent, name="python", ticks=(0, 0, 0, 0)):
    (proc / str(pid)).mkdir(exist_ok=True)
    fields = ["S", parent, *["0"] * 9, *ticks, *["0"] * 6, "10", "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) " + " ".join(map(str, fields)))


def test_grandchildren_count_whatever_their_name_and_pid(tmp_path):
    stat(tmp_path, 100, 1, ticks=(1, 2, 3, 4))
    stat(tmp_path, 300, 100, name="a) b (c 7")
    stat(tmp_path, 50, 300)
    stat(tmp_path, 400, 1)
    family = Descendants(100, tmp_path)
    assert len(family.stats()) == 3
    assert [family.has(pid) for pid in (100, 300, 50, 400)] == [True, True, True, False]
    stat(tmp_path, 401, 50)
    assert family.has(401)


def test_the_count_of_cpu_time_never_falls(tmp_path):
    stat(tmp_path, 100, 1, ticks=(100, 0, 0, 0))
    stat(tmp_path, 101, 100, ticks=(50, 0, 0, 0))
    (cpu,) = (g for g in ProcessSource(tmp_path).open(100, None) if g.metric == "process_cpu_s")
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    assert cpu.read() == pytest.approx(150 * tick_s)
    (tmp_path / "101" / "stat").write_text("")  # ended, and not yet in its parent's account
    assert cpu.read() == pytest.approx(150 * tick_s)
    stat(tmp_path, 100, 1, ticks=(110, 0, 50, 0))
    assert cpu.read() == pytest.approx(160 * tick_s)


def test_waits_of_threads_add_up_and_those_of_ended_ones_stay(tmp_path):
    for thread, wait_ns in ((7, 2_000_000_000), (8, 500_000_000)):
        (tmp_path / "7/task" / str(thread)).mkdir(parents=True)
        (tmp_path / "7/task" / str(thread) / "schedstat").write_text(f"9000000000 {wait_ns} 12\n")
    waits = CoreWaits(7, tmp_path)
    assert waits.total_s() == 2.5
    (tmp_path / "7/task/8/schedstat").write_text("9100000000 750000000 13\n")
    assert waits.total_s() == 2.75
    shutil.rmtree(tmp_path / "7/task/8")
    assert waits.total_s() == 2.75
    assert CoreWaits(9, tmp_path).total_s() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stopped_process_is_told_from_one_that_runs():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        gauge = by_metric(ProcessSource().open(process.pid, None))["process_stopped"]
        assert gauge.read() == 0.0
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert gauge.read() == 1.0
        process.kill()
