"""The report of `show --full`: what a training reached, and what another tool did not tell."""

import re
from pathlib import Path

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_sweep, a_trial

from torchstone.analysis.rows import trial_rows
from torchstone.analysis.summary import summarize
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.machine import Host
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Status
from torchstone.report.document import Document
from torchstone.report.documents.full_report import report_section
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of

REACHED = {"epochs": 3, "best_epoch": 2, "final_train_accuracy": 0.9876, "final_val_accuracy": 0.8723}


@pytest.fixture
def reported():
    def report(task=Task.TRAIN, isolation="fork", duration_s=2.107, machine=None, **facts):
        case = a_case(task=task)
        trial = a_trial(case_id=case.case_id, duration_s=duration_s, facts={"task": str(task), **facts})
        procedure = Procedure(trials=1, isolation=isolation)
        run = a_run([trial], cases=[case], procedure=procedure, machine=machine or a_machine())
        return terminal(Document("", (report_section(summarize(entry_of(run, Path()))),)), 120)

    return report


def block(text, title):
    return text.partition(f"[{title}]\n")[2].partition("\n\n")[0]


def test_s0_44_the_block_of_a_training_has_its_accuracies(reported):
    lines = [line.split() for line in block(reported(dataset_items=1797, **REACHED), "TRAINING").splitlines()]
    assert lines[0] == ["epochs", "3", "(best:", "2)"]
    assert lines[1][:2] == ["final_train_accuracy", "98.76%"]
    assert lines[2][:2] == ["final_val_accuracy", "87.23%"]
    assert lines[3][0] == "epoch_time_s"


def test_what_trained_nothing_has_no_accuracies_and_its_pass_over_the_data_is_one_of_throughput(reported):
    text = reported(Task.INFER, dataset_items=1797)
    assert "accuracy" not in text
    assert "dataset_time_s" in block(text, "THROUGHPUT")
    assert "[TRAINING]" not in text


def test_s0_46_a_runtime_that_another_tool_does_not_tell_is_a_dash(reported):
    foreign = {"isolation": "imported", "duration_s": 0.0, "imported_from": "a script"}
    assert block(reported(**foreign), "TOTAL RUNTIME").strip() == "– (its file has none)"
    told = reported(**foreign, total_runtime_s=1851.23)
    assert block(told, "TOTAL RUNTIME").strip() == "1851.23 s (30.85 min)"
    assert block(reported(), "TOTAL RUNTIME").strip() == "2.11 s (0.04 min) in 1 trial"


def test_what_is_not_known_of_a_machine_is_not_called_none(reported):
    text = reported(machine=a_machine(host=Host("unknown", "unknown", None, None, None, None)))
    assert "Processor: –\n" in text
    assert "None" not in text


def test_the_time_of_another_tools_trial_is_empty_in_a_table():
    (ours,) = trial_rows(a_run([a_trial()]))
    (theirs,) = trial_rows(a_run([a_trial(facts={"imported_from": "a script"}, duration_s=0.0)]))
    assert isinstance(ours["duration_s"], float)
    assert ours["duration_s"] > 0.0
    assert theirs["duration_s"] is None


def test_the_heads_of_report_case_and_block_are_told_apart():
    run = a_sweep([({"batch_size": 8}, 0.1), ({"batch_size": 16}, 0.1)], status={1: Status.OUT_OF_MEMORY})
    text = terminal(Document("", (report_section(summarize(entry_of(run, Path()))),)), 120)
    assert text.startswith(f"BENCHMARK REPORT: test\n{'=' * 22}\n\n[SYSTEM]\n  Platform: Linux-6.1\n")
    assert "\n\n── train cnn, batch_size 8 on cuda:0: VALID\n\n[THROUGHPUT]\n  throughput " in text
    assert "\n\n── train cnn, batch_size 16 on cuda:0: INVALID\n\n[TRIALS]\n  out_of_memory: " in text


def test_every_estimate_of_a_case_that_has_a_block_is_in_it_with_its_meaning():
    run = summarize(entry_of(a_sweep([({"batch_size": 8}, 0.1)], phases={"forward": 0.6, "backward": 0.4}), Path()))
    text = terminal(Document("", (report_section(run),)), 160)
    for name in ("throughput", "step_time_p50", "peak_reserved_bytes", "total_items", "phase_forward_s"):
        assert re.search(rf"^  {name} +\S+ .*\w", text, re.MULTILINE), name
    assert "total items over total time of the window" in text


def test_an_interval_that_is_too_wide_and_a_figure_without_support_say_so():
    wide = Estimate(1.0, 0.1, 3.0, 0.95, "items/s", "mean", 3, 3, lowest=0.4, highest=2.2)
    poor = Estimate(0.5, None, None, 0.95, "s", "quantile", 3, 3, supported=False, note="needs 662 steady samples")
    run = summarize(entry_of(a_sweep([({"batch_size": 8}, 0.1)]), Path()))
    told = {**run.cases[0].estimates, "throughput": wide, "latency_per_batch_p99_s": poor}
    case = msgspec.structs.replace(run.cases[0], estimates=told)
    text = terminal(Document("", (report_section(msgspec.structs.replace(run, cases=(case,))),)), 160)
    assert re.search(
        r"^  throughput +1\.000 items/s \(of trials \[0\.4\d*, 2\.2\d*\]: no interval\) ", text, re.MULTILINE
    )
    assert re.search(r"^  latency_per_batch_p99_s +\(500\.0 ms\) +needs 662 steady samples; ", text, re.MULTILINE)
