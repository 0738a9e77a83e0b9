"""`torchstone tune` through the real CLI, with a small real model."""

import contextlib
import io
import json
import re
import subprocess
from typing import Any

import msgspec
import pytest
from warm_templates import TORCHSTONE

from torchstone.analysis.summary import all_in_doubt, summarize
from torchstone.cli._applying import apply_answer
from torchstone.core.schema.estimate import Verdict
from torchstone.core.schema.trial import Purpose, Status
from torchstone.storage.query import find, read_run

pytestmark = pytest.mark.xdist_group("tune")  # one measurement serves all its tests

# One thread: beside another test, on as many cores, steps of several threads take ten times as long, now and then.
SMALL = ("--task", "train", "--model", "builtin:cnn", "--data", "digits", "--axis", "batch_size=4,8,16,32",
         "--axis", "num_workers=0,1", "--axis", "precision=fp32", "--axis", "threads=1", "--budget", "300ms",
         "--warmup-budget", "100ms", "--trials", "2", "--probes", "8")  # fmt: skip


def tune(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run([*TORCHSTONE, "tune", *words], capture_output=True, text=True, timeout=240, check=False)
    assert answer.returncode == code, answer.stderr
    return answer


@pytest.fixture(scope="module")
def tuned(tmp_path_factory) -> tuple[Any, str, Any]:
    """One tune with everything: its document, what it said meanwhile, the folder and the user's file."""
    folder = tmp_path_factory.mktemp("tuned")
    config = folder / "train.yaml"
    config.write_text("# how we train\ndata:\n  batch_size: 1  # was enough once\n  num_workers: 1\nuse_amp: true\n")
    words = [*TORCHSTONE, "tune", *SMALL, "--apply", str(config), "--json", "--output-dir", str(folder / "outputs")]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    run, said = json.loads(answer.stdout), answer.stderr
    summary = summarize(find(folder / "outputs", run["run_id"]))
    believed = not all_in_doubt(summary.cases)
    assert answer.returncode == (0 if believed else 1), said
    if not believed:  # other tests ran beside it
        assert "which settings are best is not known (SUSPECT)" in said
        assert "was enough once" in config.read_text()
        assert not config.with_suffix(".yaml.bak").exists()
        valid = tuple(msgspec.structs.replace(case, verdict=Verdict.VALID) for case in summary.cases)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            apply_answer(config, msgspec.structs.replace(summary, cases=valid))
        said += told.getvalue()
    return run, said, folder


def test_the_answer_is_measured_and_compared_with_the_present_settings(tuned):
    run, _, _ = tuned
    answer = run["answer"]
    best = answer["recommended"]
    assert best["point"]["batch_size"] > 1, "one image a step wastes a CPU's time"
    assert best["trials"] == 2
    assert answer["gain"]["value"] > 1.0
    assert answer["gain"]["low"] is not None
    assert answer["present"]["point"] == {"batch_size": 1, "num_workers": 1}
    assert answer["epoch_time_s"]["value"] == pytest.approx(1797 / best["throughput"], rel=0.2)
    assert answer["why"]
    assert answer["points"] == 10, "what the file says now is among them"
    present = next(case for case in run["cases"] if case["case_id"] == answer["present"]["case_id"])
    assert present["configuration"]["precision"] == "bf16", "the file's, though --axis precision=fp32 is searched"
    assert 2 <= answer["tried"] < 10
    assert set(answer["untried"]) >= {"batch_size"}
    assert 0 < answer["probes"] <= 12


def test_only_replicates_stand_behind_the_numbers(tuned):
    run, _, folder = tuned
    record = read_run(folder / "outputs" / "records" / f"{run['run_id']}.jsonl")
    best = run["answer"]["recommended"]["case_id"]
    case = next(c for c in run["cases"] if c["case_id"] == best)
    purposes = [t.purpose for t in record.trials if t.case_id == best]
    assert purposes.count(Purpose.REPLICATE) == 2 == case["estimates"]["throughput"]["trials"]
    assert Purpose.PROBE in {t.purpose for t in record.trials}
    assert record.answer is not None
    assert record.head.tune is not None


def test_stages_are_told_while_it_works(tuned):
    _, said, _ = tuned
    assert "tuning train builtin:cnn on cpu for throughput" in said
    assert "loader-only throughput" in said
    assert "device-only throughput" in said
    assert "final rounds of" in said


def test_the_settings_are_in_the_file_and_its_comments_too(tuned):
    run, said, folder = tuned
    assert "measured with settings that were not written: threads 1\n" in said
    text = (folder / "train.yaml").read_text()
    best = run["answer"]["settings"]
    assert f"batch_size: {best['batch_size']}  # was enough once" in text
    assert text.startswith("# how we train\n")
    assert "use_amp: false\n" in text, "all was measured in fp32"
    assert best["precision"] == "fp32"
    assert "batch_size: 1  #" in (folder / "train.yaml.bak").read_text()


def test_show_prints_the_answer_again(tuned):
    run, _, folder = tuned
    words = [*TORCHSTONE, "show", run["run_id"], "--output-dir", str(folder / "outputs")]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    if shown.startswith("Which settings are best is not known"):
        assert "SUSPECT" in shown
        return
    assert f"batch_size {run['answer']['recommended']['point']['batch_size']}" in shown
    assert "times the present settings" in " ".join(shown.split())


@pytest.mark.long
def test_a_tune_that_was_out_of_time_goes_on_where_it_was(outputs):
    cut = tune(*SMALL, "--time-limit", "2s", code=1)
    assert "torchstone: out of time: `torchstone resume" in cut.stderr
    (path,) = (outputs / "records").glob("*.jsonl")
    before = [t for t in read_run(path).trials if t.outcome.status == Status.OK]
    words = [*TORCHSTONE, "resume", path.stem, "--time-limit", "1h"]
    resumed = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert resumed.returncode == 0, resumed.stderr
    run = read_run(path)
    assert run.answer is not None
    good = [t for t in run.trials if t.outcome.status == Status.OK]
    assert [t.trial_id for t in good[: len(before)]] == [t.trial_id for t in before], "what was measured is believed"
    taken = [(t.case_id, t.number, t.purpose) for t in good if not t.disturbed]
    assert len(set(taken)) == len(taken), "no trial was started twice but for one that others disturbed"
    again = subprocess.run([*TORCHSTONE, "resume", path.stem], capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 2
    assert "nothing is missing" in again.stderr


def test_a_limit_that_nothing_keeps_to_says_what_came_nearest(outputs):
    answer = tune(*SMALL, "--only", "batch_size", "--searcher", "grid", "--max-latency", "1us", code=1)
    last = answer.stderr.strip().splitlines()[-1]
    said = r"torchstone: no configuration meets --max-latency; nearest: batch_size=\d+, [\d,]+ times the limit\."
    assert re.match(said, last), last
    assert len(list((outputs / "records").glob("*.jsonl"))) == 1


def test_what_is_wrong_with_a_request_is_said_before_anything_is_written(refused):
    assert "unknown objective 'speed'" in refused("tune", *SMALL, "--objective", "speed")
    assert "unknown searcher 'gird'. Did you mean 'grid'?" in refused("tune", *SMALL, "--searcher", "gird")
    assert "--max-memory 120%" in refused("tune", *SMALL, "--max-memory", "120%")
    assert "batch_size>=1 removes 8" in refused("tune", *SMALL, "--exclude", "batch_size>=1")
    assert "not a multiple of any batch size" in refused("tune", *SMALL, "--effective-batch", "30")
    assert "choose with --task" in refused("tune", "demo")
    assert "nothing to tune" in refused("tune")
