"""`--time-limit` and `resume`: a run that was out of time is gone on with, and only where nothing has changed."""

import json
import re
from pathlib import Path

import pytest
from build import a_case, a_run, a_trial

from torchstone.cli import main
from torchstone.core.schema.trial import Status
from torchstone.storage.index import sync
from torchstone.storage.record_reader import read_record, record_path
from torchstone.storage.record_writer import RecordWriter

MODEL = """
import time
import torch

def load():
    time.sleep(0.6)
    return {"model": torch.nn.Linear(8, 8), "example": torch.randn(4, 8)}
"""
FILE = """
task: infer
model: py:net.py:load
axes: {batch_size: [1, 2, 4, 8]}
procedure: {trials: 1, iterations: 2, warmup: 0, isolation: fork, time_limit: 1.7s}
"""


@pytest.fixture
def cut_off(tmp_path, monkeypatch, capfd):
    """A run whose time was up in the middle of a trial."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHSTONE_OUTPUT", "outputs")
    Path("net.py").write_text(MODEL)
    Path("sweep.yaml").write_text(FILE)
    assert main(["run", "sweep.yaml"]) == 0
    said = capfd.readouterr()
    (path,) = Path("outputs/records").glob("*.jsonl")
    assert ", out of time" in " ".join(said.out.split())
    run = read_record(Path("outputs/records") / path.name)
    finished = [t for t in run.trials if t.outcome.status == Status.OK]
    assert 1 <= len(finished) < 4
    resume = f"`torchstone resume {run.head.run_id}` measures the remaining {4 - len(finished)} trial"
    assert said.err.splitlines()[-1].startswith(f"torchstone: out of time: {resume}")
    return path, run, finished


def test_a_run_that_was_out_of_time_is_gone_on_with(cut_off, refused, capfd, monkeypatch):
    path, begun, finished = cut_off
    assert begun.trials[-1].outcome.status == Status.INTERRUPTED
    assert "time limit of 1.7 s" in str(begun.trials[-1].outcome.message)
    assert main(["runs"]) == 0
    assert re.search(r"out of time\s*$", capfd.readouterr().out, re.MULTILINE)

    # What would make the rest another measurement is refused, and nothing is written.
    Path("sweep.yaml").write_text(FILE + "# a remark\n")
    assert "sweep.yaml has changed; --force continues nevertheless" in refused("resume")
    Path("sweep.yaml").unlink()
    assert "cannot read sweep.yaml: No such file" in refused("resume")
    Path("sweep.yaml").write_text(FILE)
    Path("net.py").write_text(MODEL.replace("Linear(8, 8)", "Linear(8, 16)"))
    assert "py:net.py:load: its file has changed" in refused("resume")
    Path("net.py").write_text(MODEL)
    elsewhere = re.sub(rb'"hostname":"[^"]*"', b'"hostname":"elsewhere"', path.read_bytes(), count=1)
    Path("other.jsonl").write_bytes(elsewhere)
    assert "another machine or with other settings: hostname was elsewhere, is " in refused("resume", "other.jsonl")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert "OMP_NUM_THREADS was None, is 1" in refused("resume")
    monkeypatch.delenv("OMP_NUM_THREADS")

    # Forced over a remark in the file, the rest is taken, and only that; the run says that something was different.
    Path("sweep.yaml").write_text(FILE + "# a remark\n")
    capfd.readouterr()
    assert main(["resume", "--force", "--time-limit", "10m", "--json", "--strict"]) == 0
    said = capfd.readouterr()
    summary = json.loads(said.out)
    run = read_record(path)
    assert summary["status"] == "done"
    assert [t.trial_id for t in run.trials[: len(finished)]] == [t.trial_id for t in finished]
    assert sorted(t.case_id for t in run.trials) == sorted(c.case_id for c in begun.head.plan.cases)
    assert {t.outcome.status for t in run.trials} == {Status.OK}
    assert [t.order for t in run.trials] == sorted({t.order for t in run.trials})
    assert "sweep.yaml has changed" in next(f.message for f in run.findings if f.check == "resumed")
    assert f"{4 - len(finished)} trials" in said.err
    assert len(list(Path("outputs").glob("benchmark_*.json"))) == 2
    assert "nothing is missing, all 4 trials are done" in refused("resume")

    # A full disk may have cost it its table: that is missing, too.
    (table,) = Path("outputs/data").glob("*_cases.csv")
    rows = table.read_bytes()
    table.unlink()
    assert main(["resume"]) == 0
    assert table.read_bytes() == rows


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resume"], "no run is stored here yet"),
        (["resume", "nosuchrun"], "no run 'nosuchrun'"),
        (["resume", "--time-limit", "soon"], "--time-limit: 'soon' is not a duration"),
        (["run", "--model", "builtin:mlp", "--time-limit", "0"], "--time-limit 0: must be more than 0 s"),
        (["run", "--model", "builtin:mlp", "--when-busy", "wiat"], "'wiat'. Did you mean 'wait'? Known: refuse, share"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(refused, words, said):
    assert said in refused(*words)


def test_a_run_of_a_program_is_not_resumed(refused, outputs):
    run = a_run(cases=[a_case(model="module:Net", data="example")], end=None)
    with RecordWriter(record_path(outputs, run.head.run_id), run.head) as writer:
        writer.append(a_trial(case_id=run.head.plan.cases[0].case_id))
    sync(outputs)  # the index is made, and `resume` writes nothing
    assert "was measured in your own program" in refused("resume")
