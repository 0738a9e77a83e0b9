"""`torchstone ab` through the real CLI: two git revisions of a small model, of which one does four times the work."""

import json
import subprocess
import sys
from itertools import groupby
from typing import Any

import pytest

from torchstone.store.query import read_run

TORCHSTONE = [sys.executable, "-m", "torchstone"]
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


def ab(folder, *words, code=0) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [*TORCHSTONE, "ab", *words], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert answer.returncode == code, answer.stderr
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
        repository, "HEAD~2", "HEAD~1", *WHAT, "--within", "20s", "--fail-on", "worse:5%", "unclear", "--json",
        "--output-dir", str(out), code=1,
    )  # fmt: skip
    return json.loads(answer.stdout), out


def test_the_slower_revision_is_worse_and_the_gate_fails(compared):
    run, _ = compared
    found = run["comparison"]
    assert found["verdict"] == "worse"
    assert found["baseline"]["label"].startswith("HEAD~2 (")
    assert 1.0 < found["ratio"]["low"] <= found["ratio"]["value"] <= found["ratio"]["high"]
    assert found["ratio"]["value"] > 1.5
    course = run["contest"]
    assert course["stopped_because"] == "settled"
    assert course["pairs"] >= 6
    assert course["templates"] >= 1
    assert course["elapsed_s"] > 1.0


def test_every_process_is_in_the_record_with_its_side_and_its_turns(compared):
    run, out = compared
    record = read_run(out / "records" / f"{run['run_id']}.jsonl")
    assert record.head.contest is not None
    assert len(record.trials) >= 12
    sides = {(t.facts["pair"], t.facts["side"]) for t in record.trials}
    assert len(sides) == len(record.trials)
    a, b = (next(t for t in record.trials if t.facts["side"] == side) for side in "AB")
    assert a.case_id != b.case_id
    assert len(a.values("turn_time_s")) == len(b.values("turn_time_s")) >= 8
    moments = sorted([*((s, "A") for s in a.values("turn_begin_s")), *((s, "B") for s in b.values("turn_begin_s"))])
    assert max(len(list(turns)) for _, turns in groupby(side for _, side in moments)) <= 2, "they take turns"


def test_show_tells_the_answer_again(compared):
    run, out = compared
    shown = subprocess.run(
        [*TORCHSTONE, "show", run["run_id"], "--output-dir", str(out)], capture_output=True, text=True, check=True
    ).stdout
    assert "worse: HEAD~1 (" in shown
    assert "false alarms; " in shown, "the interval"
    assert "median of processes" in shown, "the table of both sides"
    told = json.loads(
        subprocess.run(
            [*TORCHSTONE, "show", run["run_id"], "--output-dir", str(out), "--json"], capture_output=True, check=True
        ).stdout
    )
    assert {name: told["contest"][name] for name in ("pairs", "templates")} == {
        name: run["contest"][name] for name in ("pairs", "templates")
    }
    assert 0.0 < told["contest"]["elapsed_s"] < run["contest"]["elapsed_s"]


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
        (("main", "HEAD"), "two revisions of what?"),
        (("smoke", "--task", "infer"), "nothing differs"),
        (("smoke", "--a", "precision=fp32"), "both sides have precision=fp32"),
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


def test_settings_of_one_recipe(tmp_path):
    answer = ab(
        tmp_path, "--task", "train", "--model", "builtin:mlp", "--a", "batch_size=4", "--b", "batch_size=8",
        "--axis", "threads=1", "--within", "8s", "--output-dir", str(tmp_path / "out"),
    )  # fmt: skip
    assert "A: batch_size=4" in answer.stdout
    assert "B: batch_size=8" in answer.stdout
    assert "pairs of processes" in answer.stdout
    assert "a step of B has 2 times the items" in answer.stdout
