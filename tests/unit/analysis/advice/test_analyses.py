"""A run cut along one axis at a time, and its summary in the words of seed S3, in every document."""

import json
from pathlib import Path

import msgspec
import pytest
from build import a_sweep
from learning import falling, of_losses
from stored import a_stored_run, case, machine

from torchstone.analysis.advice.analyses import analyses
from torchstone.analysis.roofline import Bound
from torchstone.analysis.rows import case_rows
from torchstone.analysis.summary import summarize
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.run_document import document_bytes
from torchstone.report.diagnosis_messages import texts
from torchstone.storage.query import entry_of


def summary(run):
    return summarize(entry_of(run, Path("x")))


def sweep(rates, **axes):
    return [(case(batch_size=size, **axes), rate) for size, rate in zip((8, 16, 32), rates, strict=True)]


def test_s3_42_and_56_by_batch_size():
    (found,) = analyses(summary(a_stored_run(1, sweep((100, 150, 200)), machine())))
    assert (found.by, found.title, found.where) == ("batch_size", "by batch size", {})
    first, _, last = found.lines
    assert (first.value, last.value) == (8, 32)
    assert last.throughput_ratio == pytest.approx(2.0, rel=0.02)
    assert last.ratio_low is not None
    assert last.ratio_high is not None
    assert last.ratio_low < 2.0 < last.ratio_high
    assert last.efficiency == pytest.approx(0.5, rel=0.02)
    assert last.time_per_item_s == pytest.approx(1 / 200, rel=0.02)
    assert last.memory_ratio == pytest.approx(42 / 18)
    assert "from batch size 8 to 32 (4 times the items a step) throughput is 1.99 times" in texts(found.says, "; ")
    assert "memory grows 2.33 times" in texts(found.says, "; ")


def test_a_curve_that_is_flat_or_falls_says_so():
    (flat,) = analyses(summary(a_stored_run(1, sweep((100, 100, 100)), machine(), noise=0.02)))
    assert "throughput is the same within its noise" in texts(flat.says, "; ")
    (falls,) = analyses(summary(a_stored_run(1, sweep((100, 200, 150)), machine())))
    assert "it is highest at 16" in texts(falls.says, "; ")


def test_words_for_batch_sizes_and_rates_of_0_in_a_stranger_s_record_are_passed_over():
    run = summary(a_stored_run(1, sweep((100, 150, 200)), machine()))
    words = [
        msgspec.structs.replace(one, configuration={**one.configuration, "batch_size": f"some {n}"})
        for n, one in enumerate(run.cases)
    ]
    assert analyses(msgspec.structs.replace(run, cases=tuple(words))) == []
    rate = msgspec.structs.replace(run.cases[0].estimates["throughput"], value=0.0)
    idle = msgspec.structs.replace(run.cases[0], estimates={"throughput": rate})
    (found,) = analyses(msgspec.structs.replace(run, cases=(idle, *run.cases[1:])))
    assert [line.value for line in found.lines] == [16, 32]


def test_s3_44_and_45_by_optimizer_and_precision_all_else_equal():
    cases = [(case(optimizer=o, precision=p), rate) for (o, p), rate in zip(
        [("adamw", "fp32"), ("adamw", "bf16"), ("sgd", "fp32")], (100, 180, 100), strict=True)]  # fmt: skip
    found = {one.by: one for one in analyses(summary(a_stored_run(1, cases, machine(), noise=0.02)))}
    assert found["precision"].where == {"optimizer": "adamw"}
    assert [line.value for line in found["precision"].lines] == ["fp32", "bf16"]
    assert "bf16 is 1.81 times as fast as fp32, in as much memory" in texts(found["precision"].says, "; ")
    assert "sgd is as fast, within the noise, as adamw" in texts(found["optimizer"].says, "; ")


def test_s3_56_models_of_two_sizes_measured_alike():
    run = a_stored_run(
        1, [(case(model=name), rate) for name, rate in (("hf:small", 400), ("hf:large", 100))], machine()
    )
    sizes = {run.head.plan.cases[0].case_id: 10_000_000, run.head.plan.cases[1].case_id: 50_000_000}
    trials = [msgspec.structs.replace(t, facts=Facts("train", parameters=sizes[t.case_id])) for t in run.trials]
    (found,) = analyses(summary(msgspec.structs.replace(run, trials=tuple(trials))))
    assert found.by == "model"
    assert "hf:large has 5 times the parameters of hf:small and takes" in texts(found.says, "; ")
    assert found.lines[1].throughput_ratio == pytest.approx(0.25, rel=0.02)


def test_s3_55_which_resource_bounds_each_case():
    told = summary(a_stored_run(1, sweep((100, 150, 200)), machine()))
    bounds = [Bound(what, 0.6, 0.9, (), {}) for what in ("loader", "compute", "compute")]
    cases = tuple(msgspec.structs.replace(c, bound=b) for c, b in zip(told.cases, bounds, strict=True))
    *_, found = analyses(msgspec.structs.replace(told, cases=cases))
    assert (found.by, texts(found.says, "; ")) == ("bottleneck", "loader (I/O) bounds 1, compute bounds 2 of 3 cases")
    assert [line.bottleneck for line in found.lines] == ["loader", "compute", "compute"]


def test_a_limit_that_is_not_near_bounds_nothing_and_what_is_not_known_says_why():
    told = summary(a_stored_run(1, sweep((100, 150, 200)), machine()))
    bounds = (
        Bound("compute", 1.0, 0.237, (), {}), Bound("memory", 1.0, 0.6, (), {}),
        Bound("unknown", 1.0, 0.0, (Statement("no_peaks"),), {}),
    )  # fmt: skip
    cases = tuple(msgspec.structs.replace(c, bound=b) for c, b in zip(told.cases, bounds, strict=True))
    *_, found = analyses(msgspec.structs.replace(told, cases=cases))
    assert texts(found.says, "; ") == (
        "memory bounds 1, no limit is near in 1, not known in 1 (no peaks of this device are known: measure them with "
        "`torchstone machine peaks` (half a minute)) of 3 cases"
    )
    assert [line.bottleneck for line in found.lines] == ["none near (nearest: compute)", "memory", "unknown"]
    assert [line.share for line in found.lines] == [0.237, 1.0, None]


def test_one_case_is_no_analysis():
    assert analyses(summary(a_sweep([({"batch_size": 8}, 0.01)]))) == []


def test_s3_36_to_41_the_documents_keys_are_the_seeds():
    run = of_losses(
        [({"batch_size": size, "precision": word}, falling()) for size, word in ((8, "fp32"), (16, "bf16"))], trials=1
    )
    (found,) = json.loads(document_bytes(run, case_rows(run)))["performance_summary"]
    assert list(found["training_time"]) == [
        "unit", "min", "max", "mean", "by_batch_size", "by_optimizer", "by_mixed_precision"
    ]  # fmt: skip
    assert set(found["training_time"]["by_mixed_precision"]) == {"full_precision", "mixed_precision"}
    assert list(found["throughput"]) == ["unit", "min", "max", "mean"]
    assert list(found["loss_convergence"]) == ["unit", "min", "max", "mean", "by_learning_rate"]
    assert json.loads(document_bytes(run))["performance_summary"] == [], "without rows it is not derived"
