"""Seed S2's own example: the run that it prints, stored, is shown with the table, the blocks and the advice."""

import re

import pytest
from acceptance.table_columns import number, under
from seed2_card import GB, PRINTED, lines, stored

MIDDLE = (128, 1024, 4096)  # of "Throughput 비교"


@pytest.fixture(scope="module")
def card(desk):
    stored(desk.folder, "card")
    stored(desk.folder, "three", *MIDDLE)
    stored(desk.folder, "small", 1)
    return desk


def words(text):
    return " ".join(text.split())


def rows(text):
    """The cells of the table's rows, by batch size, under their titles."""
    head, rule, body = text[text.index("\n\n") :].partition("───")
    assert rule
    titles = words(head)
    cells = [line.split() for line in body.splitlines()[1:] if re.match(r" +\d+ .*(?:ok|OOM) *$", line)]
    return titles, {int(line[0]): line for line in cells}


def test_the_printed_table_is_read_as_it_stands():
    assert len(lines()) == 14
    assert lines()[-1].batch == 8192
    assert all(line.step == pytest.approx(line.data + line.forward + line.backward, rel=0.002) for line in lines())


def test_s2_19_20_22_and_23_the_table_has_every_column_with_the_printed_numbers(card):
    titles, table = rows(card.claimed("S2-20").out)
    for title in ("data", "forward", "backward", "step", "throughput", "sequences/s", "utilization", "peak", "status"):
        assert all(word in titles for word in title.split()), title
    assert "num_workers 4" not in titles or "precision bf16" in titles
    for line in lines()[:-1]:
        cells = " ".join(table[line.batch])
        for ms in (line.data, line.forward, line.backward, line.step):
            assert _written(cells, ms, 0.006), (line, ms)
        assert _written(cells.replace(",", ""), line.rate, 0.002), line
        assert f"{line.percent:.1f} %" in cells
        assert f"{line.memory_gb * GB / 2**30:.3g}" in cells or f"{line.memory_gb * GB / 2**20:.3g}" in cells
        assert cells.endswith("ok")


def test_s2_22_the_column_holds_the_printed_rates_and_marks_the_highest(card):
    shown = card.claimed("S2-20").out
    told = dict(zip(map(int, under(shown, "size")), under(shown, "sequences/s"), strict=True))
    for line in lines()[:-1]:
        assert number(told[line.batch]) == pytest.approx(line.rate, rel=0.002), "batch ÷ step"
    assert told[8192] == "–", "it ran out"
    assert [batch for batch, cell in told.items() if cell.endswith("*")] == [4096]


def _written(cells, value, share):
    numbers = map(float, re.findall(r"\d+(?:\.\d+)?", cells))
    return any(abs(number / value - 1) <= share for number in numbers)


def test_s2_13_and_43_the_row_that_ran_out_says_so_with_the_ladder(card):
    shown = card.claimed("S2-43").out
    assert rows(shown)[1][8192][-1] == "OOM"
    told = words(shown)
    assert "batch_size 8192: out_of_memory: CUDA out of memory" in told
    ladder = ("batch_size=4096", "grad_accumulation=2", "gradient_checkpointing=true", "a smaller model (less depth")
    places = [told.index(rung) for rung in ladder]
    assert places == sorted(places)


def test_s2_24_to_26_the_three_blocks_say_what_the_seed_says(card):
    printed = PRINTED.read_text(encoding="utf-8")
    told = words(card.claimed("S2-26").out)
    highest, efficient, best = (
        told.index(f"{block}: batch_size 4096, num_workers 4, precision bf16")
        for block in ("Highest throughput", "Best efficiency", "Recommended for training")
    )
    assert "GPU Memory:     27.85 GB (safe)" in printed
    memory = f"{27.85 * GB / 2**30:.1f} GiB"
    assert re.match(rf".{{50,90}}4,44[5-9] sequences/s ±[\d.]+ %, memory {memory} \(34\.8 %\)", told[highest:])
    assert "GPU Util:       93.8%" in printed
    assert f"memory {memory} (34.8 %, usual: 60 to 80 %): safe, utilization 93.8 % (usual: 70 to 95 %)" in told[best:]
    fast = [line for line in lines() if line.rate >= 0.95 * 4447.8]
    assert [line.batch for line in fast] == [4096], "2,048 is efficient, and more than 5 % slower"
    assert f"{4447.8 / 27.85:.3g} sequences/s per GB" in told[efficient:]


def test_s2_21_31_and_42_json_says_how_full_the_memory_is_and_how_long_an_epoch_takes(card):
    document = card.type("torchstone show card --json").document
    cases = {case["configuration"]["batch_size"]: case["estimates"] for case in document["cases"]}
    for line in lines()[:-1]:
        got = {name: estimate["value"] for name, estimate in cases[line.batch].items()}
        assert got["throughput"] == pytest.approx(line.rate, rel=0.002), "batch ÷ step"
        assert got["epoch_time_s"] == pytest.approx(178_000 / line.rate, rel=0.002)
        assert got["device_utilization"] == pytest.approx(line.percent / 100)
        assert got["peak_reserved_bytes"] == pytest.approx(line.memory_gb * GB)
    said = [one["seen"] for one in document["advice"] if one["about"] == "memory"]
    told = [[one["text"] for one in seen] for seen in said]
    assert [
        "peak memory is 34.8 % of the device's, less than the usual 60 to 80 %",
        "batch_size 8192 ran out of memory",
    ] in told
    assert {"batch_size": 8192} in [one["values"] for seen in said for one in seen if one["id"] == "ran_out"]


def test_s2_35_ratios_are_those_of_the_printed_rates(card):
    rates = {line.batch: line.rate for line in lines()}
    ratios = {batch: rates[batch] / rates[128] for batch in MIDDLE[1:]}
    assert {batch: int(10 * ratio) / 10 for batch, ratio in ratios.items()} == {1024: 2.5, 4096: 3.1}
    told = words(card.claimed("S2-35").out)
    written = re.search(r"speed-up over batch_size 128 \(1,39\d sequences/s\): 1024: ([\d.]+)×, 4096: ([\d.]+)×", told)
    assert written
    assert [float(text) for text in written.groups()] == [round(ratios[1024], 1), round(ratios[4096], 1)]


def test_s2_34_a_card_that_is_used_15_percent_is_told_with_the_causes(card):
    told = words(card.claimed("S2-34").out)
    said = "the device is in use 15 % of the time, less than the usual 70 %"
    assert said in told
    assert told.count(said) == 1
    assert "the step waits for the loader" in told, "14 % of the step: the seed's first cause"
    assert "Causes: batch too small, launches and synchronisation" in told, "its second"
    assert re.search(r"Try: a larger batch; .*num_workers=8", told)


def test_s2_28_29_and_33_computing_is_told_with_its_causes_and_remedies(card):
    told = words(card.claimed("S2-28").out)
    assert "forward is 40 % of the step" in told
    assert "backward is 56 % of the step" in told
    assert "Causes: complex model, large batch, inefficient operations, complex graph of the backward pass" in told
    for remedy in ("compile=default", "gradient_checkpointing=true", "a lighter model"):
        assert remedy in told
    assert "data is 4 %" not in told, "36 ms, and no bottleneck: the share decides"


def test_s2_44_and_49_the_questions_and_the_checklist_are_in_the_report_of_the_record(card):
    said = card.claimed("S2-44").out
    assert "from its record alone" in words(said)
    written = re.search(r"\S+performance_report\.md", said)
    assert written
    report = (card.folder / written[0]).read_text(encoding="utf-8")
    assert "is the I/O time high? no, 4 % of the step" in report
    assert "is the utilization low? no, 94 % (usual: 70 to 95 %)" in report
    assert "are forward and backward slow? yes, 96 % of the step → mixed precision (AMP), if they are" in report
    for item in (
        "[x] it was measured", "[x] batch sizes compared: 1, 2, 4, 8, 16", "[ ] num_workers compared: 4",
        "[x] precision chosen: bf16", "peak memory 34.8 % of the device's, less than the usual 60 to 80 %",
        "[x] throughput known: 4,4",
    ):  # fmt: skip
        assert item in report, item
