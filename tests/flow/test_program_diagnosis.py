"""Diagnosing somebody's own program: planted causes are named with their line, and hooks set what is tried."""

import json
import sys

import pytest
from programs import HEAD, OPTIMIZER, STEP

from torchstone.cli import main
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.trial import Status
from torchstone.workflows.diagnose.program_diagnosis import described, undescribed

ONE = "torch.set_num_threads(1)\n"
LOADER = (
    "class Slow(torch.utils.data.Dataset):\n  def __len__(self): return 400\n"
    "  def __getitem__(self, i):\n    time.sleep(0.003)\n    return data[i][0]\n"
    f"{OPTIMIZER}while True:\n  for x in DataLoader(Slow(), batch_size=10):\n    l = loss(x); l.backward()\n"
    "    optimizer.step(); optimizer.zero_grad()\n    print(l.item())\n"
)
BY_HAND = (
    "def get_batch():\n  time.sleep(0.03)\n  return torch.randn(20, 32)\n"
    f"{OPTIMIZER}while True:\n  x = get_batch()\n  {STEP}"
)


def line_of(script, what):
    return next(number for number, line in enumerate((HEAD + script).splitlines(), 1) if what in line)


@pytest.mark.alone  # what a program waits for is told by its cores, which others may hold
@pytest.mark.parametrize(
    ("script", "causes", "what"),
    [(ONE + LOADER, {"loader", "loader_computes", "loader_waits"}, "time.sleep(0.003)"),
     (ONE + BY_HAND, {"outside"}, "time.sleep(0.03)")],
    ids=["loader", "batches by hand"],
)  # fmt: skip
def test_a_planted_cause_comes_first_with_its_line(script, causes, what, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(HEAD + script)
    words = ["diagnose", "--budget", "0", "--disturbed", "keep", "--quiet", "--json", "--", sys.executable, "train.py"]
    assert main(words) == 0
    answer = json.loads(capfd.readouterr().out)["answer"]
    first = answer["causes"][0]
    assert first["id"] in causes
    assert first["share"] > 0.4
    assert [(place["file"], place["line"]) for place in first["where"]][:1] == [("train.py", line_of(script, what))]
    shares = [one["values"] for one in first["evidence"] if one["id"] == "share_over_trials"]
    assert shares[0]["trials"] == 3
    assert shares[0]["low"] <= shares[0]["share"] <= shares[0]["high"]
    asking = [one for note in answer["pattern"] for one in note["seen"] if one["id"] == "asks_in_loop"]
    told = [(place["values"]["file"], place["values"]["line"]) for one in asking for place in one["values"]["places"]]
    assert told == ([("train.py", line_of(script, "print(l.item())"))] if "item()" in script else [])
    assert main(["show"]) == 0
    assert f"line {line_of(script, what)}" in (told := capfd.readouterr().out) or "loader" in told


def test_hooks_set_what_is_tried(taken):
    script = f"{OPTIMIZER}while True:\n  for (x,) in DataLoader(data, batch_size=20):\n    {STEP}"
    now = taken(script)
    assert (now.facts.loader_batch_size, now.facts.loader_workers, now.facts.fused_optimizer) == (20, 0, False)
    others = {"batch_size": 80, "num_workers": 1, "threads": 1, "fused": "on"}
    then = taken(script, fixed={"batch_size": 20}, configuration=others)
    assert then.outcome.status == Status.OK
    assert then.facts.loader_workers == then.facts.threads_in_effect == 1
    assert then.facts.items_per_step == 80.0
    assert then.facts.fused_optimizer is True


def test_settings_that_were_seen_are_set_only_where_they_change():
    case = Case(Workload(Task.TRAIN, "program:python x.py {lr}", "own", "sample"), {"lr": 0.1}, Placement("cpu"))
    facts = Facts(loader_batch_size=20, loader_workers=0, loader_pinned=False, threads_in_effect=2)
    present = described(case, facts)
    assert undescribed(present, present, case) == case
    larger = Case(present.workload, {**present.configuration, "batch_size": 80}, present.placement)
    wanted = undescribed(larger, present, case)
    assert wanted.configuration == {"lr": 0.1, "batch_size": 80}
    assert wanted.workload.fixed["batch_size"] == 20


def test_several_values_of_an_axis_are_refused(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", "--axis", "lr=1,2", "--", "python", "x.py", "{lr}"]) == 2
    assert "diagnose takes one value" in capfd.readouterr().err
    assert main(["diagnose", "latest", "--", "python", "x.py"]) == 2
