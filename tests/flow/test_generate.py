"""Text generation through the real CLI: what is measured, what is shown, and what cannot generate."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from warm_templates import TORCHSTONE

from torchstone.storage.query import read_run

pytestmark = pytest.mark.xdist_group("generate")  # one measurement serves all its tests

WORDS = (
    "--task", "generate", "--model", "gpt2-tiny", "--axis", "new_tokens=16", "--axis", "sequence_length=8,24",
    "--axis", "batch_size=2", "--axis", "threads=1", "--trials", "3", "--warmup", "1", "--iterations", "6",
    "--disturbed", "keep",
)  # fmt: skip


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Generate once; return the folder and the run's document."""
    folder = tmp_path_factory.mktemp("generated")
    return folder, json.loads(torchstone(folder, "run", *WORDS, "--json", "--quiet"))


def torchstone(folder: Path, *words: str, columns: int = 100) -> str:
    command = (*TORCHSTONE, *words, "--output-dir", "outputs")
    wide = {**os.environ, "COLUMNS": str(columns)}
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=folder, env=wide)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_prefill_and_decode_are_measured_apart(generated):
    _, run = generated
    for case in run["cases"]:
        assert {t["outcome"]["status"] for t in case["trials"]} == {"ok"}, case["trials"]
        assert case["workload"]["data"] == "synthetic:full", "a prompt is as long as it was asked for"
        length = case["configuration"]["sequence_length"]
        value = {name: found["value"] for name, found in case["estimates"].items()}
        assert value["time_to_first_token_p50_s"] > 0.0
        assert value["time_per_output_token_p50_s"] > 0.0
        assert value["kv_cache_bytes"] == case["trials"][0]["facts"]["kv_cache_expected_bytes"]
        assert value["kv_cache_bytes"] == 2 * 2 * 2 * 64 * (length + 15) * 4
        assert value["output_token_throughput"] == pytest.approx(16 * value["throughput"])
        assert value["token_throughput"] == pytest.approx((16 + length) * value["throughput"])
        rate = 2 * length / value["time_to_first_token_mean_s"]
        assert value["prompt_token_throughput"] == pytest.approx(rate)
        assert value["flops_per_step"] > 0.0
        parts = value["phase_data_s"] + value["phase_prefill_s"] + value["phase_decode_s"] + value["phase_rest_s"]
        assert parts == pytest.approx(value["anatomy_step_s"])
        p95 = case["estimates"]["time_to_first_token_p95_s"]
        assert (p95["supported"], p95["note"]) == (False, "needs 130 steady samples a trial")
        assert not [f for f in case["findings"] if f["check"] == "fingerprint_moved"]


def test_the_parts_sum_to_the_answer(generated):
    folder, _ = generated
    off = []
    for trial in read_run(next(folder.glob("outputs/records/*.jsonl"))).trials:
        first, each = trial.values("time_to_first_token_s"), trial.values("time_per_output_token_s")
        answers = trial.values("latency_s", window="latency")
        assert len(first) == len(each) == len(answers) == 6
        assert len(trial.values("output_token_time_s")) == 6 * 15
        off += [(f + 15 * e) / whole - 1.0 for f, e, whole in zip(first, each, answers, strict=True)]
    assert sorted(map(abs, off))[len(off) // 2] < 0.01


@pytest.mark.parametrize("columns", [80, 160])
def test_the_table_leads_with_the_tokens(generated, columns):
    folder, _ = generated
    shown = torchstone(folder, "show", columns=columns)
    table = shown[shown.index("data synthetic:full") :].partition("\n\n")[0]
    assert max(map(len, table.splitlines())) <= columns
    header = shown[shown.index("data synthetic:full") : shown.index("───")]
    assert "new_tokens 16" in header
    words = header.replace("\n", " ").split()
    assert {"TTFT", "tokens/s"} <= set(words), "TPOT leaves where the intervals are wide"
    assert "sequences/s" not in words
    assert ("KV" in words) is (columns == 160)


def test_the_report_has_a_block(generated):
    folder, _ = generated
    block = " ".join(torchstone(folder, "show", "--full").partition("[GENERATION]")[2].partition("\n\n")[0].split())
    assert re.search(r"time_to_first_token_p50_s +[\d.]+ [mµ]s", block)
    assert re.search(r"\([\d.]+ [mµ]s.*needs 662 steady samples a trial", block)
    assert "kv_cache_bytes" in torchstone(folder, "show", "--full").partition("[MEMORY]")[2].partition("\n\n")[0]


def test_what_cannot_generate_is_one_line(refused):
    said = refused("run", "--task", "generate", "--model", "bert-tiny")
    assert "does not support task 'generate' (supported: infer, train)" in said
    assert "new_tokens" in refused("run", "--task", "infer", "--model", "gpt2-tiny", "--axis", "new_tokens=4")
