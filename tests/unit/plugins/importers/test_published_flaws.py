"""What the tools and the seeds get wrong is found in their own files (README.md here says whose each flaw is)."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchstone.core.schema.estimate import Finding
from torchstone.storage.foreign import looked_at, recognised

SAMPLES = Path(__file__).parent / "samples"
FLAWS = (
    ("optimum_training.json", "wrong_rate", "the items of all 100 steps were divided by the time of one"),
    ("optimum_training.json", "beyond_device", "wrong unit?"),
    ("optimum_generate.json", "wrong_rate", "generated tokens were counted instead of texts"),
    ("optimum_generate.json", "unsupported_percentile", "p99 is reported from 16 steps"),
    ("optimum_generate.json", "zero_for_missing", "energy_per_item_j"),
    ("benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv", "only_summaries", "no step times"),
    ("benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv", "few_trials", "variation between trials"),
    ("timm_train.csv", "device_unclear", "is not recorded"),
    ("pytest_benchmark.json", "warmup_left_in", "the first step of the latency window takes 370 ms"),
    ("benchmark_amd_20251029_143022.json", "wrong_rate", "the mean of per-step rates"),
    ("gpu_performance_results_food101_huo_20250407_141715.csv", "warmup_left_in", "above the 95th percentile"),
    ("sweep_summary.txt", "phases_differ", "the optimizer step is in no phase"),
    ("sweep_summary.txt", "phases_differ", "sum to 922.01 ms, but the reported step time is 921.01 ms"),
    ("sweep_summary.txt", "wrong_choice", "287.5 items/s/GB is labelled the best efficiency, but batch_size 64 has"),
    ("sweep_table.csv", "phases_differ", "the optimizer step is in no phase"),
    ("training_benchmark_results_20250302_123456.json", "out_of_order", "loss: min (2.346) is above max (1.234)"),
    ("training_benchmark_results_20250302_123456.json", "device_unclear", "the name of cuda:0 is not recorded"),
    ("training_benchmark_results_async.json", "not_synchronised", "only a few steps wait for the device"),
    ("training_benchmark_results_async.json", "device_unclear", "a world size of 1"),
    ("batch_comparison.jsonl", "wrong_rate", "the mean of per-step rates"),
    ("batch_comparison.jsonl", "impossible_energy", "power was sampled only 1 time"),
    ("vllm_bench.json", "failed_requests", "2 requests failed or were cut off"),
    ("vllm_bench.json", "unsupported_percentile", "p99 is reported from 20 steps"),
    ("vllm_bench_appended.jsonl", "zero_for_missing", "time_to_first_token_mean_s"),
    ("guidellm_benchmarks.json", "wrong_summary", "times that are missing were counted as 0"),
    ("profile_export_aiperf.json", "failed_requests", "1 request failed"),
    ("llama_bench.json", "wrong_rate", "the mean of per-step rates"),
    ("llama_bench.json", "warmup_left_in", "takes 240 ms"),
    ("qwen3_benchmark_20260301_130000.json", "wrong_summary", "divided by the tokens"),
    ("distilbert_benchmark_results.csv", "zero_for_missing", "throughput"),
)


def findings(name: str) -> list[Finding]:
    tool = recognised(SAMPLES / name)
    assert tool is not None
    return [finding for run in looked_at(tool, SAMPLES / name) for finding in run.findings]


@pytest.mark.parametrize(("name", "check", "words"), FLAWS)
def test_a_published_flaw_is_found_and_named(name: str, check: str, words: str) -> None:
    assert [f for f in findings(name) if f.check == check and words in f.message]


def test_a_sound_result_has_but_one_doubt() -> None:
    assert {f.check for f in findings("optimum_inference.json")} == {"few_trials"}
