"""`torchstone run` through the real CLI, in real processes, with small real models."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from warm_templates import TORCHSTONE


def torchstone(*words: str, check: bool = True, code: int = 0, **settings: Any) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run([*TORCHSTONE, *words], capture_output=True, text=True, timeout=240, check=False, **settings)
    if check:
        assert answer.returncode == code, answer.stderr
    return answer


def run_json(*words: str, code: int = 0) -> dict[str, Any]:
    return json.loads(torchstone("run", *words, "--json", "--quiet", code=code).stdout)


QUICK = ("--trials", "2", "--warmup", "1", "--iterations", "4")


def test_a_recipe_from_start_to_files(outputs):
    answer = torchstone("run", "smoke", "--axis", "batch_size=2,4")
    assert "throughput" in answer.stdout
    assert "10/10" in answer.stderr
    records = list((outputs / "records").glob("*.jsonl"))
    documents = list(outputs.glob("benchmark_cpu_*.json"))
    assert len(records) == len(documents) == 1
    assert (outputs / "torchstone.sqlite").exists()
    assert len(list((outputs / "data").glob("*_cases.csv"))) == 1
    lines = [json.loads(line)["record"] for line in records[0].read_text().splitlines()]
    assert lines[0] == "head"
    assert lines.count("trial") == 10
    assert lines[-1] == "end"


def test_json_is_one_document_with_everything_that_was_promised():
    run = run_json("--task", "train", "--model", "builtin:cnn", "--axis", "batch_size=4", *QUICK)
    assert set(run) >= {"schema", "run_id", "name", "machine", "procedure", "cases"}
    (case,) = run["cases"]
    assert set(case) >= {"case_id", "workload", "configuration", "placement", "verdict", "findings", "estimates"}
    throughput = case["estimates"]["throughput"]
    assert throughput["low"] < throughput["value"] < throughput["high"]
    assert throughput["trials"] == 2
    assert {t["outcome"]["status"] for t in case["trials"]} == {"ok"}
    wanted = {
        "throughput", "step_time_p50", "time_per_item_s", "first_step_time_s", "model_load_time_s", "start_time_s",
        "data_wait_s", "peak_rss_bytes", "loss_first", "loss_last", "flops_per_step", "achieved_flops", "total_items",
    }  # fmt: skip
    assert wanted <= set(case["estimates"])
    assert run["machine"]["devices"][0]["kind"] == "cpu"


def test_inference_has_its_latencies_and_marks_the_percentiles_that_four_steps_cannot_support():
    run = run_json("--model", "builtin:mlp", "--batch-sizes", "1,3", "5", *QUICK)
    assert [c["configuration"]["batch_size"] for c in run["cases"]] == [1, 3, 5]
    estimates = run["cases"][0]["estimates"]
    assert estimates["latency_per_batch_p50_s"]["value"] > 0
    assert not estimates["latency_per_batch_p99_s"]["supported"]
    assert "662" in estimates["latency_per_batch_p99_s"]["note"]
    assert estimates["latency_per_batch_min_s"]["value"] <= estimates["latency_per_batch_max_s"]["value"]
    assert estimates["time_to_first_prediction_s"]["value"] > 0


@pytest.mark.long
def test_images_through_a_real_loader_with_worker_processes():
    axes = ("--axis", "image_size=32", "--axis", "batch_size=8", "--axis", "feed=loader", "--axis", "num_workers=0,2")
    run = run_json("--task", "train", "--model", "hf:vit-tiny", "--data", "digits", *axes, *QUICK)
    for case in run["cases"]:
        assert {t["outcome"]["status"] for t in case["trials"]} == {"ok"}, case["trials"]
        assert case["trials"][0]["facts"]["dataset_items"] == 1797
        assert case["estimates"]["epoch_time_s"]["value"] > 0
    workers = {c["configuration"]["num_workers"]: c for c in run["cases"]}
    assert workers[2]["trials"][0]["facts"]["warmup_steps"] >= 4, "the prefetch queue is drained first"


@pytest.mark.long
def test_settings_a_user_knows():
    axes = {
        "precision": "fp32,bf16", "optimizer": "sgd,adam", "grad_accumulation": "2", "gradient_checkpointing": "true",
        "grad_clip": "1.0", "threads": "1", "batch_size": "2", "sequence_length": "16", "learning_rate": "1e-3",
    }  # fmt: skip
    words = [word for name, value in axes.items() for word in ("--axis", f"{name}={value}")]
    run = run_json("--task", "train", "--model", "hf:bert-tiny", *words, *QUICK)
    assert len(run["cases"]) == 4
    for case in run["cases"]:
        assert {t["outcome"]["status"] for t in case["trials"]} == {"ok"}, case["trials"]
        assert case["estimates"]["total_items"]["value"] == 4 * 2 * 2


@pytest.mark.parametrize(
    ("axis", "reason"),
    [("precision=tf32", "tf32"), ("channels_last=true", "channels_last")],
)
def test_what_the_device_or_model_cannot_do_is_unsupported_with_the_reason(axis, reason):
    words = ("--task", "train", "--model", "hf:bert-tiny", "--axis", axis, "--axis", "sequence_length=16")
    run = run_json(*words, *QUICK, code=1)
    first, *others = (trial["outcome"] for trial in run["cases"][0]["trials"])
    assert first["status"] == "unsupported"
    assert {outcome["status"] for outcome in others} == {"skipped"}, "it would not be supported the next time"
    assert all(reason in outcome["message"] for outcome in (first, *others))
    assert run["cases"][0]["verdict"] == "INVALID"


def test_a_sweep_over_page_locked_memory_tells_why_the_cpu_has_none():
    words = ("--task", "train", "--model", "builtin:mlp", "--device", "cpu", "--axis", "num_workers=0")
    run = run_json(*words, "--axis", "pin_memory=true,false", *QUICK)
    pinned, plain = ([trial["outcome"] for trial in case["trials"]] for case in run["cases"])
    assert [outcome["status"] for outcome in pinned] == ["unsupported", "skipped"]
    assert "pinning needs an accelerator" in pinned[0]["message"]
    assert {outcome["status"] for outcome in plain} == {"ok"}


@pytest.mark.long
def test_a_file_for_a_card_is_measured_on_the_cpu_and_says_what_had_no_effect(tmp_path):
    (tmp_path / "default.yaml").write_text(
        "data:\n  batch_size: 8\n  num_workers: 0\n  pin_memory: true\n\ntraining:\n  learning_rate: 0.0002\n"
    )
    words = ("--config", str(tmp_path / "default.yaml"), "--model", "builtin:mlp", "--device", "cpu")
    run = run_json(*words, *QUICK)
    (case,) = run["cases"]
    assert {trial["outcome"]["status"] for trial in case["trials"]} == {"ok"}
    assert (case["configuration"]["pin_memory"], case["configuration"]["feed"]) == (False, "loader")
    (found,) = (one for one in run["findings"] if one["check"] == "setting_without_effect")
    assert found["values"]["setting"] == "pin_memory=true"


@pytest.mark.long
def test_a_new_interpreter_for_every_trial():
    run = run_json("--model", "builtin:mlp", "--isolation", "spawn", *QUICK)
    assert run["procedure"]["isolation"] == "spawn"
    assert {t["outcome"]["status"] for t in run["cases"][0]["trials"]} == {"ok"}


def test_a_trial_that_takes_too_long_is_timed_out_and_the_others_go_on(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import time, torch\n"
        "class Slow(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        time.sleep(60 if len(x) > 1 else 0)\n"
        "        return x\n"
        "def load():\n"
        "    return Slow(), torch.zeros(1, 3)\n"
    )
    run = run_json("--model", f"py:{tmp_path}/mine.py:load", "--batch-sizes", "1", "2", "--timeout", "4s", *QUICK)
    ends = {c["configuration"]["batch_size"]: [t["outcome"]["status"] for t in c["trials"]] for c in run["cases"]}
    assert ends == {1: ["ok", "ok"], 2: ["timed_out", "skipped"]}


def test_a_crash_names_the_users_own_line_and_strict_exits_1(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "class Fragile(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if len(x) > 1:\n"
        "            raise ValueError('too many rows')\n"
        "        return x\n"
        "def load():\n"
        "    return Fragile(), torch.zeros(1, 3)\n"
    )
    words = ("run", "--model", f"py:{tmp_path}/mine.py:load", "--batch-sizes", "1,2", *QUICK, "--json", "--quiet")
    answer = torchstone(*words, "--strict", check=False)
    assert answer.returncode == 1
    bad = next(c for c in json.loads(answer.stdout)["cases"] if c["configuration"]["batch_size"] == 2)
    assert bad["trials"][0]["outcome"]["message"] == "ValueError: too many rows at mine.py:5 in forward"
    record = next(Path(os.environ["TORCHSTONE_OUTPUT"]).glob("records/*.jsonl")).read_text()
    assert "raise ValueError('too many rows')" in record
    assert "site-packages" not in record.split('"traceback"')[1].split("}")[0]


def test_a_model_that_is_killed_is_data(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os, signal, torch\n"
        "class Killed(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if len(x) > 1:\n"
        "            os.kill(os.getpid(), signal.SIGSEGV)\n"
        "        return x\n"
        "def load():\n"
        "    return Killed(), torch.zeros(1, 3)\n"
    )
    run = run_json("--model", f"py:{tmp_path}/mine.py:load", "--batch-sizes", "1", "2", *QUICK)
    bad = next(c for c in run["cases"] if c["configuration"]["batch_size"] == 2)
    message = "killed by SIGSEGV during warm-up at mine.py:5 in forward"
    ended = bad["trials"][0]["outcome"]
    assert (ended["status"], ended["message"], ended["traceback"]) == ("crashed", message, None)
    record = next(Path(os.environ["TORCHSTONE_OUTPUT"]).glob("records/*.jsonl")).read_text()
    assert 'mine.py\\", line 5, in forward' in record


def test_a_diverged_loss_survives_the_pipe_and_the_record(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def load():\n"
        "    example = (torch.ones(4, 3), torch.ones(4, 1))\n"
        "    return torch.nn.Linear(3, 1), example, lambda out, y: out.mean() * float('nan')\n"
    )
    run = run_json("--task", "train", "--model", f"py:{tmp_path}/mine.py:load", *QUICK, code=1)
    (case,) = run["cases"]
    assert case["verdict"] == "INVALID"
    assert [f["check"] for f in case["findings"] if f["severity"] == "error"] == ["nan_loss"]


def test_what_a_model_prints_does_not_mix_with_the_answer(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\nprint('importing')\n"
        "def load():\n    print('loading')\n    return torch.nn.Linear(3, 1), torch.ones(2, 3)\n"
    )
    answer = torchstone("run", "--model", f"py:{tmp_path}/mine.py:load", *QUICK, "--json", "--quiet")
    json.loads(answer.stdout)
    assert "loading" in answer.stderr
