"""The table of a sweep, what to choose of it, and the notes: as a terminal shows them, at several widths."""

import re
from pathlib import Path

import pytest
from build import a_case, a_finding, a_sweep
from stored import a_stored_run, machine, store

from torchstone.analysis.summary import summarize
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.trial import Status
from torchstone.report.document import Document, Part, Table
from torchstone.report.documents.case_table import case_parts, choices_of_groups
from torchstone.report.documents.run import note_parts
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of, find

PHASES = {"data": 0.3, "transfer": 0.02, "forward": 0.25, "backward": 0.35, "optimizer": 0.05, "rest": 0.03}
LOADER = {"feed": "loader", "precision": "bf16", "pin_memory": False, "compile": "off"}
POINTS = [
    ({"num_workers": w, "batch_size": b, **LOADER}, 0.02 + 1e-3 * b / (w + 1)) for w in (2, 0) for b in (8, 64, 512)
]


def summary(points=POINTS, **settings):
    return summarize(entry_of(a_sweep(points, **settings), Path("x")))


def drawn(run, width=160, *, every=False):
    parts: tuple[Part, ...] = (*case_parts(run), *choices_of_groups(run), *note_parts(run, every=every))
    return terminal(Document("", parts), width, every=every)


def unindented(text):
    """The text without the indent of what stands under the title of a section."""
    return re.sub(r"(?m)^  (?=  |[A-Z])", "", text)


def rows(text):
    table = re.search(r"─\n((?: .*\n)+)", text)
    assert table
    return table[1].splitlines()


@pytest.fixture
def shown():
    return drawn(summary(phases=PHASES, status={5: Status.OUT_OF_MEMORY}))


def test_rows_are_sorted_by_the_axes_in_the_users_order(shown):
    assert [tuple(map(int, row.split()[:2])) for row in rows(shown)] == [(w, b) for w in (0, 2) for b in (8, 64, 512)]


def test_of_many_cases_the_fastest_are_shown_and_all_behind_full():
    many = summary([({"num_workers": 0, "batch_size": b, **LOADER}, 0.02 + 1e-3 * b) for b in range(1, 41)])
    shown = drawn(many)
    assert [int(row.split()[0]) for row in rows(shown)] == list(range(40, 16, -1))
    assert "and 16 more: --full" in shown
    assert len(rows(drawn(many, every=True))) == 40


def test_s2_23_every_phase_has_its_column_in_milliseconds_and_the_status_its_word(shown):
    header = shown[: shown.index("───")].replace("\n", " ")
    for word in (
        "data",
        "transfer",
        "forward",
        "backward",
        "optimizer",
        "rest",
        "step",
        "throughput",
        "±",
        "device",
        "status",
    ):
        assert word in header
    first = rows(shown)[0].split()
    assert first[:9] == ["0", "8", "8.40", "0.560", "7.00", "9.80", "1.40", "0.840", "28.0"]
    assert first[-1] == "ok"
    assert rows(shown)[2].split()[-1] == "OOM"


def test_best_values_are_marked_without_colour(shown):
    assert shown.count("2,685*") == 1, "the highest throughput"
    assert sum("76.3 MiB*" in row or "76.3 MiB=" in row for row in rows(shown)) == 2, "the lowest memory, twice"
    assert shown.count("524*") == 1, "the most efficient of those near the top, not the smallest batch"


def test_a_narrow_table_keeps_the_answer_and_the_status():
    text = drawn(summary(phases=PHASES), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "2,685*" in text
    assert rows(text)[0].split()[-1] == "ok"
    assert text.endswith("\nmore columns in a wider terminal\n")
    assert "forward ms" in drawn(summary(phases=PHASES), 80, every=True)
    assert "±," not in text


def test_s2_24_to_26_the_three_blocks():
    blocks = unindented(drawn(summary()))
    highest = blocks[blocks.index("Highest throughput: num_workers 2, batch_size 512, precision bf16") :]
    assert re.search(r"Highest.*\n  2,685 images/s ±1\.5 %, memory 4\.77 GiB \(6\.4 %\)\n", highest)
    assert re.search(r"Best efficiency: .*batch_size 512.*\n  524 images/s per GB", blocks)
    assert re.search(r"Recommended for training: .*\n.* 4\.77 GiB \(6\.4 %, usual: 60 to 80 %\): safe\n", blocks)
    assert "Pareto front, batch_size: 8: 35" in blocks
    assert re.search(r"with num_workers 2, speed-up over batch_size 8 \(353 images/s\): 64: 4\.4×, 512: 7\.6×", blocks)


def test_s2_20_and_26_utilization_stands_in_the_table_and_in_the_recommendation():
    text = drawn(summary(phases=PHASES, utilization=0.938))
    titles = text[: text.index("───")].splitlines()[-2:]
    place = titles[1].index("utilization") + len("utilization")
    assert titles[0][:place].endswith("device")
    assert all(row[:place].endswith(" 93.8 %") for row in rows(text)), "under its title"
    assert re.search(
        r"Recommended for training: .*\n.*: safe, utilization 93\.8 % \(usual: 70 to 95 %\)\n", unindented(text)
    )
    assert "utilization" not in drawn(summary(phases=PHASES)), "no gauge: nothing, never 0"


def test_s2_34_a_card_that_is_not_filled_is_told_under_the_table():
    text = " ".join(drawn(summary(phases={"forward": 0.6, "backward": 0.4}, utilization=0.5)).split())
    assert "note: the device is in use 50 % of the time, less than the usual 70 %; data is 0 % of the step" in text
    assert "Causes: batch too small" in text


def test_s2_21_one_case_is_told_how_full_the_memory_is():
    text = drawn(summary(POINTS[:1]))
    assert "note: peak memory is 0.1 % of the device's, less than the usual 60 to 80 %" in text


def test_s2_35_noise_is_not_called_faster():
    same = [({"batch_size": b, **LOADER, "num_workers": 0}, 0.01 * b) for b in (1, 2, 4)]
    text = drawn(summary(same, spread=0.1))
    assert "not significantly different" in text
    assert re.search(r"speed-up over batch_size 1 \(10\d images/s\): 2: not significant, 4: not significant", text)
    assert "Recommended for training: batch_size 1," in text, "the smallest memory of what is the same"
    assert "not significantly slower than the highest" in text or "Highest throughput: batch_size 1," in text


def test_a_tight_choice_says_so_and_nothing_doubtful_is_chosen():
    points = [({"batch_size": b, **LOADER, "num_workers": 0}, 0.02) for b in (8, 64, 7600)]
    probe = summary(points)
    tight = unindented(drawn(probe))
    assert re.search(r"Highest throughput: batch_size 7600.*\n.*, memory 70\.8 GiB \(95\.0 %\)", tight)
    assert re.search(r"Recommended for training: batch_size 64,.*\n.*: safe\n.*the fastest that leaves a tenth", tight)
    doubt = a_finding("drift", Severity.WARNING, "it drifts", "wait", probe.cases[2].case_id)
    text = drawn(summary(points, findings=(doubt,)))
    assert rows(text)[2].split()[-1] == "SUSPECT"
    assert "*" not in rows(text)[2]
    assert re.search(r"Highest throughput: batch_size 64,", text), "the one in doubt may be faster, or not"
    assert "7600" not in text[text.index("Highest throughput") :], "nor does a note rest on it"


def test_phases_of_a_pass_with_other_steps_are_called_rough():
    def noted(of_the_step):
        shares = {"forward": 0.5 * of_the_step, "backward": 0.5 * of_the_step}
        run = summary([({"batch_size": 8, "feed": "resident"}, 0.03)], phases=shares)
        return [part.text for part in note_parts(run)]

    assert any(
        "the steps with phases took 10.0 ms, the others 30.0 ms: the shares are rough" in n for n in noted(1 / 3)
    )
    assert not any("shares are rough" in text for text in noted(1.1))


def test_full_reads_every_curve_and_every_case():
    short, full = (drawn(summary(phases=PHASES), every=every) for every in (False, True))
    assert short.count("speed-up over") == 1
    assert full.count("speed-up over") == 2
    assert "note: num_workers 0, batch_size 8: forward is 25 % of the step" in full
    assert "num_workers=4,8" in short, "the phases of the recommended case, with the remedy"


def test_one_case_has_no_blocks():
    text = drawn(summary(POINTS[:1]))
    assert "Highest" not in text
    assert "*" not in text


def test_the_document_knows_no_terminal():
    """What a renderer lays out is whole there: no line breaks, no padding, every column whatever the width."""
    (told,) = case_parts(summary(phases=PHASES, status={5: Status.OUT_OF_MEMORY}))
    assert told.title == "train net:cnn on cuda:0, data synthetic"
    (table,) = (part for part in told.parts if isinstance(part, Table))
    titles = [column.title for column in table.columns]
    assert {"num workers", "batch size", "transfer ms", "throughput images/s", "items/s per GB"} <= set(titles)
    assert all(text == text.strip() and "\n" not in text for c in table.columns for text in (c.title, *c.cells))
    around = [column for column in table.columns if column.title == "±"]
    assert [table.columns[column.of or 0].title for column in around] == ["throughput images/s"]
    empty = [c.title for c in table.columns if not any(cell not in ("", "–") for cell in c.cells)]
    assert empty == [], "what was not measured of any case has no column"
    (choices,) = choices_of_groups(summary(phases=PHASES))
    assert len(choices.parts) > 5


def test_a_failed_case_has_the_word_of_its_end_as_status():
    ends = {3: Status.OUT_OF_MEMORY, 4: Status.OUT_OF_MEMORY, 5: Status.TIMED_OUT}
    assert [row.split()[-1] for row in rows(drawn(summary(status=ends)))[:3]] == ["OOM", "OOM", "timeout"]


def test_a_setting_that_is_not_the_default_stands_above_the_table():
    """Two runs that differ in it alone must not look alike; a default, and a rate that changes no speed, is noise."""
    asked = {"precision": "fp32", "threads": 1, "fused": "auto", "learning_rate": 0.5, "gradient_checkpointing": True}
    points = [({"batch_size": b, "feed": "resident", **asked}, 0.01 * b) for b in (8, 64)]
    above = drawn(summary(points)).splitlines()[1]
    assert above.startswith("  precision fp32, threads 1, gradient_checkpointing true, feed resident")


def test_axes_of_one_workload_are_columns_and_what_is_fixed_stands_above():
    lines = drawn(summary(), 160).splitlines()
    assert lines[0] == "train net:cnn on cuda:0, data synthetic"
    assert lines[1] == "  precision bf16, compile off, feed loader"


def test_of_a_training_of_single_items_the_larger_batch_comes_first_and_the_largest_phase_after_it():
    phases = {"data": 0.2, "forward": 0.2, "backward": 0.2, "optimizer": 0.4}
    notes = [text.text for text in note_parts(summary([({"batch_size": 1}, 0.1)], phases=phases))]
    first, largest, *memory = notes
    assert first.startswith("batch_size is 1, and no larger one was measured")
    assert largest.startswith("optimizer is 40 % of the step (40.0 ms)")
    assert all(note.startswith("peak memory") for note in memory)


def test_the_rows_of_a_program_say_which_setting_was_tried(tmp_path):
    """Its first case has no settings: what the others set is a column of its own, a dash where it is as it is."""
    cases = [a_case(settings, model="program:python train.py") for settings in ({}, {"num_workers": 7})]
    store(tmp_path, [a_stored_run(1, [(case, 100.0 * n) for n, case in enumerate(cases, 1)], machine())])
    (section,) = case_parts(summarize(find(tmp_path, "latest")))
    table = next(part for part in section.parts if isinstance(part, Table))
    columns = {column.title: sorted(column.cells) for column in table.columns}
    assert columns["num workers"] == ["7", "–"]
