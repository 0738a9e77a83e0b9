"""Attaching to real programs: planted causes by their lines, and the program goes on as if nothing had been."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from torchstone.cli import main

pytestmark = pytest.mark.skipif(
    shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))) is None,
    reason="py-spy is not installed: pip install 'torchstone[attach]'",
)

SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4))
optimizer = torch.optim.Adam(model.parameters())
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.ones(64)
def get_batch():
    time.sleep(0.03)
    return torch.ones(20, 64)
def batches():
    if sys.argv[1] == "by hand":
        while True: yield get_batch()
    yield from torch.utils.data.DataLoader(Slow(), batch_size=10, num_workers=int(sys.argv[1]))
for number, x in enumerate(batches()):
    loss = model(x).pow(2).mean(); loss.backward(); optimizer.step(); optimizer.zero_grad()
    if number == 5: print("trains", flush=True)
"""


@pytest.fixture
def running(tmp_path, monkeypatch):
    """Start a program, and wait until it trains."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    started = []

    def start(word):
        program = subprocess.Popen([sys.executable, "train.py", word], stdout=subprocess.PIPE, text=True)
        started.append(program)
        assert program.stdout is not None
        assert program.stdout.readline() == "trains\n"
        return program

    yield start
    for program in started:
        program.kill()
        program.communicate()


def line_of(what):
    return next(number for number, line in enumerate(SCRIPT.splitlines(), 1) if what in line)


@pytest.mark.parametrize(
    ("word", "causes", "what"),
    [("1", {"loader_waits"}, "time.sleep(0.004)"), ("0", {"loader_waits", "loader"}, "time.sleep(0.004)"),
     ("by hand", {"outside"}, "time.sleep(0.03)")],
)  # fmt: skip
def test_a_planted_cause_is_named_with_its_line_and_the_program_goes_on(word, causes, what, running, capfd):
    program = running(word)
    assert main(["attach", str(program.pid), "--for", "12s", "--json", "--quiet"]) == 0
    answer = json.loads(capfd.readouterr().out)["answer"]
    first = next(cause for cause in answer["causes"] if cause["id"] != "neighbours")
    assert first["id"] in causes
    assert first["where"][0]["line"] == line_of(what)
    assert "faster_disk" not in [one["id"] for one in first["remedies"]], "it sleeps, and reads nothing"
    assert any(one["id"] == "share_over_windows" for one in first["evidence"])
    status = Path(f"/proc/{program.pid}/status").read_text()
    assert "TracerPid:\t0" in status
    assert program.poll() is None
    assert main(["show"]) == 0
    assert f"train.py:{line_of(what)}" in capfd.readouterr().out


def test_what_is_no_training_is_refused_in_a_line(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sleeping = subprocess.Popen(["sleep", "60"])
    plain = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    time.sleep(1.0)
    try:
        for pid, said in ((sleeping.pid, "is no Python program"), (plain.pid, "has not imported torch")):
            assert main(["attach", str(pid)]) == 2
            told = capfd.readouterr().err
            assert said in told
            assert told.count("\n") == 1
    finally:
        for one in (sleeping, plain):
            one.kill()
            one.wait()
    assert main(["attach", str(sleeping.pid)]) == 2
    assert "there is no process" in capfd.readouterr().err


def test_a_program_that_ends_meanwhile_is_told_in_a_line(running, capfd):
    program = running("0")
    threading.Timer(2.0, program.kill).start()
    assert main(["attach", str(program.pid), "--for", "30s"]) == 1
    assert "has ended" in capfd.readouterr().err
