"""Seed 0, comparing: `compare_gpu_benchmarks.py AMD.json NVIDIA.json --output FILE`, on files of the seed's script."""

import json
import math
import re

import pytest
from acceptance.printed_files import blocks, printed
from acceptance.s0_reports import a_report, number, sides

AMD, NVIDIA = sides()


@pytest.fixture(scope="module", autouse=True)
def files(desk):
    desk.write("amd_benchmark.json", a_report(AMD, 0.01234))
    desk.write("nvidia_benchmark.json", a_report(NVIDIA, 0.00617))
    desk.write("h100_benchmark.json", a_report({**NVIDIA, "GPU": "NVIDIA - H100", "Throughput": "4742.8"}, 0.003))
    desk.write("large_benchmark.json", a_report({**NVIDIA, "Model": "large (11,687,049 params)"}, 0.00617))
    other = {"model": {"architecture": "medium", "num_parameters": 4_000_000}}
    desk.write("other_benchmark.json", a_report(NVIDIA, 0.00617, **other))


def sides_shown(out: str) -> dict[str, tuple[str, str]]:
    """What stands beside each other under [BENCHMARK 1] and [BENCHMARK 2]: at two blanks or more columns end."""
    table = out[out.index("[BENCHMARK 1]") : out.index("[SPEEDUP ANALYSIS]")]
    rows = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def test_two_files_become_one_document(desk):
    desk.claimed("S0-14")
    document = json.loads((desk.folder / "outputs/amd_vs_nvidia_comparison.json").read_text())
    assert [one["word"] for one in document["participants"]] == ["amd_benchmark.json", "nvidia_benchmark.json"]
    assert [one["metric"] for one in document["comparisons"]][:1] == ["throughput"]


def test_without_a_name_its_file_is_called_by_the_moment(desk):
    document = desk.claimed("S0-52").document
    written = {
        path.name: json.loads(path.read_text()) for path in (desk.folder / "outputs").glob("*_comparison_*.json")
    }
    names = [name for name, one in written.items() if one["created_utc"] == document["created_utc"]]
    assert any(re.fullmatch(r"benchmark_comparison_\d{8}_\d{6}\.json", name) for name in names)


def test_both_sides_are_told_beside_each_other(desk):
    shown = sides_shown(desk.claimed("S0-15").out)
    for place, told in enumerate((AMD, NVIDIA)):
        ours = {name: values[place] for name, values in shown.items()}
        assert ours["Experiment"] == told["Experiment"]
        assert ours["Device"] in (told["GPU"], told["GPU"].partition(" - ")[2])
        assert ours["Model"].endswith("medium " + told["Model"].partition(" ")[2])
        assert number(ours["Runtime"]) == number(told["Runtime"])
        assert number(ours["Train accuracy"]) == number(told["Train accuracy"])
        assert number(ours["Test accuracy"]) == number(told["Test accuracy"])
        assert number(ours["Throughput"]) == round(number(told["Throughput"]))
        assert ours["Device memory"] == "24.0 GiB"
        assert ours["Compute capability"] == "11.0"


def speedups(out: str) -> dict[str, str]:
    lines = " ".join(out[out.index("[SPEEDUP ANALYSIS]") : out.index("[THROUGHPUT ANALYSIS]")].split())
    return dict(re.findall(r"(\w vs \w, [^:]+): time ratio (.*?)(?= \w vs \w,|$)", lines))


def test_the_ratio_of_total_runtimes_and_which_is_faster(desk):
    (told,) = [text for name, text in speedups(desk.claimed("S0-16").out).items() if name.endswith("total runtime")]
    ratio = number(NVIDIA["Runtime"]) / number(AMD["Runtime"])
    assert told == f"{ratio:.3f} (28.12 min and 30.85 min), faster: B, one run each: no interval"
    seeds = blocks(printed("s0_comparison.txt"))["SPEEDUP ANALYSIS"]
    assert number(seeds["Time ratio"]) == round(1 / ratio, 2), "the seed's is of the first to the second"


def test_turned_round_it_is_the_number_that_the_seed_prints(desk):
    seeds = blocks(printed("s0_comparison.txt"))
    line = "torchstone compare amd_benchmark.json nvidia_benchmark.json --baseline nvidia_benchmark.json --json"
    document = desk.type(line).document
    (total,) = document["total_runtimes"]
    assert round(total["ratio"], 2) == number(seeds["SPEEDUP ANALYSIS"]["Time ratio"])
    assert (total["faster"], seeds["SPEEDUP ANALYSIS"]["Faster GPU"]) == ("B", "NVIDIA")
    (rates,) = [one for one in document["comparisons"] if (one["task"], one["metric"]) == ("train", "throughput")]
    assert round(rates["ratio"]["value"], 2) == number(seeds["THROUGHPUT ANALYSIS"]["Throughput ratio"])


def ratio_of(document, task, metric):
    (found,) = [one for one in document["comparisons"] if (one["task"], one["metric"]) == (task, metric)]
    return found


def test_the_ratio_of_throughputs(desk):
    document = desk.claimed("S0-17").document
    found = ratio_of(document, "train", "throughput")
    assert found["ratio"]["value"] == pytest.approx(number(NVIDIA["Throughput"]) / number(AMD["Throughput"]))
    assert (found["baseline_value"]["value"], found["candidate_value"]["value"]) == (1587.3, 1742.8)
    assert found["verdict"] == "unclear", "10 % between one run each is within what runs of equal code differ by"


def test_the_latencies_of_inference(desk):
    document = desk.claimed("S0-18").document
    found = ratio_of(document, "infer", "latency_per_batch_p50_s")
    assert found["ratio"]["value"] == pytest.approx(0.5, rel=1e-3)
    assert found["baseline_value"]["value"] == pytest.approx(0.01234)
    p95 = sorted(0.01234 * (1 + 0.001 * (place - 99.5)) for place in range(200))[math.ceil(0.95 * 200) - 1]
    assert ratio_of(document, "infer", "latency_per_batch_p95_s")["baseline_value"]["value"] == pytest.approx(p95)
    assert "[LATENCY]" in desk.type("torchstone compare amd_benchmark.json nvidia_benchmark.json --full").out


def test_which_is_faster_for_training_and_for_inference(desk):
    first, second, *_ = [line for line in desk.claimed("S0-19").out.splitlines() if line]
    assert first.startswith("For training: B (H100) is at least ")
    assert second.startswith("For inference: B (H100) is at least ")
    answers = desk.type("torchstone compare amd_benchmark.json h100_benchmark.json --json").document["answers"]
    assert [(one["purpose"], one["faster"]) for one in answers] == [("training", "B"), ("inference", "B")]


def test_an_imported_report_keeps_its_total_runtime(desk):
    shown = blocks(desk.claimed("S0-20").out)
    assert list(shown["TOTAL RUNTIME"]) == ["1851.00 s (30.85 min)"]
    training = {words[0]: words[1] for line in shown["TRAINING"] if len(words := line.split()) > 1}
    assert (training["epochs"], training["final_train_accuracy"]) == ("150", "98.76%")
    assert training["final_test_accuracy"] == "87.23%"
    assert shown["DATA"]["unknown"] == "19,587 items, 4,893 to test on, 9 classes, sequence length 20"
    assert shown["MODEL"]["external"].startswith("medium: 4,123,456 parameters")
    assert "None" not in desk.claimed("S0-20").out


def test_the_names_of_the_seeds_tables_are_read(desk):
    """The tables of training and inference metrics, as the one file that a reader of them would write."""
    told = {"experiment_name": "flat", "total_runtime_minutes": 30.85, "avg_epoch_time": 12.34, "throughput": 1587.3,
            "final_train_accuracy": 98.76, "test_accuracy": 87.23, "predictions_per_second": 2341.5,
            "avg_time_per_prediction": 0.43, "time_to_first_prediction": 12.56}  # fmt: skip
    desk.write("benchmark_nvidia_20251029_150134.json", json.dumps(told))
    document = desk.type("torchstone show benchmark_nvidia_20251029_150134.json --json").document
    train, infer = ({name: one["value"] for name, one in case["estimates"].items()} for case in document["cases"])
    assert document["total_runtime_s"] == pytest.approx(30.85 * 60)
    assert {trial["duration_s"] for case in document["cases"] for trial in case["trials"]} == {None}
    assert (train["epoch_time_s"], train["throughput"]) == (12.34, 1587.3)
    assert (infer["throughput"], infer["time_per_item_s"]) == (2341.5, pytest.approx(0.43e-3))
    assert infer["time_to_first_prediction_s"] == pytest.approx(12.56e-3)
    shown = desk.type("torchstone show benchmark_nvidia_20251029_150134.json --full").out
    assert {"98.76%", "87.23%"} <= {words[1] for line in blocks(shown)["TRAINING"] if len(words := line.split()) > 1}


def test_only_the_same_model_is_compared(desk):
    said = desk.claimed("S0-54").out
    assert "not the same model: 4,123,456 parameters and 4,000,000" in " ".join(said.split())
    assert "SPEEDUP ANALYSIS" not in said, "nor the time that training it took"
    refused = desk.type("torchstone compare amd_benchmark.json large_benchmark.json", code=2).err
    assert "no case in common" in refused
