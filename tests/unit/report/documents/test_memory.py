"""What fits which card, as it is printed."""

import json

import msgspec
import pytest
from results import GIB, a_memory_row

from torchstone.analysis.memory_fit import FitRow, MemoryAnswer
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.codec import encode
from torchstone.core.schema.trial import Outcome, Status
from torchstone.core.stats.peak_memory import MOST
from torchstone.report.documents.memory import memory_document, memory_json
from torchstone.report.renderers.terminal import terminal


def said(*rows, axes=("batch_size",), width=100, first=None):
    return terminal(memory_document(MemoryAnswer(tuple(rows), axes, {}), first), width)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (a_memory_row(), "train gpt2, batch_size 4 fits an NVIDIA H100 SXM 80 GB: its peak is 3.00 GiB of 80.0 GiB."),
        (a_memory_row(gib=75), "may fit, with little to spare, an NVIDIA H100"),
        (a_memory_row(gib=90), "does not fit an NVIDIA H100"),
        (a_memory_row(largest=None, gib=90), "Not even a batch of 1"),
        (a_memory_row(), "The largest batch that leaves a tenth of the memory free is 200 (71.0 GiB)."),
        (a_memory_row(largest=MOST), "is 1,048,576 or more"),
        (a_memory_row(card="a card of 24 GB", memory=24), "fits a card of 24 GB"),
    ],
)  # fmt: skip
def test_one_setting_is_answered_in_a_sentence(row, words):
    headline = memory_document(MemoryAnswer((row,), ("batch_size",), {})).headline
    assert headline is not None
    assert words in headline


def test_the_error_is_stated():
    text = " ".join(said(a_memory_row()).split())
    assert "median 0.1 %, 90th percentile 2.0 %; not checked on a card yet" in text


def test_one_setting_is_told_part_by_part_with_what_each_is():
    lines = said(a_memory_row(), width=80).splitlines()
    at = lines.index("peak memory, in the backward pass")
    assert [line.strip() for line in lines[at + 1 :]] == [
        "weights     1.00 GiB, parameters and buffers",
        "activations 2.00 GiB, what the forward pass keeps for the backward pass",
        "reserved    4.00 GiB, what torch's allocator takes from the card for all that,",
        "with gaps",
    ]


def test_of_inference_nothing_is_kept_for_a_backward_pass():
    row = msgspec.structs.replace(a_memory_row(), task="infer")
    assert "activations 2.00 GiB, all that the forward pass holds" in said(row)


def test_the_settings_that_the_figures_are_true_of_are_said():
    settings = {"optimizer": "adamw", "fused": "auto", "grad_clip": None}
    assert "\nWith precision fp32, optimizer adamw.\n" in said(a_memory_row(configuration=settings))
    both = [a_memory_row(configuration={**settings, "precision": p}) for p in ("fp32", "bf16")]
    assert "\nAll with optimizer adamw.\n" in said(*both, axes=("precision",))


def test_below_a_table_each_part_is_explained():
    text = " ".join(said(a_memory_row(), a_memory_row(gib=90)).split())
    assert "weights: parameters and buffers; activations: what the forward pass keeps" in text
    assert "workspace:" not in text, "there is none"


def test_several_are_counted_and_the_table_tells_each():
    rows = (
        a_memory_row(),
        a_memory_row(gib=90, configuration={"precision": "bf16"}),
        a_memory_row(memory=24, card="NVIDIA L4", largest=None),
    )
    text = said(*rows, axes=("precision",))
    assert text.startswith("2 of 3 settings fit.")
    assert "NVIDIA H100 SXM 80 GB, train gpt2: 200 (precision fp32); 200 (precision bf16)" in " ".join(text.split())
    assert "NVIDIA L4, train gpt2: none (precision fp32)" in " ".join(text.split())
    assert "too large" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_training_beside_an_inference_has_axes_of_its_own_in_a_table_of_its_own():
    train = [a_memory_row(configuration={"optimizer": "adamw", "precision": p}) for p in ("fp32", "bf16")]
    infer = [
        msgspec.structs.replace(a_memory_row(configuration={"precision": p}), task="infer") for p in ("fp32", "bf16")
    ]
    text = said(*infer, *train, axes=("precision", "optimizer"), width=80)
    assert "\ntrain gpt2 with optimizer adamw.\n" in text
    assert "infer gpt2: 200 (precision fp32); 200 (precision bf16)" in " ".join(text.split())
    tables = text.split("\ninfer gpt2\n")[1].split("\ntrain gpt2\n")
    assert [table.count("NVIDIA H100 SXM 80 GB") for table in tables] == [2, 2], "rows, not a line for each figure"
    assert "optimizer" not in tables[0].split("hidden")[0]


def test_why_not_and_why_one_batch_size():
    told = FitRow(
        "train",
        "py:x.py:load",
        "NVIDIA L4",
        24 * GIB,
        {"batch_size": 1},
        why_not=Outcome(Status.UNSUPPORTED, "the shapes depend on its data"),
    )
    text = said(told, a_memory_row(fixed=Statement("batch_sampler")))
    assert text.startswith("1 of 2 settings fit, 1 not predicted.")
    assert "not predicted: the shapes depend on its data" in text
    assert "one batch size: a batch_sampler makes the batches" in text


def test_what_a_tune_would_try_comes_first():
    text = said(a_memory_row(), a_memory_row(gib=90), first="Settings that fit, of those that tune would try: 1 of 2.")
    assert text.startswith("Settings that fit, of those that tune would try: 1 of 2.\n\n1 of 2 settings fit. ")


def test_nothing_that_can_be_predicted_is_no_table_of_dashes_alone():
    told = FitRow(
        "train",
        "py:x.py:load",
        "NVIDIA L4",
        24 * GIB,
        {"batch_size": 1},
        why_not=Outcome(Status.UNSUPPORTED, "its data decide"),
    )
    text = said(told)
    assert text.startswith("The memory of none of these settings can be predicted.")
    assert "not predicted: its data decide" in text


def test_json_says_the_verdict_too():
    found = json.loads(
        encode(memory_json(MemoryAnswer((a_memory_row(),), (), {"NVIDIA H100 SXM 80 GB": "a datasheet"})))
    )
    assert found["rows"][0]["verdict"] == "fits"
    assert found["rows"][0]["peak"]["kinds"]["weights"] == GIB
    assert found["usual_error"] > 0
