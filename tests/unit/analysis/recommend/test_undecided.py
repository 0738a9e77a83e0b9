"""Hardware, where no two devices can be compared: who ran what, what is in the way, and what to type."""

import shlex
from typing import Any

import pytest
from build import a_finding
from stored import CARD, a_stored_run, case, machine, store

from torchstone.analysis.recommend.recommend import RecommendRequest, recommend
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.estimate import Severity
from torchstone.report.documents.recommendation import recommendation_document
from torchstone.report.renderers.terminal import terminal

SIZES = (8, 16, 32)
FAR_APART: dict[str, Any] = {"trials": 2, "noise": 0.3}  # of runs 2 and 3: their intervals pass ±50 %
ALONE = "No recommendation of hardware by speed for embedding, training: one device alone ran these models.\n"


def sweep(rates, kind="cpu"):
    return [(case(kind, batch_size=size), rate) for size, rate in zip(SIZES, rates, strict=True)]


def doubts(cases, severity=Severity.WARNING):
    return [a_finding("neighbours", severity, "others were busy", "wait", one.case_id) for one, _ in cases]


CPU, CUDA = sweep((100, 150, 200)), sweep((1000, 2000, 3000), "cuda")


@pytest.fixture
def told(outputs):
    """Store these runs; return the block of hardware, and what is said of it on a terminal."""

    def call(*runs):
        store(outputs, runs)
        found = recommend(outputs, RecommendRequest())
        (block,) = found.hardware
        return block, terminal(recommendation_document(found), 300).partition("settings by speed for")[0]

    return call


def every_command(outputs):
    return terminal(recommendation_document(recommend(outputs, RecommendRequest())), 300, every=True)


def test_s4_16_one_device_whose_run_is_suspect_has_a_block_that_says_so_and_why(told, outputs):
    run = a_stored_run(1, CPU, machine(), findings=doubts(CPU))
    block, shown = told(run)
    assert (block.recommended, block.ran, block.judged) == (None, ("Intel Xeon",), ())
    assert shown.startswith(ALONE)
    why = "3 of 3 settings are SUSPECT (neighbours): others were busy"
    assert f"\nnote: {why}; see `torchstone show {run.head.run_id}`\n" in shown
    assert block.to_type is not None
    assert f"\n  {block.to_type}\n" in every_command(outputs)


def test_s4_16_one_device_whose_trials_differ_too_much_has_one_too(told):
    block, shown = told(a_stored_run(2, CPU, machine(), findings=doubts(CPU[:1]), **FAR_APART))
    assert (block.recommended, block.ran, block.judged) == (None, ("Intel Xeon",), ())
    assert shown.startswith(ALONE)
    assert "\nleft out: 3 of 3 settings: 2 trials differ too much for an interval" in shown
    assert "\nnote: 1 of 3 settings are SUSPECT (neighbours): others were busy; " in shown


def test_what_is_suspect_is_not_told_twice_of_a_device_that_has_other_settings(told):
    block, shown = told(a_stored_run(1, CPU, machine(), findings=doubts(CPU[:1])))
    assert block.left_out == ()
    assert shown.count("SUSPECT") == 1


@pytest.mark.parametrize(("severity", "word"), [(Severity.WARNING, "SUSPECT"), (Severity.ERROR, "INVALID")])
def test_s4_16_a_device_that_has_none_but_doubtful_figures_is_named_and_compared_with_nothing(told, severity, word):
    wrong = a_stored_run(2, CUDA, machine("cuda", host="gpubox"), findings=doubts(CUDA, severity))
    block, shown = told(a_stored_run(1, CPU, machine()), wrong)
    assert (block.recommended, block.judged, block.left_out) == (None, ("Intel Xeon",), ())
    assert ", training: of Intel Xeon, NVIDIA H200, Intel Xeon alone can be judged.\n" in shown
    assert f"note: 3 of 6 settings are {word} (neighbours): others were busy; " in shown


def test_a_device_of_fewer_than_three_trials_cannot_be_judged_and_that_is_said(told):
    few = a_stored_run(2, CUDA, machine("cuda", host="gpubox"), trials=2)
    block, shown = told(a_stored_run(1, CPU, machine()), few)
    assert (block.recommended, block.judged) == (None, ("Intel Xeon",))
    assert block.left_out == (Statement("settings_few_trials", {"count": 3, "of": 6, "fewest": 3}),)
    assert "left out: 3 of 6 settings have fewer than 3 trials\n" in shown
    words = shlex.split(block.to_type or "")
    assert (words[words.index("--device") + 1], words[words.index("--trials") + 1]) == ("cuda:0", "10")


def test_two_devices_of_which_one_cannot_be_judged_are_both_named_with_what_to_type(told, outputs):
    unclear = a_stored_run(2, CUDA, machine("cuda", host="gpubox"), **FAR_APART)
    block, shown = told(a_stored_run(1, CPU, machine()), unclear)
    assert block.ran == ("Intel Xeon", "NVIDIA H200")
    assert ": of Intel Xeon, NVIDIA H200, Intel Xeon alone can be judged.\n" in shown
    assert "left out: 3 of 6 settings: 2 trials differ too much" in shown
    assert f"what would settle more:\n  {block.to_type}\n" in every_command(outputs)
    words = shlex.split(block.to_type or "")
    assert words[words.index("--device") + 1] == "cuda:0"
    assert words[words.index("--trials") + 1] == "10"


def test_two_devices_of_which_neither_can_be_judged(told):
    runs = ((2, CPU, machine()), (3, CUDA, machine("cuda", host="gpubox")))
    block, shown = told(*(a_stored_run(*run, **FAR_APART) for run in runs))
    assert block.judged == ()
    assert ": of Intel Xeon, NVIDIA H200, none can be judged.\n" in shown


def test_a_device_whose_memory_is_nearly_full_in_all_settings_has_a_block_that_says_so(told):
    held = {one.case_id: 0.95 * (CARD.memory_bytes or 0) for one, _ in CUDA}
    block, shown = told(a_stored_run(1, CUDA, machine("cuda"), memory=held))
    assert (block.ran, block.judged) == (("NVIDIA H200",), ())
    assert (
        "left out: 3 of 3 settings: they nearly fill the memory, train worse or are not shown to be as good\n" in shown
    )
