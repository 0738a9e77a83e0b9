"""`--push` of every command that measures: what the team's store gets, what is said, what is kept where it fails."""

import importlib.util
import json
import re
import shlex
import sys

import pytest
from postgresql import READER, WRITER

from torchstone.cli import main

QUICK = (
    "--model", "builtin:mlp", "--axis", "threads=1", "--warmup-budget", "20ms", "--trials", "1", "--quiet", "--push",
    "--disturbed", "keep",
)  # fmt: skip
RUN = ("run", "--iterations", "5", "--warmup", "0", *QUICK)
TUNE = ("tune", "--task", "train", "--axis", "batch_size=4,16", "--axis", "precision=fp32", "--probes", "2",
        "--budget", "50ms", *QUICK)  # fmt: skip
TRAIN = ("train", "--model", "builtin:mlp", "--steps", "5", "--quiet", "--push")
GOODPUT = ("goodput", "--p99", "50ms", "--budget", "50ms", "--within", "3s", *QUICK)
NO_LOADGEN = importlib.util.find_spec("mlperf_loadgen") is None


def done(capsys, *words, code=0):
    """Run a command; return what is on stdout and the lines on stderr."""
    capsys.readouterr()
    assert main(list(words)) == code
    told = capsys.readouterr()
    return told.out, told.err.splitlines()


@pytest.mark.parametrize(
    "words",
    [
        TRAIN,
        pytest.param(GOODPUT, marks=pytest.mark.skipif(NO_LOADGEN, reason="pip install 'torchstone[load]'")),
    ],
    ids=lambda words: words[0],
)
def test_a_complete_run_is_in_the_store_as_in_the_folder(words, team, outputs, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_STORE", team.url("bench", WRITER))
    printed, said = done(capsys, *words, "--json")
    made = json.loads(printed)
    assert said == [f"torchstone: pushed to postgresql://127.0.0.1:{team.port}/bench"]
    assert shown_alike(capsys, made["run_id"], team, outputs)["cases"] == made["cases"]


def shown_alike(capsys, run_id, team, outputs):
    """Check that a run is the same from the store and from the folder; return it as JSON."""
    shown = ("show", run_id, "--json")
    theirs, _ = done(capsys, *shown, "--store", team.url("bench", READER))
    ours, _ = done(capsys, *shown, "--output-dir", str(outputs))
    assert alike(theirs) == alike(ours)
    return json.loads(ours)


def alike(document):
    """What is the same wherever a run is read: without the path of its record."""
    return json.loads(re.sub(r'"[^"]*/records/|"[^"]*/store/[0-9a-f]{64}/', '"', document))


def test_a_run_that_cannot_be_pushed_is_kept_and_ends_as_it_would(team, outputs, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_STORE", team.url("bench", READER))
    _, (said,) = done(capsys, *RUN)
    assert said.startswith("torchstone: not pushed: ")
    assert re.search(r"you may not do this .*; the run is kept: `torchstone push 2[\w-]+` sends it later$", said)


def test_a_store_that_is_away_at_the_end_gets_the_run_by_the_words_that_are_said(team, tmp_path, capsys, monkeypatch):
    """A training that timed out: it fails whether it could be pushed or not, and its trial is data."""
    monkeypatch.setenv("TORCHSTONE_STORE", team.url("bench", WRITER))
    monkeypatch.setattr("torchstone.storage.team.records.PATIENCE_S", 0.5)
    team.kill()
    try:
        folder = str(tmp_path / "else where")
        printed, said = done(capsys, *TRAIN, "--timeout", "1ms", "--json", "--output-dir", folder, code=1)
    finally:
        team.start()
    assert "cannot be reached" in said[-1]
    match = re.search(r"; the run is kept: `torchstone (push .*)` sends it later$", said[-1])
    assert match, said
    assert "1 run pushed" in done(capsys, *shlex.split(match[1]))[0]
    run_id = json.loads(printed)["run_id"]
    assert team.sql("SELECT run_id, status FROM torchstone.trials", "bench") == [(run_id, "timed_out")]


def test_a_tune_that_is_not_complete_is_pushed_when_it_is_resumed(team, outputs, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_STORE", team.url("bench", WRITER))
    _, said = done(capsys, *TUNE, "--time-limit", "1ms", code=1)
    (record,) = (outputs / "records").iterdir()
    missing = f"not pushed, as trials are missing: `torchstone push {record.stem}` sends what there is"
    assert said[-1] == f"torchstone: {missing}"
    assert team.sql("SELECT count(*) FROM torchstone.runs", "bench") == [(0,)]
    _, said = done(capsys, "resume", "--quiet", "--push", "--time-limit", "1h", "--output-dir", str(outputs))
    assert said == [f"torchstone: pushed to postgresql://127.0.0.1:{team.port}/bench"]
    assert shown_alike(capsys, record.stem, team, outputs)["answer"]


@pytest.mark.parametrize("words", [RUN, TUNE, TRAIN, GOODPUT], ids=lambda words: words[0])
def test_a_push_that_is_not_possible_is_refused_before_anything_is_measured(words, outputs, refused, monkeypatch):
    monkeypatch.delenv("TORCHSTONE_STORE", raising=False)
    assert "set TORCHSTONE_STORE=postgresql://USER@HOST/DATABASE" in refused(*words)


def test_what_measures_no_whole_run_pushes_none(outputs, refused):
    assert "`torchstone push RUN`" in refused("run", "--plan", "plan.json", "--share", "0", "--push")
    assert "--for predicts and measures nothing" in refused(*TUNE, "--for", "h100-80gb")


def test_without_psycopg_a_push_is_refused_before_anything_is_measured(outputs, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_STORE", "postgresql://db.example/bench")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    _, (said,) = done(capsys, *RUN, code=3)
    assert "pip install 'torchstone[postgres]'" in said
    assert not outputs.exists()
