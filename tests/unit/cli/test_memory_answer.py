"""What fits which card, as it is printed."""

import json

import msgspec
import pytest

from torchstone.cli._memory_answer import document, print_memory
from torchstone.core.schema.codec import encode
from torchstone.core.schema.memory import PeakMemory
from torchstone.core.stats.largest_batch import MOST
from torchstone.workflows.memory.answer import Answer, Row

GIB = 2**30


def a_row(batch=4, gib=3.0, largest=200, card="NVIDIA H100 SXM 80 GB", memory=80, **changes):
    peak = PeakMemory(batch, int(gib * GIB), {"weights": GIB, "activations": int((gib - 1) * GIB)}, "backward", 4 * GIB)
    most = None if largest is None else PeakMemory(largest, 71 * GIB, {}, "backward")
    configuration = {"batch_size": batch, "precision": "fp32", **changes.pop("configuration", {})}
    return Row("train", "hf:gpt2", card, memory * GIB, configuration, peak, most, **changes)


def said(capsys, *rows, axes=("batch_size",), width=100):
    print_memory(Answer(tuple(rows), axes, {}), width=width)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (a_row(), "train gpt2, batch_size 4 fits an NVIDIA H100 SXM 80 GB: its peak is 3.00 GiB of 80.0 GiB."),
        (a_row(gib=75), "may fit, with little to spare, an NVIDIA H100"),
        (a_row(gib=90), "does not fit an NVIDIA H100"),
        (a_row(largest=None, gib=90), "Not even a batch of 1"),
        (a_row(), "The largest batch that leaves a tenth of the memory free is 200 (71.0 GiB)."),
        (a_row(largest=MOST), "is 1,048,576 or more"),
        (a_row(card="a card of 24 GB", memory=24), "fits a card of 24 GB"),
    ],
)  # fmt: skip
def test_one_setting_is_answered_in_a_sentence(capsys, row, words):
    assert words in " ".join(said(capsys, row).split())


def test_the_error_is_stated(capsys):
    assert "nine of ten within 2.0 %" in " ".join(said(capsys, a_row()).split())


def test_one_setting_is_told_part_by_part_with_what_each_is(capsys):
    lines = said(capsys, a_row(), width=80).splitlines()
    at = lines.index("Its highest moment is in the backward pass:")
    assert lines[at + 1 :] == [
        "  weights        1.00 GiB  parameters and buffers",
        "  activations    2.00 GiB  what the forward pass keeps for the backward pass",
        "  reserved       4.00 GiB  what torch's allocator takes from the card for all",
        "                           that, with gaps",
    ]


def test_of_inference_nothing_is_kept_for_a_backward_pass(capsys):
    row = msgspec.structs.replace(a_row(), task="infer")
    assert "activations    2.00 GiB  all that the forward pass holds" in said(capsys, row)


def test_the_settings_that_the_figures_are_true_of_are_said(capsys):
    settings = {"optimizer": "adamw", "fused": "auto", "grad_clip": None}
    assert "\nWith precision fp32, optimizer adamw.\n" in said(capsys, a_row(configuration=settings))
    both = [a_row(configuration={**settings, "precision": p}) for p in ("fp32", "bf16")]
    assert "\nAll with optimizer adamw.\n" in said(capsys, *both, axes=("precision",))


def test_below_a_table_each_part_is_explained(capsys):
    text = " ".join(said(capsys, a_row(), a_row(gib=90)).split())
    assert "weights: parameters and buffers; activations: what the forward pass keeps" in text
    assert "workspace" not in text, "there is none"


def test_several_are_counted_and_the_table_tells_each(capsys):
    rows = (
        a_row(),
        a_row(gib=90, configuration={"precision": "bf16"}),
        a_row(memory=24, card="NVIDIA L4", largest=None),
    )
    text = said(capsys, *rows, axes=("precision",))
    assert text.startswith("2 of 3 settings fit.")
    assert "NVIDIA H100 SXM 80 GB, train gpt2: 200 (precision fp32); 200 (precision bf16)" in " ".join(text.split())
    assert "NVIDIA L4, train gpt2: none (precision fp32)" in " ".join(text.split())
    assert "too large" in text
    assert max(map(len, text.splitlines())) <= 100


def test_why_not_and_why_one_batch_size(capsys):
    told = Row(
        "train", "py:x.py:load", "NVIDIA L4", 24 * GIB, {"batch_size": 1}, why_not="the shapes depend on its data"
    )
    text = said(capsys, told, a_row(fixed="the loader gives batches of 4"))
    assert text.startswith("1 of 2 settings fit, of 1 nothing can be told.")
    assert "not told: the shapes depend on its data" in text
    assert "one batch size: the loader gives batches of 4" in text


def test_json_says_the_verdict_too():
    found = json.loads(encode(document(Answer((a_row(),), (), {"NVIDIA H100 SXM 80 GB": "a datasheet"}))))
    assert found["rows"][0]["verdict"] == "fits"
    assert found["rows"][0]["peak"]["kinds"]["weights"] == GIB
    assert found["usual_error"] > 0
