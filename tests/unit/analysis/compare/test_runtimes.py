"""Total runtimes of trainings: of whom they are known, and what their ratio says."""

import pytest
from build import a_case
from comparable import a_gpu, a_stored_run

from torchstone.analysis.compare.compare import ComparisonRequest, compare
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.analysis.compare.runtimes import runtime_ratios
from torchstone.core.schema.case import Task
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Fit, TrainingMetrics
from torchstone.report.comparison_folder import comparison_json

STEPS_S = (0.01, 0.0101, 0.0099)


def side(letter, *, task=Task.TRAIN, fit=None, reached=None, **facts):
    head = {"procedure": Procedure(trials=1, fit=fit)} if fit else {}
    machine = a_gpu(letter, host=letter)
    steps_s = STEPS_S[: 1 if facts or fit else 3]
    run = a_stored_run(steps_s, a_case(task=task), facts=facts, machine=machine, head=head)
    trainings = {run.head.run_id: reached} if reached is not None else {}
    return ComparedInput(letter, letter, letter, (run,), trainings)


def ratios(*sides):
    return runtime_ratios(compare(sides, ComparisonRequest()))


def told(letter, seconds, **facts):
    return side(letter, imported_from="a script", total_runtime_s=seconds, **facts)


def test_the_ratio_is_of_the_candidate_to_the_baseline():
    (one,) = ratios(told("A", 1851.23, epochs=150), told("B", 1200.0, epochs=150))
    assert (one.case, one.baseline, one.candidate) == ("train cnn", "A", "B")
    assert one.ratio == pytest.approx(0.6482, abs=5e-5)
    assert one.faster == "B"
    (back,) = ratios(told("A", 1200.0), told("B", 1851.23))
    assert (back.faster, back.same_work) == ("A", True), "as far as is known"
    (even,) = ratios(told("A", 1200.0), told("B", 1200.0))
    assert even.faster is None


def test_other_numbers_of_epochs_are_other_work():
    (one,) = ratios(told("A", 1851.23, epochs=150), told("B", 1200.0, epochs=100))
    assert not one.same_work
    assert one.faster is None
    assert one.epochs == (150, 100)


def test_how_long_a_run_measured_is_no_time_of_a_training():
    assert not ratios(side("A"), side("B"))
    assert not ratios(side("A"), told("B", 1200.0))
    assert not ratios(side("A", imported_from="a script"), told("B", 1200.0))
    inferred = [side(letter, task=Task.INFER, total_runtime_s=60.0) for letter in "AB"]
    assert not ratios(*inferred)


def test_a_training_of_ours_took_as_long_as_its_trial():
    (one,) = ratios(side("A", fit=Fit(), epochs=2), side("B", fit=Fit(), epochs=2))
    assert (one.baseline_s, one.candidate_s, one.faster) == (6.0, 6.0, None)


def test_of_a_training_that_was_cut_the_part_before_counts_too():
    whole = TrainingMetrics("r", "m", "d", "cpu", "image", (), 30.0, 1.5, 100.0, 0.9, 0.8, 1)
    (one,) = ratios(side("A", fit=Fit()), side("B", fit=Fit(resume=True), reached=whole))
    assert (one.baseline_s, one.candidate_s, one.faster) == (6.0, 90.0, "A")
    assert not ratios(side("A", fit=Fit()), side("B", fit=Fit(resume=True))), "without its folder that is not known"


def test_what_cannot_be_compared_has_no_ratio_of_times():
    assert not ratios(told("A", 1851.23, parameters=4_123_456), told("B", 1200.0, parameters=4_000_000))


def test_the_document_has_runtimes_and_accuracies():
    sides = (told("A", 1851.23, final_test_accuracy=0.8723), told("B", 1200.0))
    document = comparison_json(compare(sides, ComparisonRequest()))
    assert [one["runtime_s"] for one in document["participants"]] == [1851.23, 1200.0]
    assert [one["accuracies"] for one in document["participants"]] == [{"final_test_accuracy": 0.8723}, {}]
    assert [one.faster for one in document["total_runtimes"]] == ["B"]
