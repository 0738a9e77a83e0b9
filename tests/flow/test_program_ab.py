"""Two revisions, commands or settings of somebody's own program: both live, in turns."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from programs import HEAD, OPTIMIZER

from torchstone.cli import main
from torchstone.core.fingerprints import repeats
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.message import RehearseRequest
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Measurement, Outcome, Stage, Status, Trial
from torchstone.execution.controller.observer import Silent
from torchstone.execution.controller.trial import TrialDrive
from torchstone.execution.program.trial import ProgramLauncher
from torchstone.workflows.ab.interleaving import TurnPlan
from torchstone.workflows.ab.pair import SessionPool, Variant, shift_of, take_pair

# A step of 4 ms, or of as many as is typed, and items by the argument after it; data.txt is not in the repository.
SCRIPT = (
    HEAD.replace("model =", "torch.manual_seed(1); torch.set_num_threads(1)\nmodel =")
    + f"open('data.txt').read()\n{OPTIMIZER}size = int(sys.argv[2])\nfor _ in range(int(sys.argv[3])):\n"
    "  time.sleep(float(sys.argv[1]) / 1000)\n  l = loss(torch.ones(size, 32))\n"
    "  l.backward(); optimizer.step(); optimizer.zero_grad()\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Be in a folder with the script and its data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "data.txt").write_text("data")
    return tmp_path


def pair_of(*commands, couples=4):
    """Take one pair of two commands."""
    launcher = ProgramLauncher()
    launcher.open((), "default")
    cases = [
        Case(Workload(Task.TRAIN, f"program:{sys.executable} train.py {words}", "own", "sample"), {}, Placement("cpu"))
        for words in commands
    ]
    how = Procedure(isolation="program", telemetry_period_s=0.0, warmup_budget_s=0.1, timeout_s=60.0)
    sides = [(Variant(words, case), launcher) for words, case in zip(commands, cases, strict=True)]
    return take_pair(sides, 0, how, TurnPlan(couples=couples), random.Random(0), Silent(), Facts())


def test_a_pair_of_programs_takes_turns_and_is_compared_by_the_time_of_an_item(folder):
    pair = pair_of("4 8 100000", "16 16 100000")
    assert [trial.outcome.status for trial in pair.trials] == [Status.OK, Status.OK]
    a, b = pair.trials
    assert (a.facts.items_per_step, b.facts.items_per_step) == (8.0, 16.0)
    assert len(a.values("turn_time_s")) == len(b.values("turn_time_s")) == len(pair.logs) == 4
    assert 1.2 < math.exp(pair.location.value) < 2.2, "a step of four times the time has twice the items"
    waited = max(a.values("step_time_s", window="program"))
    assert waited < 0.1, "the other side's turns are no part of a step"


# What a fork could have otherwise than a new process is written down where the optimizer is made.
TOLD = """
import json, os, random, sys
random.seed(3)
os.makedirs("made"); os.environ["SET"] = "x"
{before}
import torch
torch.manual_seed(random.randrange(9))
started = os.getpid()
model = torch.nn.Linear(32, 4)
print("built", flush=True)
seen = [os.getcwd(), sys.argv, sys.path[0], __file__, random.random(), os.environ["SET"], os.listdir("made")]
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([os.getpid() == started, *seen]) + "\\n")
open("made/left", "w").close()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    model(torch.ones(8, 32)).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
"""


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Rehearse TOLD, take a pair of it, and return the three trials, with what each saw."""
    monkeypatch.chdir(tmp_path)

    def take(before=""):
        (tmp_path / "train.py").write_text(TOLD.format(before=before))
        model = f"program:{sys.executable} train.py {tmp_path / 'seen'}"
        case = Case(Workload(Task.TRAIN, model, "own", "sample"), {}, Placement("cpu"))
        how = Procedure(isolation="program", telemetry_period_s=0.0, warmup_budget_s=0.1, timeout_s=60.0)
        with SessionPool({None: [model]}, how) as pool:
            rehearsal = RehearseRequest(case, how, for_turns=True)
            trials = [TrialDrive(rehearsal, None, Silent()).run(pool.session(None).launcher, 0)]
            pool.renew()
            sides = [Variant(name, case) for name in "AB"]
            trials += pool.take(sides, 0, TurnPlan(couples=2), random.Random(0), 1).trials
        seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
        return trials, seen, pool.start_s

    return take


def test_a_fork_is_the_program_as_it_was_typed(told):
    trials, seen, start_s = told()
    assert [trial.outcome.status for trial in trials] == [Status.OK] * 3
    assert [is_started for is_started, *_ in seen] == [True, False, False], (
        "the rehearsal is a new process, a pair forks"
    )
    assert start_s > 0.1
    for _, here, words, first, script, drawn, was_set, left in seen:
        assert here == first == str(Path(script).parent), "its own folder is the first in Python's path"
        assert "/work/" in here
        assert (words[0], drawn, was_set, left) == ("train.py", seen[0][5], "x", [])
    assert len({trial.values("fingerprint", window="program") for trial in trials[1:]}) == 1


@pytest.mark.parametrize(
    "before",
    [
        "import threading, time; threading.Thread(target=time.sleep, args=(1e9,), daemon=True).start()",
        "import subprocess; child = subprocess.Popen(['sleep', '1000'])",
        "data = open('train.py')",
        "import signal; signal.signal(signal.SIGCHLD, lambda *_: None)",
        "import torch; torch.set_num_threads(2); torch.ones(1000, 1000).mul(2)",
    ],
)
def test_what_no_fork_would_survive_is_started_anew(before, told):
    trials, seen, start_s = told(before)
    assert [trial.outcome.status for trial in trials] == [Status.OK] * 3
    assert [is_started for is_started, *_ in seen] == [True, True, True]
    assert start_s < 0.1


def test_one_that_ends_amid_its_turns_keeps_those_that_it_took(folder):
    pair = pair_of("4 8 100000", "4 8 260", couples=400)
    assert [trial.outcome.status for trial in pair.trials] == [Status.OK, Status.OK]
    assert 0 < len(pair.logs) < 400


@pytest.mark.parametrize(("words", "says"), [("4 0.5 100", "ValueError"), ("4 8 2", "it ended after 2 steps")])
def test_one_that_fails_or_ends_too_soon_ends_its_pair_and_the_other_side(folder, words, says):
    pair = pair_of("4 8 100000", words)
    assert pair.trials[1].outcome.status == Status.CRASHED
    assert says in (pair.trials[1].outcome.message or "")
    assert pair.logs == ()


def test_revisions_of_a_script_whose_data_are_not_in_the_repository(folder, capfd):
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "train.py"], ["commit", "-qm", "fast"]):
        subprocess.run([*git, *words], check=True, cwd=folder)
    slower = SCRIPT.replace("/ 1000", "/ 250").replace("torch.ones", "2 * torch.ones")
    (folder / "train.py").write_text(slower)
    subprocess.run([*git, "commit", "-qam", "slow"], check=True, cwd=folder)
    assert main(["ab", "HEAD~1", "HEAD", "--json", "--quiet", "--", sys.executable, "train.py", "4", "8", "9999"]) == 0
    told = json.loads(capfd.readouterr().out)
    found = told["answer"]["comparison"]
    assert found["verdict"] == "worse"
    assert 2.0 < found["ratio"]["value"] < 4.5
    assert main(["show"]) == 0
    assert "note: different results: loss " in " ".join(capfd.readouterr().out.split())
    left = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, cwd=folder, check=True).stdout
    assert len(left.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", "python", "x.py"], "two revisions (ab main HEAD -- COMMAND), two commands"),
        (["main", "--", "python", "x.py"], "two revisions (ab main HEAD -- COMMAND), two commands"),
        (["--a", "lr=1", "--b", "lr=2", "--", "python", "x.py"], "the command has no {lr}"),
        (["--let-finish", "--", "python", "x.py", "--", "python", "y.py"], "--let-finish: not in ab"),
        (["--", "no-such", "--", "no-such", "2"], "no-such: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(words, says, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["ab", *words]) == 2
    assert says in capfd.readouterr().err
    assert not (tmp_path / "outputs").exists()


def a_trial(side, losses, **facts):
    found = (Measurement("fingerprint", Stage.STEADY, losses, "program"),)
    return Trial("t", "c", 0, 0, "", 1.0, Outcome(Status.OK), facts=Facts(side=side, **facts), measurements=found)


def test_losses_of_a_side_that_differ_among_themselves_say_nothing():
    assert repeats([a_trial("A", (1.0, 0.5)), a_trial("A", (1.0, 0.5))])
    assert not repeats([a_trial("A", (1.0, 0.5)), a_trial("A", (0.9, 0.5))])
    assert shift_of([a_trial("A", (), items_per_step=8.0), a_trial("B", (), items_per_step=4.0)]) == math.log(2.0)
    assert shift_of([a_trial("A", ()), None]) == 0.0
