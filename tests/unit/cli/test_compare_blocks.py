"""What `compare` prints: the answer first, then who, what, and why; narrow and wide."""

import re

import pytest
from build import a_case
from comparable import a_gpu, a_stored_run

from torchstone.analysis.compare.answer import answers
from torchstone.analysis.compare.compare import Asked, compare
from torchstone.analysis.compare.inputs import Participant
from torchstone.cli._compare_blocks import print_comparison
from torchstone.core.schema.case import Placement, Task

BASE = (0.0100, 0.0101, 0.0099, 0.0100)


def side(letter, card, vendor, by, minutes=0.0):
    kind = "rocm" if vendor == "amd" else "cuda"
    train, infer = (a_case(task=task, placement=Placement(kind)) for task in (Task.TRAIN, Task.INFER))
    steps = [time_s * by for time_s in BASE]
    run = a_stored_run(steps, train, (infer, steps), machine=a_gpu(card, vendor, host=card), minutes=minutes)
    return Participant(letter, card, letter, (run,))


@pytest.fixture
def printed(capsys):
    def show(*sides, width=160, **how):
        compared = compare(sides, Asked())
        print_comparison(compared, answers(compared), width, **how)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= max(width, 80)
        return text

    return show


AMD, NVIDIA = side("A", "Radeon RX 7900 XTX", "amd", 1.0), side("B", "RTX 4090", "nvidia", 0.5)


def test_s0_14_to_19_and_48_to_50_amd_against_nvidia(printed):
    text = printed(AMD, NVIDIA)
    first, second = text.splitlines()[:2]
    assert re.match(
        r"Faster for training: B \(RTX 4090\), 2 times A's throughput \(95 % interval 1\.9\d to 2\.0\d\)\.$", first
    )
    assert second.startswith("Faster for inference: B (RTX 4090), 2 times")
    head = text[: text.index("[SPEEDUP")]
    assert head.count("[BENCHMARK") == 2
    for word in ("Experiment", "amd - Radeon RX 7900 XTX", "nvidia - RTX 4090", "24.0 GiB", "(1,000 params)", "Driver",
                 "Runtime", "1,600 images/s"):  # fmt: skip
        assert word in head, word
    assert re.search(
        r"\[SPEEDUP ANALYSIS\]\n  B vs A, train cnn, an item: time ratio 0\.5 \[0\.4\d+, 0\.5\d*\], faster: B", text
    )
    assert "total runtime" not in text, "how long a run measured is no time of a training"
    assert re.search(r"\[THROUGHPUT ANALYSIS\](.|\n)*train cnn +throughput +1,600 .*3,200 .* 2 .*better", text)


def told(letter, **facts):
    run = a_stored_run(BASE[:1], facts={"imported_from": "a script", **facts}, machine=a_gpu(letter, host=letter))
    return Participant(letter, letter, letter, (run,))


def test_s0_49_total_runtimes_as_another_tool_tells_them(printed):
    a = told("A", total_runtime_s=1851.23, epochs=150, final_train_accuracy=0.9876, final_test_accuracy=0.8723)
    text = printed(a, told("B", total_runtime_s=1200.0, epochs=150))
    assert "train cnn, total runtime: time ratio 0.648 (20.00 min and 30.85 min), faster: B, one run each" in text
    head = text[: text.index("[SPEEDUP")]
    cells = {"Runtime": "30.85 min +20.00 min", "Train accuracy": "98.76% +–", "Test accuracy": "87.23% +–"}
    assert all(re.search(rf"{name} +{told}", head) for name, told in cells.items())
    other = printed(a, told("B", total_runtime_s=1200.0, epochs=100))
    assert "0.648 (20.00 min and 30.85 min), not of the same work: 100 epochs and 150" in " ".join(other.split())


def test_a_runtime_that_is_not_told_is_a_dash_and_never_0(printed):
    text = printed(told("A"), told("B", total_runtime_s=1200.0))
    assert re.search(r"Runtime +– +20\.00 min", text)
    assert "total runtime" not in text
    assert "Runtime" not in printed(told("A"), told("B"))


def test_a_narrow_terminal_has_the_ratio_and_the_verdict(printed):
    text = printed(AMD, NVIDIA, width=80)
    assert "ratio" in text
    assert re.search(r"train cnn +throughput +1,600 +3,200 +2 .*better", text)


def test_three_machines(printed):
    text = printed(AMD, NVIDIA, side("C", "L4", "nvidia", 2.0))
    assert text.startswith("Faster for training: B (RTX 4090); throughput relative to A: B (RTX 4090) 2×")
    assert "[BENCHMARK 3]" in text
    assert re.search(r"train cnn +throughput +B +1,600 .*better", text)
    assert re.search(r"throughput +C +1,600 .*worse", text)


def test_more_machines_than_fit_beside_each_other_are_printed_below_each_other(printed):
    text = printed(AMD, NVIDIA, side("C", "L4", "nvidia", 2.0), width=80)
    assert re.search(r"\[BENCHMARK 3\] C\n  Experiment: test\n", text)


def test_what_cannot_be_compared_comes_with_its_reason(printed):
    failed = a_stored_run([None, None], a_case(placement=Placement("cuda")))
    text = printed(AMD, Participant("B", "broken", "B", (failed,)))
    assert text.startswith("Not comparable: train cnn, B vs A: no trial of the candidate ended well (out_of_memory:")
    assert "THROUGHPUT" not in text


def test_unclear_says_how_many_more_trials(printed):
    noisy = [a_stored_run([time_s * by for time_s in (0.010, 0.0107, 0.0094)]) for by in (1.0, 1.04)]
    text = printed(*(Participant(letter, letter, letter, (run,)) for letter, run in zip("AB", noisy, strict=True)))
    assert text.startswith("Faster for training: unclear, 0.962 times A's throughput (95 % interval ")
    assert re.search(
        r"about \d+ more trials of each needed|use `torchstone ab`", " ".join(text.split())
    )


def test_a_strangers_text_steers_no_terminal(printed):
    evil = a_stored_run(BASE, machine=a_gpu("card\x1b[31m", host="h\x1bst"), name="n\x1b]0;x")
    text = printed(AMD_ON_CPU, Participant("B", "b\x1b[2J", "B", (evil,)))
    assert "\x1b" not in text


AMD_ON_CPU = Participant("A", "a", "A", (a_stored_run(BASE),))


def test_long_tables_are_cut_and_full_has_all(printed):
    sizes = [a_case({"batch_size": n}) for n in range(1, 41)]
    runs = [a_stored_run(BASE, sizes[0], *((case, BASE) for case in sizes[1:]), minutes=m) for m in (0, 20)]
    sides = [Participant(letter, letter, letter, (run,)) for letter, run in zip("AB", runs, strict=True)]
    short, full = printed(*sides), printed(*sides, every=True)
    assert "16 more rows: --full" in short
    assert "30 more: --full" in short
    assert "--full" not in full
    assert full.count("step time") == 40
    assert "step time" not in short
