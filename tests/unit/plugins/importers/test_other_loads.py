"""Results of servers' load generators, llama-bench, NVBench and transformers: what becomes of their values."""

from __future__ import annotations

import json
import shutil
from array import array
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from torchstone.analysis.compare.inputs import traits
from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status
from torchstone.storage.foreign import looked_at, read_foreign, recognised

SAMPLES = Path(__file__).parent / "samples"


def the(path: Path) -> Run:
    tool = recognised(path)
    assert tool is not None
    (run,) = looked_at(tool, path)
    return run


def changed(name: str, folder: Path, change: Callable[[Any], None]) -> Path:
    found = json.loads((SAMPLES / name).read_text())
    change(found)
    path = folder / name
    path.write_text(json.dumps(found))
    return path


def seen(run: Run) -> set[tuple[str, str]]:
    return {(f.check, f.reason) for f in run.findings}


def test_vllm_keeps_the_requests_that_were_answered_and_the_wait_of_an_open_loop() -> None:
    raw = json.loads((SAMPLES / "vllm_bench.json").read_text())
    run = the(SAMPLES / "vllm_bench.json")
    (trial,), (case,) = run.trials, run.head.plan.cases
    values = figures(trial).values
    good = [place for place, error in enumerate(raw["errors"]) if not error]
    waited = [raw["latencies"][place] + raw["queue_times"][place] for place in good]
    assert len(trial.values("query_latency_s")) == len(good) == 20
    assert values["query_latency_mean_s"] == pytest.approx(fmean(waited))
    assert values["throughput"] == pytest.approx(20 / raw["duration"])
    assert values["output_token_throughput"] == pytest.approx(20 * 8 / raw["duration"])
    assert values["time_per_output_token_mean_s"] == pytest.approx(raw["mean_tpot_ms"] / 1e3)
    assert "items_per_batch" not in values
    assert case.configuration["request_rate"] == 10.0
    assert case.configuration["arrivals"] == "poisson"
    assert trial.facts.other["failed_requests"] == 2
    assert seen(run) >= {("failed_requests", ""), ("unsupported_percentile", "")}
    assert not {"wrong_summary", "wrong_rate", "only_summaries"} & {f.check for f in run.findings}


def test_a_latency_from_sending_contradicts_the_requests_of_an_open_loop(tmp_path: Path) -> None:
    def forget(found: Any) -> None:
        for name in [name for name in found if "including_client_queue" in name]:
            del found[name]

    assert ("wrong_summary", "") in seen(the(changed("vllm_bench.json", tmp_path, forget)))

    def at_once(found: Any) -> None:
        forget(found)
        found["request_rate"] = "inf"

    assert "wrong_summary" not in {check for check, _ in seen(the(changed("vllm_bench.json", tmp_path, at_once)))}


def test_vllm_without_a_word_on_which_failed_has_its_summaries_alone(tmp_path: Path) -> None:
    def forget(found: Any) -> None:
        del found["errors"]
        found["latencies"][7] = 0.1  # of a request that broke off

    (trial,) = the(changed("vllm_bench.json", tmp_path, forget)).trials
    assert not any(m.values for m in trial.measurements)
    assert figures(trial).values["throughput"] == pytest.approx(20 / 2.41)


def test_appended_benchmarks_are_trials_and_no_streaming_is_no_time_of_zero() -> None:
    run = the(SAMPLES / "vllm_bench_appended.jsonl")
    assert len(run.trials) == 3
    assert len(run.head.plan.cases) == 1
    assert {check for check, _ in seen(run)} >= {"zero_for_missing", "only_summaries"}
    assert not [name for name in figures(run.trials[0]).values if name.startswith("time_to_first_token")]


def test_loads_that_differ_are_not_compared(tmp_path: Path) -> None:
    slow, fast = (the(SAMPLES / name).head.plan.cases[0] for name in ("vllm_bench.json", "vllm_bench_appended.jsonl"))
    assert traits(slow)["data"] != traits(fast)["data"]


def test_guidellm_is_told_where_it_counts_a_missing_time_as_zero(tmp_path: Path) -> None:
    run = the(SAMPLES / "guidellm_benchmarks.json")
    (trial,) = run.trials
    raw = json.loads((SAMPLES / "guidellm_benchmarks.json").read_text())["benchmarks"][0]["requests"]["successful"]
    first = [r["time_to_first_token_ms"] for r in raw if r["time_to_first_token_ms"] is not None]
    values = figures(trial).values
    assert values["time_to_first_token_mean_s"] == pytest.approx(fmean(first) / 1e3)
    assert values["throughput"] == pytest.approx(12 / 6.1)
    assert run.head.machine.software["python"] == "3.12.3"
    assert seen(run) >= {("wrong_summary", "zeros"), ("failed_requests", "")}

    def whole(found: Any) -> None:
        said = found["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]
        said["mean"] = fmean(first)
        said["median"] = sorted(first)[5]

    assert "wrong_summary" not in {
        check for check, _ in seen(the(changed("guidellm_benchmarks.json", tmp_path, whole)))
    }


def test_guidellm_leaves_warm_up_out_and_a_sample_of_requests_is_not_all_of_them(tmp_path: Path) -> None:
    def later(found: Any) -> None:
        one = found["benchmarks"][0]
        one["start_time"] += 1.0  # the first two requests ended before
        one["metrics"]["request_totals"]["successful"] = 10

    (trial,) = the(changed("guidellm_benchmarks.json", tmp_path, later)).trials
    assert len(trial.values("query_latency_s")) == 10

    def sampled(found: Any) -> None:
        del found["benchmarks"][0]["requests"]["successful"][3:]

    (trial,) = the(changed("guidellm_benchmarks.json", tmp_path, sampled)).trials
    assert not trial.values("query_latency_s")
    assert figures(trial).values["throughput"] == pytest.approx(12 / 6.1)


def test_another_version_of_a_report_is_refused(tmp_path: Path) -> None:
    path = changed("guidellm_benchmarks.json", tmp_path, lambda found: found["metadata"].update(version=1))
    with pytest.raises(UsageError, match="version 2"):
        read_foreign("guidellm", path)
    path = changed("nvbench.json", tmp_path, lambda found: found["meta"]["version"]["json"].update(major=2))
    with pytest.raises(UsageError, match="version 1"):
        read_foreign("nvbench", path)


def test_the_two_files_of_aiperf_are_one_run(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "profile_export_aiperf.json", tmp_path)
    shutil.copy(SAMPLES / "aiperf_records.jsonl", tmp_path / "profile_export.jsonl")
    one, other = the(tmp_path / "profile_export_aiperf.json"), the(tmp_path / "profile_export.jsonl")
    assert one.head.run_id == other.head.run_id
    assert one.trials[0].facts == other.trials[0].facts
    (trial,) = one.trials
    summary = json.loads((SAMPLES / "profile_export_aiperf.json").read_text())
    values = figures(trial).values
    assert len(trial.values("query_latency_s")) == 10
    assert values["throughput"] == pytest.approx(summary["request_throughput"]["avg"], rel=1e-6)
    assert trial.facts.claimed["query_latency_mean_s"] == pytest.approx(values["query_latency_mean_s"])
    assert trial.facts.other["failed_requests"] == 1
    assert not {"wrong_rate", "wrong_summary"} & {check for check, _ in seen(one)}
    (alone,) = the(SAMPLES / "aiperf_records.jsonl").trials
    assert not alone.facts.claimed
    assert alone.values("time_per_output_token_s") == trial.values("time_per_output_token_s")


def test_the_three_forms_of_llama_bench_agree_and_its_mean_of_rates_is_found() -> None:
    json_, csv_, sql = (the(SAMPLES / f"llama_bench.{form}") for form in ("json", "csv", "sql"))
    raw = json.loads((SAMPLES / "llama_bench.json").read_text())
    assert csv_.trials[0].facts.claimed == sql.trials[0].facts.claimed
    assert [case.configuration["sequence_length"] for case in json_.head.plan.cases] == [512, 0]
    prompt, text = (figures(trial).values for trial in json_.trials)
    assert prompt["prompt_token_throughput"] == pytest.approx(512 * 5 / (sum(raw[0]["samples_ns"]) / 1e9))
    assert text["output_token_throughput"] == pytest.approx(128 * 5 / (sum(raw[1]["samples_ns"]) / 1e9))
    assert text["time_per_output_token_mean_s"] == pytest.approx(raw[1]["avg_ns"] / 1e9 / 128, rel=1e-6)
    assert figures(csv_.trials[1]).values["output_token_throughput"] == raw[1]["avg_ts"]
    assert seen(json_) >= {("wrong_rate", "mean_of_rates"), ("warmup_left_in", "first_step")}
    assert json_.head.machine.devices[0].name == "NVIDIA A100-SXM4-40GB"
    assert json_.trials[0].facts.parameters == 596049920


def test_lines_of_llama_bench_are_its_list(tmp_path: Path) -> None:
    rows = json.loads((SAMPLES / "llama_bench.json").read_text())
    (tmp_path / "llama.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines, whole = the(tmp_path / "llama.jsonl"), the(SAMPLES / "llama_bench.json")
    assert [t.measurements for t in lines.trials] == [t.measurements for t in whole.trials]


def test_a_row_of_sql_with_a_quote_too_many_is_refused(tmp_path: Path) -> None:
    text = (SAMPLES / "llama_bench.sql").read_text().replace("qwen3-0.6b", "a', 'b")
    (tmp_path / "l.sql").write_text(text)
    with pytest.raises(UsageError, match=r"l\.sql:5: 40 values of 39 fields"):
        read_foreign("llama_bench", tmp_path / "l.sql")


def test_nvbench_reads_the_samples_beside_it_and_no_other_file(tmp_path: Path) -> None:
    times = array("f", [1e-3 + 1e-6 * place for place in range(16)])
    (tmp_path / "nvbench.json-bin").mkdir()
    (tmp_path / "nvbench.json-bin" / "0.bin").write_bytes(times.tobytes())
    shutil.copy(SAMPLES / "nvbench.json", tmp_path)
    run = the(tmp_path / "nvbench.json")
    first, few, skipped = run.trials
    assert list(first.values("latency_s")) == pytest.approx(list(times))
    assert first.facts.claimed["step_time_mean"] == pytest.approx(0.97e-3)
    assert "latency_per_batch_std_s" not in few.facts.claimed, "infinite of 3 samples: that is none"
    assert skipped.outcome.status == Status.SKIPPED
    assert {case.configuration["Elements"] for case in run.head.plan.cases} == {1048576, 4194304, 1099511627776}
    (tmp_path / "nvbench.json-bin" / "0.bin").unlink()
    (tmp_path / "elsewhere.bin").write_bytes(times.tobytes())
    for name in ("../elsewhere.bin", "/etc/passwd", "nvbench.json-bin/../elsewhere.bin"):

        def point(found: Any, name: str = name) -> None:
            found["benchmarks"][0]["states"][0]["summaries"][-1]["data"][0]["value"] = name

        assert not the(changed("nvbench.json", tmp_path, point)).trials[0].values("latency_s")


def test_transformers_divides_the_time_of_tokens_by_one_gap_too_many() -> None:
    name = "qwen3_benchmark_20260301_130000.json"
    run, raw = the(SAMPLES / name), json.loads((SAMPLES / name).read_text())["a1"]["measurements"]
    trial, failed = run.trials
    each = [(t - first) / 15 for t, first in zip(raw["e2e_latency"], raw["time_to_first_token"], strict=True)]
    values = figures(trial).values
    assert values["time_per_output_token_mean_s"] == pytest.approx(fmean(each))
    assert values["output_token_throughput"] == pytest.approx(4 * 16 * 20 / sum(raw["e2e_latency"]))
    assert ("wrong_summary", "gaps") in seen(run)
    assert failed.outcome.status == Status.CRASHED
    assert run.head.plan.cases[0].configuration["compile"] == "off"
    assert run.head.plan.cases[1].configuration["compile"] == "default"
    assert run.head.machine.devices[0].memory_bytes == pytest.approx(22.06 * 2**30)


def test_the_times_of_tokens_are_used_where_they_were_kept(tmp_path: Path) -> None:
    name = "qwen3_benchmark_20260301_130000.json"

    def keep(found: Any) -> None:
        found["a1"]["measurements"]["timestamps"] = [[[0.03 + 0.02 * k for k in range(16)] + [0.9]]] * 20

    assert the(changed(name, tmp_path, keep)).trials[0].values("time_per_output_token_s")[0] == pytest.approx(0.02)


def test_settings_that_are_no_axes_tell_cases_apart(tmp_path: Path) -> None:
    def twice(found: Any) -> None:
        found.append({**found[1], "flash_attn": False})

    run = the(changed("llama_bench.json", tmp_path, twice))
    on, off = run.head.plan.cases[1:]
    assert traits(on)["flash_attn"] is True
    assert traits(off)["flash_attn"] is False
    assert on.case_id != off.case_id


def test_the_calls_of_transformers_compare_with_ours_where_the_prompt_is_long_enough(tmp_path: Path) -> None:
    name = "qwen3_benchmark_20260301_130000.json"
    assert traits(the(SAMPLES / name).head.plan.cases[0])["data"] == "synthetic:full"

    def longer(found: Any) -> None:
        found["a1"]["config"]["sequence_length"] = 1024

    assert traits(the(changed(name, tmp_path, longer)).head.plan.cases[0])["data"] == "unknown"
