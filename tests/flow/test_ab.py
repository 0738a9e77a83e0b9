"""`torchstone ab` through the real CLI: two git revisions of a small model, of which one does four times the work."""

import json
import os
import re
import subprocess
import sys
from itertools import groupby
from typing import Any

import pytest
from warm_templates import TORCHSTONE

from torchstone.storage.query import read_run

pytestmark = pytest.mark.xdist_group("ab")  # one measurement serves all its tests

NET = """
import torch
from width import LAYERS


def load():
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(LAYERS)])
    return net, {"input": torch.zeros(64, 256)}, lambda module, batch: module(batch["input"]).square().mean()
"""
WHAT = ("--task", "train", "--model", "py:net.py:load", "--axis", "threads=1")


def git(folder, *words):
    own = ("-c", "user.email=a@example.org", "-c", "user.name=a")
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


def ab(folder, *words, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [*TORCHSTONE, "ab", *words], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert code is None or answer.returncode == code, answer.stderr
    return answer


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q", "-b", "main")
    (folder / "net.py").write_text(NET)
    for layers in (4, 16):
        (folder / "width.py").write_text(f"LAYERS = {layers}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", f"{layers} layers")
    (folder / "width.py").write_text("LAYERS = 1 / 0\n")
    git(folder, "commit", "-q", "-am", "broken")
    return folder


@pytest.fixture(scope="module")
def compared(repository) -> tuple[Any, Any]:
    """Four layers against sixteen, with --fail-on: the document, and the folder of its record."""
    out = repository / "outputs"
    answer = ab(
        repository, "HEAD~2", "HEAD~1", *WHAT, "--fail-on", "worse:5%", "unclear", "--json",
        "--output-dir", str(out), code=1,
    )  # fmt: skip
    return json.loads(answer.stdout), out


def test_the_slower_revision_is_worse_and_the_gate_fails(compared):
    run, _ = compared
    found = run["answer"]["comparison"]
    assert found["verdict"] == "worse"
    assert found["baseline"]["label"].startswith("HEAD~2 (")
    assert 1.0 < found["ratio"]["low"] <= found["ratio"]["value"] <= found["ratio"]["high"]
    assert found["ratio"]["value"] > 1.5
    course = run["answer"]["course"]
    assert course["stopped_because"] == "settled"
    assert course["pairs"] >= 6
    assert course["templates"] >= 1
    assert course["elapsed_s"] > 1.0
    assert 0.0 < course["measured_share"] < 1.0
    assert sum(course["spent_s"].values()) - course["spent_s"]["measured"] <= course["elapsed_s"]


def test_every_process_is_in_the_record_with_its_side_and_its_turns(compared):
    run, out = compared
    record = read_run(out / "records" / f"{run['run_id']}.jsonl")
    assert record.head.ab is not None
    assert len(record.trials) >= 12
    sides = {(t.facts.pair, t.facts.side) for t in record.trials}
    assert len(sides) == len(record.trials)
    a, b = (next(t for t in record.trials if t.facts.side == side) for side in "AB")
    assert a.case_id != b.case_id
    assert len(a.values("turn_time_s")) == len(b.values("turn_time_s")) >= 8
    moments = sorted([*((s, "A") for s in a.values("turn_begin_s")), *((s, "B") for s in b.values("turn_begin_s"))])
    assert max(len(list(turns)) for _, turns in groupby(side for _, side in moments)) <= 2, "they take turns"


def test_show_tells_the_answer_again(compared):
    run, out = compared
    shown = subprocess.run(
        [*TORCHSTONE, "show", run["run_id"], "--output-dir", str(out)], capture_output=True, text=True, check=True
    ).stdout
    told = " ".join(shown.split())
    assert re.match(r"HEAD~1 \(\w+\) is .* times as fast as HEAD~2 \(\w+\).*: worse", told)
    document = json.loads(
        subprocess.run(
            [*TORCHSTONE, "show", run["run_id"], "--output-dir", str(out), "--json"], capture_output=True, check=True
        ).stdout
    )
    assert document["answer"] == run["answer"]


@pytest.mark.long
def test_a_revision_that_does_not_build_is_a_mistake_of_one_line(repository, tmp_path):
    answer = ab(repository, "HEAD~1", "HEAD", *WHAT, "--output-dir", str(tmp_path / "out"), code=2)
    first, *rest = answer.stderr.splitlines()
    assert first.startswith("torchstone: HEAD (")
    assert "ZeroDivisionError" in answer.stderr
    assert not any("torchstone/" in line for line in rest), "the user's own lines only"
    assert not (tmp_path / "out" / "records").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("main", "gone", *WHAT), "'gone' is neither a recipe, a file, nor a revision"),
        (("main", "HEAD"), "two revisions need a workload"),
        (("smoke", "--task", "infer"), "both sides are equal: give each a setting"),
        (("smoke", "--a", "precision=fp32"), "both sides are equal (precision=fp32)"),
        (("demo", "--a", "precision=bf16"), "workloads: name one"),
        (("smoke", "--task", "infer", "--axis", "batch_size=1,2", "--a", "precision=bf16"), "--a batch_size=1 --b"),
        (("smoke", "--task", "infer", "--a", "presision=bf16"), "Did you mean 'precision'"),
        (("a", "b", "c"), "two sides"),
        (("smoke", "--task", "infer", "--a", "precision=bf16", "--false-alarms", "0%"), "--false-alarms"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(repository, tmp_path, words, said):
    answer = ab(repository, *words, "--output-dir", str(tmp_path / "out"), code=2)
    assert said in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert not (tmp_path / "out" / "records").exists()


@pytest.mark.long
def test_settings_of_one_recipe(tmp_path):
    answer = ab(
        tmp_path, "--task", "train", "--model", "builtin:mlp", "--a", "batch_size=4", "--b", "batch_size=8",
        "--axis", "threads=1", "--output-dir", str(tmp_path / "out"),
    )  # fmt: skip
    titles = answer.stdout.partition("step time")[0]
    assert re.search(r"A:\s.*batch_size=4", titles, re.DOTALL), "a column each, its title on one line or two"
    assert re.search(r"B:\s.*batch_size=8", titles, re.DOTALL)
    assert "pairs of processes" in answer.stdout
    assert "batch sizes differ: comparing time per item, as a step of B has 2 times the items" in " ".join(
        answer.stdout.split()
    )


SLEEPER = """
import time
import torch


class Sleeps(torch.nn.Linear):
    def forward(self, x):
        time.sleep(0.4)
        return super().forward(x)


def load():
    return Sleeps(8, 8), {"input": torch.zeros(4, 8)}, lambda module, batch: module(batch["input"]).square().mean()
"""


def test_long_steps_keep_to_the_time_that_was_given(tmp_path):
    (tmp_path / "net.py").write_text(SLEEPER)
    (tmp_path / "one.yaml").write_text("name: one\ntask: train\nmodel: py:net.py:load\n")
    answer = ab(
        tmp_path, "one.yaml", "one.yaml", "--within", "12s", "--json", "--output-dir", str(tmp_path / "out"), code=None
    )
    run = json.loads(answer.stdout)
    course, found = run["answer"]["course"], run["answer"]["comparison"]
    # A machine with other work may take longer than that to import torch: what goes before the first pair is its own,
    # and where no time was left for a pair nothing was measured.
    assert answer.returncode == (0 if course["pairs"] else 1), answer.stderr
    latest_s = 1.1 * max(12.0, course["spent_s"]["before"]) + 0.4
    assert course["elapsed_s"] <= latest_s + 2.0
    assert found["verdict"] != "worse"
    if found["ratio"] is None:
        assert found["verdict"] == "unclear"
        assert "12 s" in found["why"]["text"]
        assert course["pairs"] < 6 or course["needed_s"]
    if course["pairs"]:
        assert "a step takes 0.4" in answer.stderr
        assert "--within" in answer.stderr


LOADING = """
import os
import torch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        with open(os.environ["CORES_SEEN"], "a") as file:
            file.write(f"{len(os.sched_getaffinity(0))}\\n")
        return {"input": torch.full((64,), float(index))}


def load():
    net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 8))
    return net, Rows(), lambda module, batch: module(batch["input"]).square().mean()
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_both_sides_are_pinned_and_their_loaders_have_every_core(tmp_path, monkeypatch):
    for name in ("OMP_PROC_BIND", "OMP_PLACES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    seen = tmp_path / "seen.txt"
    monkeypatch.setenv("CORES_SEEN", str(seen))
    (tmp_path / "net.py").write_text(LOADING)
    recipe = "name: one\ntask: train\nmodel: py:net.py:load\naxes: {feed: loader, num_workers: 2, batch_size: 8}\n"
    (tmp_path / "one.yaml").write_text(recipe)
    answer = ab(
        tmp_path, "one.yaml", "one.yaml", "--margin", "90%", "--false-alarms", "20%", "--within", "25s", "--json",
        "--output-dir", str(tmp_path / "out"),
    )  # fmt: skip
    run = json.loads(answer.stdout)
    assert run["procedure"]["pin_threads"] is True
    trials = [trial for case in run["cases"] for trial in case["trials"] if trial["outcome"]["status"] == "ok"]
    if not trials or any(trial["facts"]["threads_pinned"] == 0 for trial in trials):
        pytest.skip("the machine is too busy for a pair, or this torch has an OpenMP that binds nothing")
    assert {trial["facts"]["threads_pinned"] for trial in trials} == {len(os.sched_getaffinity(0))}
    assert set(seen.read_text().split()) == {str(len(os.sched_getaffinity(0)))}
