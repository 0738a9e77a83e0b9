"""Texts that were put together in English come out in Korean, and what is not ours comes out as it was."""

import time

import pytest
from over import over

from torchstone.report.translation.joints import bare
from torchstone.report.translation.translator import translation


def korean(text: str) -> str:
    return translation(text, "ko")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("throughput", "처리량"),
        ("1 trial a case", "케이스당 시행 1회"),
        ("3 trials a case", "케이스당 시행 3회"),
        ("batch_size 8 ran out of memory; 4 fitted", "batch_size 8: 메모리 부족; 4에서는 가능했음"),
        ("train mlp on cpu: nothing is stored", "train mlp (cpu): 저장된 것이 없음"),
        (" (and 2 more)", " (외 2개)"),
    ],
)
def test_what_is_put_together_is_translated_piece_by_piece(text, wanted):
    assert korean(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "8", "1.5 GiB", "±3.2 %", "batch_size", "batch_size 8, precision bf16", "torchstone show --full",
        "hf:distilbert-base-uncased", "NVIDIA H100 80GB HBM3", "Traceback: boom", "a stranger's words, all of them",
        "the king of the hill", "{0} {1}", "%s", "모델 🔥", "x" * 100,
    ],
)  # fmt: skip
def test_what_is_not_ours_stays_as_it_is(text):
    assert korean(text) == text


def test_a_message_of_a_stranger_keeps_its_words_within_ours():
    assert (
        korean("Nothing was measured: crashed: The King of Spain") == "측정된 것 없음: 비정상 종료: The King of Spain"
    )


HOSTILE = [
    "a", "ab ", " and", "; ", ": ", ", ", ". A", "(", ")", " (", "{0}", " of ", " of the ", "1 of 2 cases, ", "x (y) ",
    " trial", "in case of ", "the loader delivers ", "; not significantly different: ", "throughput is ", "\x00", "가 ",
]  # fmt: skip


@over("length", [300, 1_990, 10_000])
@over("unit", HOSTILE)
def test_a_hostile_text_takes_under_50_ms(unit, length):
    korean("load the catalogue first")
    text = (unit * length)[:length]
    spent = []
    for attempt in range(3):  # what else runs on the machine slows this down, too
        began = time.thread_time()
        assert korean(f"{text}{attempt}")
        spent.append(time.thread_time() - began)
    assert min(spent) < 0.05


@pytest.mark.parametrize("text", ["(a) and (b)", "((a))", "(a", "a)", "; (x).", "...", "a. b."])
def test_bare_takes_a_text_apart_and_loses_nothing(text):
    assert "".join(bare(text)) == text
