"""Loads through the real command line: MLPerf's scenarios, goodput, and what goes wrong with them."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from torchstone.cli import main
from torchstone.core.errors import ExitCode

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlperf_loadgen") is None, reason="MLCommons LoadGen: pip install 'torchstone[load]'"
)
# A model that sleeps: its time depends neither on the machine nor on what else it does.
MODEL = """
import os, signal, time, torch

class Sleeper(torch.nn.Module):
    def __init__(self, answers, dies=False):
        super().__init__()
        self.linear, self.left, self.dies = torch.nn.Linear(4, 2), answers, dies

    def forward(self, x):
        time.sleep(0.002)
        self.left -= 1
        if self.left == 0 and self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.left == 0:
            raise RuntimeError("the model gave up")
        return self.linear(x)

def load():
    return Sleeper(-1), torch.zeros(4, 4)

def breaks():
    return Sleeper(150), torch.zeros(4, 4)

def dies():
    return Sleeper(150, dies=True), torch.zeros(4, 4)
"""
QUICK = ("--budget", "1s", "--warmup-budget", "50ms", "--quiet", "--axis", "threads=1")


@pytest.fixture
def model(tmp_path):
    (tmp_path / "sleeper.py").write_text(MODEL)
    return f"py:{tmp_path / 'sleeper.py'}"


def told(capfd, *words):
    capfd.readouterr()
    code = main([*words, "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_the_four_scenarios_are_valid_and_agree(capfd, model):
    axes = ("--axis", "scenario=single_stream,multi_stream,offline,server", "--axis", "samples_per_query=2")
    rate = ("--axis", "target_qps=300", "--axis", "latency_bound_s=0.2", "--batch-sizes", "2")
    words = ("run", "--task", "loadgen", "--model", f"{model}:load", *axes, *rate, *QUICK, "--trials", "1")
    code, run = told(capfd, *words)
    assert code == 0
    cases = {case["configuration"]["scenario"]: case for case in run["cases"]}
    for scenario, case in cases.items():
        (trial,) = case["trials"]
        assert trial["facts"]["loadgen_result"] == "VALID", (scenario, trial["facts"]["loadgen_summary"])
        assert trial["facts"]["loadgen_version"].startswith("6.")
        assert trial["facts"]["loadgen_summary"].count("MLPerf Results Summary") == 1
        assert not any(f["check"] == "loadgen_invalid" for f in case["findings"])
    latencies = {scenario: case["estimates"].get("query_latency_p50_s") for scenario, case in cases.items()}
    assert 0.002 < latencies["single_stream"]["value"] < 0.02
    assert 0.002 < latencies["multi_stream"]["value"] < 0.02, "two samples in one batch"
    assert latencies["offline"] is None, "all at once: no latency of a query"
    assert 250.0 < cases["server"]["estimates"]["throughput"]["value"] < 350.0, "as many as arrive"
    assert 200.0 < cases["offline"]["estimates"]["throughput"]["value"] < 1000.0
    assert cases["offline"]["estimates"]["items_per_batch"]["value"] == pytest.approx(2.0, abs=0.01)
    assert main(["show"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "LoadGen: VALID in 1 of 1 loads" in said
    assert "Not an MLPerf result: min_duration 1.00 s, a submission's is 600 s." in said


@pytest.mark.long
def test_goodput_of_a_model_that_sleeps_is_that_of_a_queue_with_that_service_time(capfd, model, monkeypatch):
    words = ["goodput", "--model", f"{model}:load", "--p99", "40ms", *QUICK, "--within", "45s", "--trials", "1"]
    monkeypatch.setattr(sys, "argv", ["torchstone", *words])
    code, run = told(capfd, *words)
    assert code == 0
    (found,) = run["goodput"]
    assert found["met_any"]
    rate = found["rate"] or found["valid"][0]  # a neighbour of the test may leave no crossing
    assert 50.0 < rate < 480.0, "below what one server with 2 ms a query can do"
    assert found["trials"] == 3
    servers = [case for case in run["cases"] if case["configuration"]["scenario"] == "server"]
    taken = [trial for case in servers for trial in case["trials"]]
    assert all(trial["facts"]["loadgen_arrivals"] == "Poisson" for trial in taken)
    assert all(trial["facts"]["loadgen_schedule_seed"] == 1 + 3 * trial["number"] for trial in taken), "of their own"
    assert main(["show"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "at p99 ≤ 40.0 ms" in said
    cut = Path(run["record"])  # as Ctrl-C in the middle leaves it
    cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:-2]))
    assert main(["resume", str(cut)]) == ExitCode.WRONG
    assert "cannot be resumed; start a new one" in capfd.readouterr().err


def test_a_bound_that_no_rate_meets_is_said_so(capfd, model):
    assert main(["goodput", "--model", f"{model}:load", "--p99", "1ms", *QUICK]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "no rate meets p99 ≤ 1.00 ms. A query that is alone takes" in said


def test_a_load_above_what_the_model_can_do_is_invalid_with_loadgens_reasons(capfd, model):
    axes = ("--axis", "scenario=server", "--axis", "target_qps=2000", "--axis", "latency_bound_s=0.01")
    words = ("run", "--task", "loadgen", "--model", f"{model}:load", *axes, *QUICK, "--trials", "1")
    code, run = told(capfd, *words)
    (case,) = run["cases"]
    assert code == 0
    assert case["verdict"] == "INVALID"
    (found,) = [f for f in case["findings"] if f["check"] == "loadgen_invalid"]
    assert "Performance constraints satisfied : NO" in found["message"]
    assert "Reduce target QPS to improve latency." in found["message"]
    assert case["trials"][0]["duration_s"] < 20.0, "LoadGen ends it"


@pytest.mark.parametrize("scenario", ["single_stream", "server"])
def test_a_model_that_fails_in_the_middle_of_a_load_is_a_crashed_trial(capfd, model, scenario):
    axes = ("--axis", f"scenario={scenario}", "--axis", "target_qps=200")
    words = ("run", "--task", "loadgen", "--model", f"{model}:breaks", *axes, *QUICK, "--trials", "1")
    code, run = told(capfd, *words)
    assert code == ExitCode.NO
    ((trial,),) = [case["trials"] for case in run["cases"]]
    assert trial["outcome"]["status"] == "crashed"
    assert "the model gave up at sleeper.py:15 in forward" in trial["outcome"]["message"]


@pytest.mark.parametrize("scenario", ["single_stream", "server"])
def test_a_load_that_is_killed_leaves_nothing_in_the_temporary_folder(capfd, model, scenario, tmp_path, monkeypatch):
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # of the trial's process
    axes = ("--axis", f"scenario={scenario}", "--axis", "target_qps=200")
    words = ("run", "--task", "loadgen", "--model", f"{model}:dies", *axes, *QUICK, "--trials", "1")
    code, run = told(capfd, *words)
    assert code == ExitCode.NO
    ((trial,),) = [case["trials"] for case in run["cases"]]
    assert trial["outcome"]["message"].startswith("killed by SIGKILL during load")
    assert list(temporary.glob("torchstone*")) == []


def test_without_loadgen_one_line_says_what_to_install(capfd, monkeypatch, outputs):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "mlperf_loadgen" else find(name, *more)
    )
    for words in (["run", "--task", "loadgen", "--model", "builtin:mlp"], ["goodput", "--model", "builtin:mlp"]):
        assert main(words) == ExitCode.LACKING
        said = capfd.readouterr().err
        assert said == "torchstone: task loadgen needs MLCommons LoadGen: pip install 'torchstone[load]'\n"
    assert not outputs.exists()


def test_mistakes_are_one_line(refused):
    assert "nothing to load" in refused("goodput")
    assert "--p99 0ms" in refused("goodput", "--model", "builtin:mlp", "--p99", "0ms")
    assert "--max-batch 0" in refused("goodput", "--model", "builtin:mlp", "--max-batch", "0")
    assert "give one value of threads" in refused("goodput", "--model", "builtin:mlp", "--axis", "threads=1,2")
    assert "takes one workload" in refused("goodput", "demo", "--task", "train")
