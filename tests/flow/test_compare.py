"""`torchstone compare`: the command as typed, on records that were really measured and on some that were built."""

import json
import math
from pathlib import Path

import msgspec
import pytest
from build import a_case, a_finding, a_run
from comparable import a_gpu, a_stored_run, write_record

from torchstone.cli import main
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.estimate import Severity
from torchstone.core.stats.comparing import difference, of_independent
from torchstone.storage.query import entry_of, read_run
from torchstone.storage.run_document import write_document

REAL = Path(__file__).parents[1] / "golden" / "compare"
SAMPLES = Path(__file__).parents[1] / "unit" / "plugins" / "importers" / "samples"
SAME, AGAIN, DIFFERENT = (str(REAL / f"{name}.jsonl") for name in ("same_1", "same_2", "different"))
BASE = (0.0100, 0.0101, 0.0099, 0.0100)


def scaled(by):
    return [time_s * by for time_s in BASE]


def compared(capfd, *words):
    capfd.readouterr()
    assert main(["compare", *words, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def verdicts(document):
    return {one["metric"]: one["verdict"] for one in document["comparisons"]}


def test_two_records_of_one_setting_and_two_of_different_ones(capfd, outputs):
    """The same training twice and one on images of three times the side, on a machine on which others were busy."""
    same = compared(capfd, SAME, AGAIN)
    found = {one["metric"]: one for one in same["comparisons"]}
    assert found["throughput"]["ratio"]["value"] == pytest.approx(0.405, abs=0.001), "it looked 2.5 times slower"
    assert found["throughput"]["verdict"] == "unclear"
    assert found["peak_rss_bytes"]["verdict"] == "same"
    other = compared(capfd, SAME, DIFFERENT)
    assert verdicts(other)["throughput"] == "worse"
    assert verdicts(other)["peak_rss_bytes"] == "worse"
    assert any(one["what"] == "image_size" and one["matters"] for one in other["comparisons"][0]["differing"])
    assert verdicts(compared(capfd, DIFFERENT, SAME))["throughput"] == "better"


def test_the_usual_test_calls_those_two_different():
    """What the batches of neighbours and the margin are for; the interval over trials as in textbooks leaves 1 out."""
    logs = []
    for path in (SAME, AGAIN):
        trials = entry_of(read_run(Path(path)), Path(path)).trials
        logs.append([math.log(t.figures.values["throughput"]) for t in trials])
    assert difference(*map(of_independent, logs)).p_value() < 0.05


@pytest.fixture
def store(outputs):
    """Two runs on one machine, of training and inference: the second trains twice as fast and infers the same."""
    train, infer = (a_case(task=task) for task in (Task.TRAIN, Task.INFER))
    runs = [
        a_stored_run(scaled(by), train, (infer, BASE), minutes=minutes, name=name)
        for by, minutes, name in ((1.0, 0, "before"), (0.5, 3, "after"))
    ]
    for run in runs:
        write_record(run, outputs)
    return outputs, runs


def test_the_document_and_what_is_printed(store, capfd):
    outputs, runs = store
    assert main(["compare", "before", "latest"]) == 0
    shown = capfd.readouterr().out
    assert shown.splitlines()[0].startswith("For training: B (after) is 2.00 [")
    assert "\nFor inference: equivalent within 2 %" in shown
    (path,) = outputs.glob("benchmark_comparison_*.json")
    assert f"written {path}" in " ".join(shown.split())
    document = json.loads(path.read_text())
    assert document["record"] == "comparison"
    assert set(document["machines"]) == {"A", "B"}
    assert [one["word"] for one in document["participants"]] == ["before", "latest"]
    first = document["comparisons"][0]
    assert first["case"] == "train cnn"
    assert first["ratio"]["low"] < 2.0 < first["ratio"]["high"]
    assert first["ratio"]["level"] == 0.975, "of two cases the one that stands (Holm)"
    assert first["baseline"]["run_id"] == runs[0].head.run_id
    assert {"verdict", "differing", "margin", "trials_to_settle", "why"} <= set(first)
    assert [(one["purpose"], one["faster"]) for one in document["answers"]] == [("training", "B"), ("inference", None)]


def test_s0_52_a_file_of_ones_own_and_a_second_comparison_overwrites_nothing(store, capfd, tmp_path):
    outputs, _ = store
    for _ in range(2):
        assert main(["compare", "before", "after", "--output", str(tmp_path / "x" / "amd_vs_nvidia.json")]) == 0
    assert not list(outputs.glob("benchmark_comparison_*"))
    assert json.loads((tmp_path / "x" / "amd_vs_nvidia.json").read_text())["baseline"] == "A"
    for _ in range(3):
        compared(capfd, "before", "after")
    assert len(list(outputs.glob("benchmark_comparison_*"))) == 3


def test_the_folder_of_comparisons_can_be_imported_as_before(store, capfd, tmp_path, monkeypatch):
    outputs, _ = store
    compared(capfd, "before", "after")
    monkeypatch.setenv("TORCHSTONE_OUTPUT", str(tmp_path / "elsewhere"))
    assert main(["import", str(outputs)]) == 0


def test_gates(store, capfd):
    assert main(["compare", "before", "after", "--fail-on", "worse"]) == 0
    assert main(["compare", "after", "before", "--fail-on", "worse:5%,unclear"]) == 1
    assert "train cnn: throughput 0.500 [0.495, 0.505] worse" in capfd.readouterr().err
    assert main(["compare", "after", "before", "--fail-on", "unclear"]) == 0
    assert main(["compare", "after", "before"]) == 0, "without a gate a comparison is done when it is printed"
    assert main(["compare", "before", "after", "--baseline", "after", "--fail-on", "worse"]) == 1
    assert main(["compare", "before", "after", "--fail-on", "missing"]) == 0
    write_record(a_stored_run(BASE, a_case(task=Task.TRAIN), minutes=5, name="half"), store[0])
    assert main(["compare", "before", "half", "--fail-on", "worse"]) == 0
    capfd.readouterr()
    assert main(["compare", "before", "half", "--fail-on", "worse", "--fail-on", "missing"]) == 1
    assert "B has no successful trial of infer net:cnn batch_size 16" in capfd.readouterr().err


def test_s0_14_to_19_amd_against_nvidia_and_s1_30_three_machines(capfd, outputs, tmp_path):
    for card, vendor, by in (("RX 7900", "amd", 1.0), ("RTX 4090", "nvidia", 0.8), ("L4", "nvidia", 2.0)):
        kind = "rocm" if vendor == "amd" else "cuda"
        train, infer = (a_case(task=task, placement=Placement(kind)) for task in (Task.TRAIN, Task.INFER))
        run = a_stored_run(scaled(by), train, (infer, scaled(by)), machine=a_gpu(card, vendor, card), name="guide")
        write_record(run, tmp_path / card)
        write_document(run, tmp_path / card)
    folders = [str(tmp_path / card) for card in ("RX 7900", "RTX 4090", "L4")]
    document = compared(capfd, *folders, "--price-per-hour", "A=0.5,B=0.6,L4=0.4", "--figures", str(tmp_path))
    assert [one["label"] for one in document["participants"]] == ["RX 7900", "RTX 4090", "L4"]
    assert [one["faster"] for one in document["answers"]] == ["B", "B"]
    costs = [one["ratio"]["value"] for one in document["comparisons"] if one["metric"] == "cost_per_million_items"]
    assert costs == [pytest.approx(value) for value in (0.96, 1.6, 0.96, 1.6)]
    plots = {path.name for path in (tmp_path / "analysis_results" / "plots").iterdir()}
    assert {"A_RX_7900_performance.svg", "C_L4_performance.svg", "comparison_throughput.svg"} <= plots
    assert (tmp_path / "analysis_results" / "stats" / "comparative_statistics.csv").is_file()


def test_one_run_over_its_devices_or_an_axis(capfd, outputs):
    cases = [a_case({"precision": word}) for word in ("fp32", "bf16")]
    write_record(a_stored_run(BASE, cases[0], (cases[1], scaled(0.5))), outputs)
    document = compared(capfd, "latest", "--over", "precision")
    assert verdicts(document)["throughput"] == "better"
    assert document["comparisons"][0]["ratio"]["method"] == "t on the log ratios of rounds"


def test_compare_writes_the_report_that_report_writes(store, capfd, tmp_path):
    assert main(["compare", "before", "latest", "--format", "html,md"]) == 0
    said = capfd.readouterr().out
    assert main(["report", "before", "latest", "--compare", "--format", "html,md", "--output", str(tmp_path)]) == 0
    files = list(map(Path, capfd.readouterr().out.split()))
    for file in files:
        own = store[0] / "reports" / file.relative_to(tmp_path)
        assert file.name in said
        assert own.read_bytes() == file.read_bytes()
    assert {file.suffix for file in files} == {".html", ".md", ".svg"}, "and the picture that the Markdown links"


def test_a_report_of_a_comparison_is_verified_with_its_margin_its_prices_and_its_axis(capfd, outputs):
    cases = [a_case({"precision": word}) for word in ("fp32", "bf16")]
    write_record(a_stored_run(BASE, cases[0], (cases[1], scaled(0.5))), outputs)
    asked = ["--over", "precision", "--baseline", "precision=bf16", "--margin", "5%", "--price-per-hour", "A=0.5,B=0.6"]
    assert main(["compare", "latest", *asked, "--format", "html"]) == 0
    (page,) = (outputs / "reports").glob("comparison_*.html")
    assert "equivalence margin of 5 %" in page.read_text()
    capfd.readouterr()
    assert main(["verify", str(page)]) == 0, capfd.readouterr().out


def test_what_cannot_be_compared_is_said_and_is_no_error(capfd, outputs):
    write_record(a_stored_run(BASE, name="good"), outputs)
    write_record(a_stored_run([None, None], minutes=1, name="failed"), outputs)
    document = compared(capfd, "good", "failed")
    (one,) = document["comparisons"]
    assert (one["verdict"], one["ratio"]) == ("not_comparable", None)
    assert main(["compare", "good", "failed", "--fail-on", "worse"]) == 1


def test_one_trial_says_what_it_cannot_know(capfd, outputs):
    for name, by in (("one", 1.0), ("two", 1.4)):
        write_record(a_stored_run(scaled(by)[:1], name=name), outputs)
    first = compared(capfd, "one", "two")["comparisons"][0]
    assert first["verdict"] == "unclear"
    assert "one trial: the variation between processes is not measured" in first["labels"][0]["text"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["before"], "two or more runs"), (["before", "nope"], "no run 'nope'"), (["before", "before"], "the same run"),
        (["before", "{empty}"], "no records"), (["before", "{text}"], "not a torchstone record"),
        (["before", "after", "--margin", "two"], "--margin"),
        (["before", "after", "--fail-on", "bad"], "--fail-on bad"),
        (["before", "after", "--fail-on", "worse:x"], "--fail-on worse"),
        (["before", "after", "--price-per-hour", "A"], "write RUN=PRICE"),
        (["before", "after", "--price-per-hour", "Z=1"], "not one of the compared runs"),
        (["before", "after", "--price-per-hour", "A=-1"], "write RUN=PRICE"),
        (["before", "after", "--baseline", "Z"], "--baseline Z"), (["before", "--over", "colour"], "no such axis"),
        (["before", "after", "--over", "device"], "give one RUN"), (["before", "--over", "device"], "only one value"),
        (["before", "after", "--output", "{text}"], "is there already, and no comparison"),
        (["before", "other"], "no case in common"), (["before", "after", "--figures", "{text}"], "is a file"),
    ],
)  # fmt: skip
def test_mistakes_write_nothing(store, refused, tmp_path, words, said):
    outputs, _ = store
    main(["runs"])  # the index is there before
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("a text")
    if "other" in words:
        write_record(a_stored_run(BASE, a_case(model="net:mlp"), name="other"), outputs)
        main(["runs"])
    places = {"empty": tmp_path / "empty", "text": tmp_path / "text"}
    assert said in refused("compare", *(word.format(**places) for word in words))


def test_a_run_of_an_older_or_stranger_tool_has_no_clock_and_no_order(capfd, outputs):
    strange = a_run()
    trials = tuple(msgspec.structs.replace(t, order=0, started_utc="yesterday") for t in strange.trials)
    finding = a_finding("drift", Severity.WARNING, "x\x1b[31m", "y", a_case().case_id)
    write_record(msgspec.structs.replace(strange, trials=trials, findings=(finding,)), outputs)
    write_record(a_stored_run(BASE, name="ours"), outputs)
    assert main(["compare", "test", "ours"]) == 0
    assert "\x1b" not in capfd.readouterr().out


def test_s0_the_seeds_own_files_are_compared_as_they_are(capfd, outputs, tmp_path):
    report = SAMPLES / "benchmark_amd_20251029_143022.json"
    text = report.read_text().replace("AMD Radeon RX 7900 XTX", "NVIDIA RTX 4090").replace("1587.3", "4742.8")
    (tmp_path / "benchmark_nvidia.json").write_text(text)
    assert main(["compare", str(report), str(tmp_path / "benchmark_nvidia.json"), "--full"]) == 0
    shown = capfd.readouterr().out
    assert "For training: B (NVIDIA RTX 4090) is at least 1.49 times as fast as A" in shown
    assert "Test accuracy" in shown
    assert "87.23%" in shown
    assert "one trial: the variation between processes is not measured" in " ".join(shown.split())
