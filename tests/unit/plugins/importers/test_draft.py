"""What each importer makes of its file: cases, raw values, claims in our units, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from torchstone.core.errors import UsageError
from torchstone.core.figures import figures
from torchstone.core.schema.case import Case, Task
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Stage, Status, Trial
from torchstone.plugins import registry
from torchstone.plugins.importers import _draft as draft
from torchstone.plugins.importers import _draft as reading
from torchstone.storage.foreign import looked_at, read_foreign, recognised

SAMPLES = Path(__file__).parent / "samples"


def the(name: str, folder: Path = SAMPLES) -> Run:
    tool = recognised(folder / name)
    assert tool is not None
    (run,) = read_foreign(tool, folder / name)
    return run


def first(run: Run) -> tuple[Case, Trial, Mapping[str, float]]:
    return run.head.plan.cases[0], run.trials[0], figures(run.trials[0]).values


def test_optimum_benchmark_keeps_its_steps_and_its_claims_apart() -> None:
    run = the("optimum_training.json")
    case, trial, values = first(run)
    assert case.workload.task == Task.TRAIN
    assert case.workload.model == "hf:google-bert/bert-base-uncased"
    assert case.configuration == {
        "batch_size": 32, "sequence_length": 128, "grad_accumulation": 1, "precision": "fp16",
    }  # fmt: skip
    assert len(trial.values("step_time_s")) == 100
    assert len(trial.values("step_time_s", Stage.WARMUP)) == 40
    assert values["throughput"] == pytest.approx(624, rel=0.01), "items over time, whatever is claimed"
    assert trial.facts.claimed["throughput"] == pytest.approx(62_434, rel=0.01)
    assert trial.facts.claimed["peak_reserved_bytes"] == pytest.approx(7025.4e6)
    assert run.head.machine.host.logical_cores == 8
    assert run.head.machine.devices[0].name == "NVIDIA A100-SXM4-80GB"
    assert trial.facts.other["launcher"] == "process"


def test_optimum_benchmark_in_two_files_is_one_run(tmp_path: Path) -> None:
    whole = reading.parsed((SAMPLES / "optimum_inference.json").read_text(), "")
    import json

    (tmp_path / "benchmark_report.json").write_text(json.dumps(whole["report"]))
    (tmp_path / "benchmark_config.json").write_text(json.dumps(whole["config"]))
    apart, together = the("benchmark_report.json", tmp_path), the("optimum_inference.json")
    assert apart.head.plan == together.head.plan
    assert apart.head.machine == together.head.machine
    for one, other in zip(apart.trials, together.trials, strict=True):  # when it was is told by the file alone
        assert (one.measurements, one.facts) == (other.measurements, other.facts)
    assert apart.trials[0].values("latency_s")
    assert apart.head.source is not None
    assert together.head.source is not None
    assert apart.head.source.sha256 == together.head.source.sha256
    assert recognised(tmp_path / "benchmark_config.json") is None
    values = figures(apart.trials[0]).values
    assert values["time_to_first_prediction_s"] == 0.31
    assert values["model_load_time_s"] == 2.31


@pytest.mark.parametrize(
    ("launcher", "count", "judged"),
    [
        ('"name": "torchrun", "nproc_per_node": 4, "max_nodes": 1', 4, False),
        ('"name": "torchrun", "nproc_per_node": 1', 1, True),
        ('"name": "torchrun"', 1, False),
        ('"name": "torchrun", "nproc_per_node": -3', 1, False),
        ('"name": "process", "nproc_per_node": 4', 1, True),
    ],
)
def test_the_processes_of_torchrun_are_devices_and_their_rate_is_not_judged(
    launcher: str, count: int, judged: bool, tmp_path: Path
) -> None:
    text = (SAMPLES / "optimum_training.json").read_text()
    (tmp_path / "several.json").write_text(text.replace('"name": "process"', launcher))
    (run,) = looked_at("optimum_benchmark", tmp_path / "several.json")
    (case,), (trial,) = run.head.plan.cases, run.trials
    assert case.placement.count * case.placement.nodes == count
    assert bool(trial.values("items")) is judged, "whose batch it is, is not said"
    assert ("wrong_rate" in {f.check for f in run.findings}) is judged


def test_timm_says_its_card_in_the_name_of_its_file() -> None:
    run = the("benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv")
    case, trial, values = first(run)
    assert run.head.machine.devices[0].name == "NVIDIA GeForce RTX 4090"
    assert run.head.machine.software == {"torch": "2.4.0"}
    assert case.configuration == {"batch_size": 1024, "image_size": 224, "precision": "fp16"}
    assert values["step_time_mean"] == pytest.approx(0.07638)
    assert values["throughput"] == 13401.2
    assert values["flops_per_step"] == pytest.approx(2 * 1.82e9 * 1024)
    assert not trial.measurements
    train = the("timm_train.csv")
    assert figures(train.trials[0]).values["phase_optimizer_s"] == pytest.approx(0.022811)


def test_a_timm_row_that_failed_is_a_trial_that_did(tmp_path: Path) -> None:
    text = "model,infer_samples_per_sec,error\nbig_net,,CUDA out of memory\nodd_net,,no kernel\n"
    (tmp_path / "r.csv").write_text(text)
    big, odd = the("r.csv", tmp_path).trials
    assert big.outcome.status == Status.OUT_OF_MEMORY
    assert big.outcome.message == "CUDA out of memory"
    assert odd.outcome.status == Status.CRASHED
    (tmp_path / "r.csv").write_text("model,infer_samples_per_sec\nbig_net,12\n")
    with pytest.raises(UsageError, match="no row has a batch size and a rate"):
        the("r.csv", tmp_path)


@pytest.mark.parametrize(
    ("digits", "version"), [("240", "2.4.0"), ("1121", "1.12.1"), ("113", "1.13"), ("2100", "2.10.0")]
)
def test_timm_writes_versions_of_torch_without_dots(digits: str, version: str, tmp_path: Path) -> None:
    name = f"benchmark-infer-amp-nchw-pt{digits}-cu117-rtx3090.csv"
    text = (SAMPLES / "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv").read_bytes()
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text)
    run = the(name, tmp_path)
    assert run.head.machine.software == {"torch": version}
    assert run.trials, "a byte order mark is no part of the first column's name"


def test_pytest_benchmark_calls_are_a_closed_loop() -> None:
    run = the("pytest_benchmark.json")
    case, trial, values = first(run)
    assert case.configuration == {"batch_size": 8}
    assert len(trial.values("latency_s")) == 40
    assert values["throughput"] == pytest.approx(8 / 0.0042, rel=0.02)
    assert values["latency_per_batch_p50_s"] == pytest.approx(0.0042, rel=0.02)
    assert run.head.machine.host.hostname == "minibox"
    assert run.head.started_utc.startswith("2026-03-01T10:01:00")


def test_the_report_of_seed_0() -> None:
    run = the("benchmark_amd_20251029_143022.json")
    train, infer = run.trials
    assert run.head.machine.devices[0].kind == "rocm"
    assert figures(train).values["epoch_time_s"] == 12.34
    assert figures(train).values["throughput"] == 1587.3
    assert figures(train).values["peak_allocated_bytes"] == pytest.approx(1.1 * 2**30)
    assert train.facts.parameters == 4123456
    assert train.facts.total_runtime_s == 1851.23
    assert (train.facts.epochs, train.facts.dataset_items, train.facts.test_items) == (150, 19587, 4893)
    assert train.facts.final_train_accuracy == pytest.approx(0.9876)
    assert train.facts.final_test_accuracy == pytest.approx(0.8723)
    assert infer.facts.parameters == 4123456
    assert len(infer.values("latency_s")) == 200
    assert infer.facts.claimed["total_items"] == 3200


def test_the_flat_report_of_seed_0_is_in_milliseconds(tmp_path: Path) -> None:
    text = (
        '{"experiment_name": "x", "total_runtime_minutes": 3, "avg_epoch_time": 12.34, "throughput": 1587.3,'
        '"final_train_accuracy": 98.76, "test_accuracy": 87.23,'
        '"predictions_per_second": 2341.5, "avg_time_per_prediction": 0.43, "p50_latency": 12.34}'
    )
    (tmp_path / "benchmark_nvidia_20251029_150134.json").write_text(text)
    run = the("benchmark_nvidia_20251029_150134.json", tmp_path)
    train, infer = run.trials
    assert str(run.head.plan.cases[0].placement) == "cuda:0", "the file's name says so"
    assert train.facts.claimed["throughput"] == 1587.3
    assert train.facts.total_runtime_s == 180.0
    assert (train.facts.final_train_accuracy, train.facts.final_test_accuracy) == pytest.approx((0.9876, 0.8723))
    assert infer.facts.claimed["time_per_item_s"] == pytest.approx(0.43e-3)


def test_the_rows_of_seed_1_are_latencies_of_an_image() -> None:
    run = the("gpu_performance_results_food101_huo_20250407_141715.csv")
    assert [case.configuration["batch_size"] for case in run.head.plan.cases] == [1, 8]
    values = figures(run.trials[1]).values
    assert values["latency_per_batch_mean_s"] == pytest.approx(8 * 0.0123)
    assert values["device_utilization"] == pytest.approx(0.415)
    assert values["average_power_w"] == 120.3
    assert run.head.machine.host.hostname == "huo"
    assert run.head.machine.devices[0].memory_bytes == int(39.39 * 2**30)


def test_the_printed_sweep_of_seed_2_and_its_table_are_alike() -> None:
    printed, table = the("sweep_summary.txt"), the("sweep_table.csv")
    assert [t.outcome.status for t in printed.trials] == [t.outcome.status for t in table.trials]
    assert printed.trials[-1].outcome.status == Status.OUT_OF_MEMORY
    assert printed.head.plan.cases == table.head.plan.cases
    values = figures(printed.trials[10]).values
    assert values["phase_data_s"] == pytest.approx(0.01623)
    assert values["anatomy_step_s"] == pytest.approx(0.28735)
    assert values["device_memory_used_bytes"] == 7.45e9
    best = {t.trial_id for t in printed.trials if "throughput" in t.facts.labelled_best}
    assert best == {printed.trials[12].trial_id}


def test_the_tree_of_seed_3() -> None:
    run = the("training_benchmark_results_async.json")
    case, trial, values = first(run)
    assert case.configuration == {
        "batch_size": 8, "sequence_length": 32, "learning_rate": 1e-5, "optimizer": "adam", "grad_accumulation": 1,
        "precision": "fp16",
    }  # fmt: skip
    assert len(trial.values("loss")) == 46
    assert values["peak_allocated_bytes"] == pytest.approx(1345.6 * 2**20)
    assert values["model_load_time_s"] == 2.34
    assert run.trials[1].outcome.status == Status.OUT_OF_MEMORY


def test_the_lines_of_seed_4() -> None:
    run = the("batch_comparison.jsonl")
    case, trial, values = first(run)
    assert case.workload.data == "glue/sst2"
    assert case.configuration == {"batch_size": 8, "sequence_length": 128, "precision": "fp32"}
    assert values["device_memory_used_bytes"] == pytest.approx(812.1 * 2**20)
    assert values["energy_j"] == 8.4
    assert figures(trial).samples["latency_per_batch_p95_s"] == 20, "its percentile is marked as not supported"
    assert run.head.machine.devices[0].name == "Tesla T4"


def test_reading_is_bounded_and_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1, column"):
        reading.parsed("{'a': 1}", "x.json")
    with pytest.raises(UsageError, match="nested too deeply"):
        reading.parsed("[" * 100_000, "x.json")
    with pytest.raises(UsageError, match=r"x\.csv:2: 3 cells under 2 names"):
        reading.csv_rows("a,b\n1,2,3\n", "x.csv")
    with pytest.raises(UsageError, match="is not a file"):
        reading.bytes_of(tmp_path)
    assert reading.parsed('{"a": NaN}', "")["a"] != 0
    assert reading.number("nan") is not None
    assert reading.number(True) is None
    assert reading.number(10**400) is None
    for absurd in (float("inf"), -float("inf"), 1e308, "-1e200"):
        assert math.isnan(reading.number(absurd) or 0.0), "their squares and sums would be no numbers"
    assert reading.number(1e-300) == 0.0
    assert reading.number("-2.5") == -2.5
    assert reading.whole("2.5") is None
    assert reading.whole(10**25) is None
    assert reading.whole("64.0") == 64
    assert reading.csv_rows('a,b\r\n\r\n1,"2\n3"\r\n', "x") == [{"a": "1", "b": "2\n3"}]
    assert reading.numbers([1, "x"]) == ()
    assert len(reading.word("x" * 1000) or "") == 200


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 10)
    monkeypatch.setattr(reading, "MOST_ROWS", 2)
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 9)
    with pytest.raises(UsageError, match="exceeds the limit for imported files"):
        reading.bytes_of(tmp_path / "x.csv")
    for text in ("a\n1\n2\n3\n", "a\n\n\n\n"):
        with pytest.raises(UsageError, match="more than 2 rows"):
            reading.csv_rows(text, "x")


def test_a_file_of_too_many_results_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 3)
    with pytest.raises(UsageError, match="more than 3 results"):
        the("sweep_summary.txt")


def test_values_that_no_figure_can_be_made_of_are_no_crash(tmp_path: Path) -> None:
    text = (SAMPLES / "training_benchmark_results_async.json").read_text()
    odd = tmp_path / "odd.json"
    odd.write_text(text.replace("0.004111666", "1e308").replace("0.004256672", "-Infinity"))
    run = the("odd.json", tmp_path)
    assert "step_time_mean" not in figures(run.trials[0]).values
    found = looked_at("training_tree", odd)[0].findings
    assert [f for f in found if f.check == "impossible"]
    assert not [f for f in found if "failed:" in f.message], "a check that raised"


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("gpu_performance_results_food101_huo_20250407_141715.csv", "NVIDIA A100-PCIE-40GB"),
        ("batch_comparison.jsonl", "Tesla T4"),
    ],
)
def test_two_cards_in_one_file_are_not_taken_for_one(name: str, card: str, tmp_path: Path) -> None:
    tool = recognised(SAMPLES / name)
    assert tool is not None
    lines = (SAMPLES / name).read_text().splitlines()
    (tmp_path / name).write_text("\n".join([*lines[:-1], lines[-1].replace(card, "NVIDIA H200")]))
    told = f"a trial ran on NVIDIA H200, but the machine's device is {card}"
    for folder, expected in ((SAMPLES, []), (tmp_path, [told])):
        (run,) = looked_at(tool, folder / name)
        assert [f.message for f in run.findings if f.check == "device_unclear"] == expected


def test_items_are_those_of_the_key_where_the_result_does_not_say(tmp_path: Path) -> None:
    text = (SAMPLES / "training_benchmark_results_async.json").read_text()
    (tmp_path / "key.json").write_text(text.replace('"batch_size": 8,', ""))
    assert set(the("key.json", tmp_path).trials[0].values("items")) == {8.0}
    (tmp_path / "none.json").write_text(text.replace('"batch_size": 8,', "").replace("batch_8_seq_32_lr", "run"))
    trial = the("none.json", tmp_path).trials[0]
    assert trial.values("step_time_s")
    assert not trial.values("items"), "how many items a step had is not known"


def test_tokens_per_second_are_no_items_per_second(tmp_path: Path) -> None:
    text = (SAMPLES / "optimum_generate.json").read_text()
    (tmp_path / "tokens.json").write_text(text.replace('"samples/s"', '"tokens/s"'))
    said = the("tokens.json", tmp_path).trials[0].facts.claimed
    assert "throughput" not in said
    assert said["output_token_throughput"] == pytest.approx(203.13, rel=1e-4)
    (looked,) = looked_at("optimum_benchmark", tmp_path / "tokens.json")
    assert "wrong_rate" not in {f.check for f in looked.findings}


def test_parameters_of_a_benchmark_are_settings_where_they_can_be(tmp_path: Path) -> None:
    text = (SAMPLES / "pytest_benchmark.json").read_text()
    odd = f'"batch_size": 8, "seed": {10**30}, "rate": NaN, "mode": "x", "fast": true, "layers": [1], "lr": 0.5'
    (tmp_path / "odd.json").write_text(text.replace('"batch_size": 8', odd, 1))
    case = the("odd.json", tmp_path).head.plan.cases[0]
    assert case.configuration == {"batch_size": 8, "mode": "x", "fast": True, "lr": 0.5}


def test_a_moment_before_all_time_is_none() -> None:
    assert draft.moment("0001-01-01T00:00:00+14:00") is None
    assert draft.moment("2025-03-02T12:34:56+01:00") == "2025-03-02T11:34:56+00:00"


def test_a_table_of_our_own_is_nobody_elses() -> None:
    header = b"run_id,case_id,batch_size,device,throughput,latency_mean,total_time,peak_memory_MB,avg_latency\n"
    names = registry.names("importers")
    knowing = [n for n in names if registry.load("importers", n).recognises(Path("x_cases.csv"), header)]
    assert knowing == []
    theirs = header.removeprefix(b"run_id,case_id,")
    knowing = [n for n in names if registry.load("importers", n).recognises(Path("x.csv"), theirs)]
    assert knowing == ["gpu_image_benchmark"]
