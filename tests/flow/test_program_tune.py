"""Tuning somebody's own program: every {name} of its command is an axis."""

import json
import sys
from typing import Any

import msgspec
import pytest

from torchstone.analysis.summary import summarize
from torchstone.cli import main
from torchstone.core.schema.answer import TuneSpec
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.search import Part, ProbeResult
from torchstone.core.schema.trial import Status
from torchstone.report.documents.run import run_document
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import find
from torchstone.workflows.tune.space import TuneSpace, usual_values
from torchstone.workflows.tune.tune import search

SCRIPT = """
import sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    time.sleep(0.02 if sys.argv[2] == "slow" else 0.002)
    model(torch.randn(int(sys.argv[1]), 32)).pow(2).mean().backward()
    optimizer.step(); optimizer.zero_grad()
"""


def test_a_tune_of_a_program_names_the_command_to_type(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    how = ["--axis", "mode=slow,fast", "--axis", "batch_size=8", "--present", "mode=slow", "--searcher", "grid"]
    quick = ["--trials", "1", "--quick", "--disturbed", "keep", "--budget", "300ms"]
    command = ["--", sys.executable, "train.py", "{batch_size}", "{mode}"]
    assert main(["tune", *how, *quick, "--json", *command]) == 0
    told = json.loads(capfd.readouterr().out)
    answer = told["answer"]
    assert answer["recommended"]["point"] == {"mode": "fast"}
    assert answer["settings"] == {"mode": "fast"}
    assert answer["gain"]["value"] > 2.0
    assert answer["points"] == answer["probes"] == 2
    summary = summarize(find(tmp_path / "outputs", "latest"))
    cases = tuple(msgspec.structs.replace(case, verdict=Verdict.VALID) for case in summary.cases)  # beside other tests
    text = terminal(run_document(msgspec.structs.replace(summary, cases=cases)), 80)
    assert f"{sys.executable} train.py 8 fast" in " ".join(text.split())


class Surface:
    """A program of which a worker saves time, and whose larger batches cost no more: answers probes as trials would."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def take(self, probe):
        self.asked.append(probe)
        step_s = 0.1 / (1 + min(2, probe.point["num_workers"])) + 0.02 * (probe.point["kernel"] == "slow")
        rate = probe.point["batch_size"] / step_s
        return ProbeResult(probe=probe, status=Status.OK, cost_s=5.0, value=rate, peak_bytes=1e8, step_s=step_s)


def test_the_adaptive_search_asks_for_whole_steps_of_a_program_alone():
    workload = Workload(Task.TRAIN, "program:python x.py {batch_size} {num_workers} {kernel}", "own", "sample")
    axes = {"batch_size": (8, 16, 32), "num_workers": (0, 1, 2, 4), "kernel": ("slow", "flash")}
    base = Case(workload, {name: values[0] for name, values in axes.items()}, Placement("cpu"))
    space = TuneSpace(TuneSpec("throughput", "adaptive", base, axes))
    surface = Surface()
    found: Any = search(space.brief(None, 0), "adaptive", surface)  # type: ignore[arg-type]  # answers as Probes does
    assert {probe.part for probe in surface.asked} == {Part.WHOLE}
    assert len(surface.asked) < len(space.points)
    assert found[0]["batch_size"] == 32
    assert found[0]["num_workers"] >= 2
    assert found[0]["kernel"] == "flash"
    assert space.case(found[0]).configuration == found[0]


def test_usual_values_stand_in_for_places_that_have_none():
    usual = usual_values(2)
    assert usual["num_workers"] == (0, 1, 2, 4)
    assert usual["batch_size"][:3] == (1, 2, 4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", "python", "x.py"], "nothing varies: write {batch_size} in the command"),
        (["--axis", "lr=1", "--", "python", "x.py", "{lr}"], "nothing varies: write {lr} in the command"),
        (["--", "python", "x.py", "{lr}"], "{lr} has no values: --axis lr=V1,V2"),
        (["--axis", "lr=1,2", "--only", "lr", "--", "python", "x.py", "{lr}"], "--only: not for a program"),
        (["--axis", "lr=1,2", "--present", "wd=1", "--", "python", "x.py", "{lr}"], "--present wd: the command has no"),
        (["--apply", "x.yaml", "--", "python", "x.py", "{batch_size}"], "--apply: not for a program"),
        (["--axis", "batch_size=a,b", "--", "python", "x.py", "{batch_size}"], "'a' is not a whole number"),
        (["--", "no-such-command", "{batch_size}"], "no-such-command: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(words, says, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *words]) == 2
    told = capfd.readouterr().err.strip()
    assert says in told
    assert not (tmp_path / "outputs").exists()
