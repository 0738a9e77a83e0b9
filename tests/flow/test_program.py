"""Somebody's own program, as it is typed: steps, items and phases of real scripts, and what goes wrong with them."""

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from programs import HEAD, LOOP, OPTIMIZER, STEP

from torchstone.cli import main
from torchstone.core.schema.trial import Status

SHORT = ("--warmup", "1", "--warmup-budget", "100ms")


def median(values):
    return sorted(values)[len(values) // 2]


def test_steps_items_and_phases_of_a_training_with_workers_accumulation_and_evaluation(taken):
    trial = taken(
        OPTIMIZER + "n = 0\nwhile True:\n  for i, (x,) in enumerate(DataLoader(data, batch_size=20, num_workers=2)):\n"
        "    (loss(x) / 2).backward()\n    if i % 2: optimizer.step(); optimizer.zero_grad(); n += 1\n"
        "    if n % 10 == 9 and i % 2:\n      with torch.no_grad(): model(torch.randn(50, 32))\n      time.sleep(2.0)\n"
    )
    assert trial.outcome.status == Status.OK
    steps_s = trial.values("step_time_s", window="program")
    assert set(trial.values("items", window="program")) == {40.0}
    assert max(steps_s) < 2.0, "a step with an evaluation is none"
    assert trial.facts.backward_passes == 2
    assert trial.facts.loader_workers == 2
    phases = {m.phase: sum(m.values) for m in trial.measurements if m.metric == "phase_time_s"}
    assert set(phases) == {"data", "forward", "backward", "optimizer", "rest"}
    assert sum(phases.values()) == pytest.approx(sum(steps_s))


@pytest.mark.alone  # a step that is stopped between the two stamps is longer by one of them
def test_stamps_put_in_by_hand_say_the_same(taken, tmp_path):
    script = (
        f"{OPTIMIZER}stamps = []\n"
        "import atexit, json; atexit.register(lambda: json.dump(stamps, open(sys.argv[1], 'w')))\n"
        "while True:\n  x = torch.randn(20, 32); time.sleep(0.004)\n"
        f"  {STEP}  stamps.append(time.perf_counter())\n"
    )
    trial = taken(script, str(tmp_path / "stamps.json"), iterations=40)
    stamps = json.loads((tmp_path / "stamps.json").read_text())
    by_hand = [b - a for a, b in pairwise(stamps)]
    measured = trial.values("step_time_s", window="program")
    places = range(len(by_hand) - len(measured) + 2)  # which were measured is its own affair; the last has no stamp
    off = min(median([abs(m / h - 1.0) for m, h in zip(measured, by_hand[k:], strict=False)]) for k in places)
    assert off < 0.03
    assert median(measured) > 0.004


def test_several_optimizers_and_a_closure(taken):
    script = (
        f"{OPTIMIZER}net = nn.Linear(3, 3)\nother = torch.optim.LBFGS(net.parameters(), max_iter=3)\n"
        "def closure():\n  other.zero_grad(); l = net(torch.randn(5, 3)).pow(2).mean(); l.backward(); return l\n"
        f"while True:\n  for (x,) in DataLoader(data, batch_size=20):\n    {STEP}    other.step(closure)\n"
    )
    trial = taken(script)
    assert trial.outcome.status == Status.OK
    steps = len(trial.values("step_time_s", window="program"))
    assert steps in (9, 10), "two optimizers' steps make one; warm-up may end between the two"
    assert set(trial.values("items", window="program")) == {20.0}


def test_the_generator_of_a_gan_computes_in_the_forward_phase(taken):
    script = (
        "class Slow(nn.Linear):\n  def forward(self, x): time.sleep(0.02); return super().forward(x)\n"
        "generator = Slow(32, 32)\nmodel = nn.Linear(32, 4)\n"
        f"other = torch.optim.SGD(generator.parameters(), lr=0.1)\n{OPTIMIZER}"
        f"while True:\n  for i, (x,) in enumerate(DataLoader(data, batch_size=20)):\n    x = generator(x); {STEP}"
        "    if i % 5 == 4: loss(generator(x.detach())).backward(); other.step()\n"
    )
    trial = taken(script, iterations=30)
    phases = {one.phase: median(one.values) for one in trial.measurements if one.metric == "phase_time_s"}
    assert phases["forward"] > 0.02 * 5
    assert phases["rest"] < 0.02


def test_inference_and_a_compiled_module(taken):
    trial = taken("model.eval()\nwhile True:\n  with torch.inference_mode(): model(torch.randn(7, 32))\n")
    assert trial.outcome.status == Status.OK
    assert trial.facts.task == "infer"
    assert set(trial.values("items", window="program")) == {7.0}
    named = taken(LOOP, fixed={"step": "backward"})
    assert named.outcome.status == Status.OK


@pytest.mark.parametrize("fixed", [None, {"step": "backward"}], ids=["as it is", "--step backward"])
def test_a_training_that_changes_its_weights_by_itself(taken, fixed):
    trial = taken(
        "while True:\n  for (x,) in DataLoader(data, batch_size=20):\n    loss(x).backward()\n"
        "    for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1); p.grad = None\n",
        fixed=fixed,
    )
    assert trial.outcome.status == Status.OK
    assert trial.facts.task == "train"
    assert set(trial.values("items", window="program")) == {20.0}
    assert {one.phase for one in trial.measurements if one.phase} == {"data", "forward", "backward", "rest"}


NO_TORCH = "import sys, time\n"
SEEDED = HEAD.replace("model =", "torch.manual_seed(1)\nmodel =")


@pytest.mark.parametrize(("script", "seeds", "judged"), [
    (HEAD + LOOP, 2, False), (f"{HEAD}torch.manual_seed(1)\n{LOOP}", 2, False), (SEEDED + LOOP, 1, False),
    (SEEDED.replace("torch.randn(640, 32)", "torch.randn(640, 32) * (time.time() % 1)") + LOOP, 1, True),
], ids=["no seed", "a seed after the model", "a seed", "a seed, and other data each time"])  # fmt: skip
def test_only_a_program_that_sets_its_seed_is_held_to_its_results(tmp_path, monkeypatch, capsys, script, seeds, judged):
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(script)
    assert main(["run", *SHORT, "--trials", "2", "--iterations", "5", "--json", "--", sys.executable, "script.py"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    found = [one["check"] for one in case["findings"]]
    assert ("fingerprint_moved" in found) is judged
    assert len({trial["facts"]["seed"] for trial in case["trials"]}) == seeds


def test_losses_are_the_same_bit_for_bit(taken, tmp_path):
    script = (
        f"torch.manual_seed(3); torch.set_num_threads(1)\nmodel = nn.Linear(32, 4)\n{OPTIMIZER}found = []\n"
        "import atexit, json; atexit.register(lambda: json.dump(found, open(sys.argv[1], 'w')))\n"
        "x = torch.arange(640.0).reshape(20, 32) / 640\n"
        "for _ in range(3000):\n  l = loss(x); l.backward(); optimizer.step(); optimizer.zero_grad()\n"
        "  found.append(l.item())\n"
    )
    assert taken(script, str(tmp_path / "hooked")).outcome.status == Status.OK
    import subprocess

    subprocess.run([sys.executable, "script.py", str(tmp_path / "bare")], cwd=tmp_path, check=True)
    hooked, bare = (json.loads((tmp_path / name).read_text()) for name in ("hooked", "bare"))
    assert hooked == bare[: len(hooked)]
    assert len(hooked) > 20


def test_a_window_is_as_long_as_it_was_asked_for(taken):
    trial = taken(LOOP, iterations=2)
    assert trial.outcome.status == Status.OK, trial.outcome
    assert len(trial.values("step_time_s", window="program")) == 2


FAULTS = {
    "crashes": (f"{OPTIMIZER}for i in range(7):\n  x = data[:4][0]; {STEP}raise ValueError('step 7')", Status.CRASHED,
                "ValueError: step 7 (script.py:"),
    "ends early": (f"{OPTIMIZER}for i in range(3):\n  x = data[:4][0]; {STEP}", Status.CRASHED,
                   "it ended after 3 steps, too few for a window: let it run longer"),
    "no step": ("print('nothing to train')", Status.CRASHED, "it ended without a step"),
    "exits with 3": ("sys.exit(3)", Status.CRASHED, "exited with code 3"),
    "no memory": ("raise torch.OutOfMemoryError('CUDA out of memory')", Status.OUT_OF_MEMORY, "CUDA out of memory"),
    "forks and exits": ("import os\nif os.fork(): os._exit(0)\ntime.sleep(300)", Status.CRASHED,
                        "it ended without a step"),
    "prints 1 GB": ("for _ in range(1000): sys.stdout.write('x' * 1_000_000)", Status.CRASHED,
                    "it ended without a step"),
    "is killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", Status.CRASHED, "killed by SIGKILL"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_an_outcome_of_one_line(taken, tmp_path, name):
    script, status, says = FAULTS[name]
    outcome = taken(script, str(tmp_path), head=HEAD if "torch" in script or STEP in script else NO_TORCH).outcome
    assert outcome.status == status
    assert says in outcome.message
    assert "\n" not in outcome.message
    assert not living(str(tmp_path))


def test_a_python_that_lacks_what_torchstone_s_has_is_named(taken, tmp_path, monkeypatch):
    other = tmp_path / "bin" / "python"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=":")
    message = taken("", python="python").outcome.message
    assert message.endswith(f"; {other} is not torchstone's own Python, which has it: {sys.executable}")
    assert "No module named 'torch' (script.py:2)" in message
    assert "torchstone's own" not in taken("import no_such_module", python="python", head="").outcome.message


def test_one_that_hangs_is_ended_with_all_that_it_started(taken, tmp_path):
    script = (
        "import subprocess; child = subprocess.Popen(['sleep', '300']); open(sys.argv[1], 'w').write(str(child.pid))\n"
        "time.sleep(300)\n"
    )
    trial = taken(script, str(tmp_path / "pid"), head=NO_TORCH, timeout_s=4.0)
    assert trial.outcome.status == Status.TIMED_OUT
    child = Path("/proc") / (tmp_path / "pid").read_text()
    until_s = time.monotonic() + 5.0
    while child.exists() and "zombie" not in (child / "status").read_text() and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not child.exists() or "zombie" in (child / "status").read_text()


def test_one_that_prints_much_has_its_own_sitecustomize_and_handles_signals_itself(taken, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(  # as transformers does, it asks for torch before that is imported
        "import importlib.util, os, sys; os.environ['OWN'] = 'here'\n"
        "sys.meta_path.insert(0, type('Old', (), {'find_module': lambda *_: None})())  # it has no find_spec\n"
        "assert importlib.util.find_spec('torch') is not None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    script = (
        "import os, signal\nassert os.environ['OWN'] == 'here'\nsignal.signal(signal.SIGTERM, lambda *_: None)\n"
        f"sys.stdout.write('x' * 50_000_000); sys.stderr.write('y' * 5_000_000)\n{LOOP}"
    )
    assert taken(script).outcome.status == Status.OK


NOTEBOOK = (  # as `jupyter nbconvert --to script` writes it
    "# coding: utf-8\n# In[1]:\ntry: get_ipython().run_line_magic('matplotlib', 'inline')\nexcept NameError: pass\n"
    f"# In[ ]:\n{LOOP}"
)
SPAWNING = (
    "import torch.multiprocessing as mp\nfrom programs_data import Rows\n"
    f"def main():\n  {OPTIMIZER}  while True:\n"
    "    for x in DataLoader(Rows(), batch_size=20, num_workers=1, multiprocessing_context='spawn'):\n"
    f"      {STEP}"
    "if __name__ == '__main__': main()\n"
)


@pytest.mark.parametrize("script", [NOTEBOOK, SPAWNING], ids=["a notebook as a script", "loaders that are spawned"])
def test_an_unusual_training_is_measured_and_leaves_nothing_running(taken, tmp_path, script):
    (tmp_path / "programs_data.py").write_text(
        "import torch\nclass Rows(torch.utils.data.Dataset):\n  def __len__(self): return 200_000\n"
        "  def __getitem__(self, index): return torch.ones(32)\n"
    )
    trial = taken(script, str(tmp_path))
    assert trial.outcome.status == Status.OK
    assert set(trial.values("items", window="program")) == {20.0}
    assert not living(str(tmp_path))


def living(word):
    """Return the processes of this user with a word in their command, after a moment to end."""
    until_s = time.monotonic() + 5.0
    while True:
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
        if not found or time.monotonic() > until_s:
            return found
        time.sleep(0.1)


def test_run_of_a_program_with_an_axis(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    script = LOOP.replace("batch_size=20", "batch_size=int(sys.argv[1])") + "    open('log.txt', 'a').write('x')\n"
    (tmp_path / "train.py").write_text(HEAD + script)
    words = [*SHORT, "--trials", "1", "--iterations", "10", "--axis", "batch_size=10,40", "--json", "--quiet"]
    assert main(["run", *words, "--", sys.executable, "train.py", "{batch_size}"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert {case["configuration"]["batch_size"] for case in told["cases"]} == {10, 40}
    for case in told["cases"]:
        rate, step = (case["estimates"][name]["value"] for name in ("throughput", "step_time_mean"))
        assert rate * step == pytest.approx(case["configuration"]["batch_size"], rel=0.01)
    assert not (tmp_path / "log.txt").exists(), "it wrote into a work folder"
    assert main(["show"]) == 0
    assert "train.py" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--"], "nothing behind --"),
        (["run", "gpt2", "--", "python", "x.py"], "RECIPE: not for a program"),
        (["run", "--axis", "lr=1,2", "--", "python", "x.py"], "the command has no {lr}"),
        (["run", "--", "python", "x.py", "--lr={lr}"], "{lr} has no values: --axis lr=V1,V2"),
        (["run", "--", "no-such-command"], "no-such-command: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(words, says, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    told = capfd.readouterr().err.strip()
    assert says in told
    assert not (tmp_path / "outputs").exists()
