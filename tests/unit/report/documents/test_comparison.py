"""What `compare` says: the answer first, then who, what, and why; narrow and wide."""

import re

from build import a_case
from comparable import a_gpu, a_stored_run

from torchstone.analysis.compare.compare import ComparisonRequest, compare
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.schema.case import Placement, Task
from torchstone.report.document import Document, Fields, Section, Table
from torchstone.report.documents.comparison import comparison_document
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal

BASE = (0.0100, 0.0101, 0.0099, 0.0100)


def side(letter, card, vendor, by, minutes=0.0):
    kind = "rocm" if vendor == "amd" else "cuda"
    train, infer = (a_case(task=task, placement=Placement(kind)) for task in (Task.TRAIN, Task.INFER))
    steps = [time_s * by for time_s in BASE]
    run = a_stored_run(steps, train, (infer, steps), machine=a_gpu(card, vendor, host=card), minutes=minutes)
    return ComparedInput(letter, card, letter, (run,))


def document(*sides: ComparedInput) -> Document:
    compared = compare(sides, ComparisonRequest())
    return comparison_document(compared, ["comparison.json"])


def printed(*sides: ComparedInput, width: int = 160, every: bool = False) -> str:
    text = terminal(document(*sides), width, every=every)
    assert max(map(len, text.splitlines())) <= max(width, 80)
    return text


def sides(told: Document) -> Table:
    """The table of who is compared."""
    (rest,) = [part for part in told.parts if isinstance(part, Section) and part.folded]
    (whole,) = rest.parts
    assert isinstance(whole, Section)
    table, *_ = whole.parts
    assert isinstance(table, Table)
    return table


def test_a_verdict_whose_interval_is_wide_stands_beside_the_bound_that_holds():
    steps = (0.010, 0.022, 0.007, 0.0125)
    slow = [ComparedInput(letter, letter, letter, (a_stored_run([by * s for s in steps], a_case(task=Task.TRAIN),
            minutes=minutes),)) for letter, by, minutes in (("A", 1.0, 0.0), ("B", 12.0, 90.0))]  # fmt: skip
    (row,) = [line for line in printed(*slow, width=80).splitlines() if line.endswith("  worse")]
    assert re.search(r"at most 0\.\d+ +worse$", row), "and no dash, at 80 columns"


AMD, NVIDIA = side("A", "Radeon RX 7900 XTX", "amd", 1.0), side("B", "RTX 4090", "nvidia", 0.5)


def test_s0_14_to_19_and_48_to_50_amd_against_nvidia():
    text = printed(AMD, NVIDIA, every=True)
    first, second = [line for line in text.splitlines() if line][:2]
    times = r"B \(RTX 4090\) is 2\.00 \[1\.9\d, 2\.0\d\] times as fast as A \(Radeon RX 7900 XTX\)\.$"
    assert re.match(rf"For training: {times}", first)
    assert re.match(rf"For inference: {times}", second)
    head = text[: text.index("[SPEEDUP")]
    assert head.count("[BENCHMARK") == 2
    for word in ("Experiment", "amd - Radeon RX 7900 XTX", "nvidia - RTX 4090", "24.0 GiB", "(1,000 params)", "Driver",
                 "Runtime", "1,600 images/s"):  # fmt: skip
        assert word in head, word
    assert re.search(
        r"\[SPEEDUP ANALYSIS\]\s+B vs A, train cnn, per item: time ratio 0\.500 \[0\.4\d+, 0\.5\d*\], faster: B", text
    )
    assert "total runtime" not in text, "how long a run measured is no time of a training"
    assert re.search(r"\[THROUGHPUT ANALYSIS\](.|\n)*throughput +1,600 .*3,200 .* 2\.00 .*better", text)


def told(letter, **facts):
    run = a_stored_run(BASE[:1], facts={"imported_from": "a script", **facts}, machine=a_gpu(letter, host=letter))
    return ComparedInput(letter, letter, letter, (run,))


def test_s0_49_total_runtimes_as_another_tool_tells_them():
    a = told("A", total_runtime_s=1851.23, epochs=150, final_train_accuracy=0.9876, final_test_accuracy=0.8723)
    text = printed(a, told("B", total_runtime_s=1200.0, epochs=150), every=True)
    assert "train cnn, total runtime: time ratio 0.648 (20.00 min and 30.85 min), faster: B, one run each" in text
    head = text[: text.index("[SPEEDUP")]
    cells = {"Runtime": "30.85 min +20.00 min", "Train accuracy": "98.76% +–", "Test accuracy": "87.23% +–"}
    assert all(re.search(rf"{name} +{told}", head) for name, told in cells.items())
    other = printed(a, told("B", total_runtime_s=1200.0, epochs=100), every=True)
    assert "0.648 (20.00 min and 30.85 min), not of the same work: 100 epochs and 150" in " ".join(other.split())


def test_a_runtime_that_is_not_told_is_a_dash_and_never_0():
    text = printed(told("A"), told("B", total_runtime_s=1200.0), every=True)
    assert re.search(r"Runtime +– +20\.00 min", text)
    assert "total runtime" not in text
    assert "Runtime" not in printed(told("A"), told("B"), every=True)


def test_a_narrow_terminal_has_the_ratio_and_the_verdict():
    text = printed(AMD, NVIDIA, width=60)
    assert "ratio" in text
    assert re.search(r"cnn .*2\.00 \[1\.9\d, 2\.0\d\] +better", text)


def test_three_machines():
    text = printed(AMD, NVIDIA, side("C", "L4", "nvidia", 2.0), every=True)
    assert text.startswith("For training: B (RTX 4090) is the fastest: 2.00 [1.9")
    assert "[BENCHMARK 3]" in text
    assert re.search(r"cnn +B +1,600 .*better", text)
    assert re.search(r" C +1,600 .*worse", text)


def test_every_machine_has_its_column_of_facts():
    told = document(AMD, NVIDIA, side("C", "L4", "nvidia", 2.0))
    facts = sides(told).columns
    heads = ["", "[BENCHMARK 1] A (baseline)", "[BENCHMARK 2] B", "[BENCHMARK 3] C"]
    assert [column.title for column in facts] == heads
    names, *each = (column.cells for column in facts)
    assert [cells[names.index("Experiment")] for cells in each] == ["test"] * 3
    assert [cells[names.index("Host")] for cells in each] == ["Radeon RX 7900 XTX", "RTX 4090", "L4"]


def test_what_cannot_be_compared_comes_with_its_reason():
    failed = a_stored_run([None, None], a_case(placement=Placement("cuda")))
    text = printed(AMD, ComparedInput("B", "broken", "B", (failed,)))
    assert text.startswith("Not comparable: train cnn, B vs A: no successful trial of the candidate (out_of_memory:")
    assert "THROUGHPUT" not in text


def test_unclear_says_how_many_more_trials():
    noisy = [a_stored_run([time_s * by for time_s in (0.010, 0.0107, 0.0094)]) for by in (1.0, 1.04)]
    text = printed(*(ComparedInput(letter, letter, letter, (run,)) for letter, run in zip("AB", noisy, strict=True)))
    assert text.startswith("For training: unclear: B is 0.962 [")
    assert re.search(r"more trials of each needed|`torchstone ab` interleaves", " ".join(text.split()))


def test_a_strangers_text_steers_no_terminal():
    evil = a_stored_run(BASE, machine=a_gpu("card\x1b[31m", host="h\x1bst"), name="n\x1b]0;x")
    text = printed(AMD_ON_CPU, ComparedInput("B", "b\x1b[2J", "B", (evil,)))
    assert "\x1b" not in text


AMD_ON_CPU = ComparedInput("A", "a", "A", (a_stored_run(BASE),))


def test_long_tables_are_cut_and_full_has_all():
    sizes = [a_case({"batch_size": n}) for n in range(1, 41)]
    runs = [a_stored_run(BASE, sizes[0], *((case, BASE) for case in sizes[1:]), minutes=m) for m in (0, 20)]
    both = [ComparedInput(letter, letter, letter, (run,)) for letter, run in zip("AB", runs, strict=True)]
    short, full = printed(*both), printed(*both, every=True)
    assert "and 16 more: --full" in short
    assert "--full" not in full
    assert full.count("step time") == 40
    assert "step time" not in short


def test_the_page_has_the_answer_in_bold_and_the_files_last():
    told = document(AMD, NVIDIA)
    assert told.parts[-2] == Fields((("written", "comparison.json"),))
    page = markdown(told)
    assert page.startswith("# RTX 4090 against Radeon RX 7900 XTX\n\n**For training: B (RTX 4090) is 2.00 [1.9")
    assert re.search(r"^\| (train )?cnn \| 1,600 \| .* better \|", page, re.MULTILINE)
