"""Histories as a Document: the answer, each change with what changed with it, the quiet ones in a table, every run."""

import msgspec
from compared_results import a_history
from compared_results import histories as document

from torchstone.analysis.recommend.case_history import Changed
from torchstone.report.document import Chart, CommandLine, Document, Fields, Role, Section, Table, Text
from torchstone.report.documents.history import CHANGED, LEFT_OUT, Requested
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.index import Problem


def test_a_change_with_what_changed_with_it():
    text = terminal(document(a_history()), 120)
    times = "0.900 [0.880, 0.920] times the level before"
    first, _, head, cause, line, *_ = text.splitlines()
    assert first == f"throughput: worse since 2026-11-05 (run run04), {times}."
    assert head == "train hf:bert, batch_size 8 on Intel Xeon, host desk (case c0ffee123456)"
    assert cause == "  with it changed: torch 2.12.0 → 2.13.0"
    assert CHANGED in line
    assert line.endswith("8 runs, 2026-11-01 to 2026-11-08, ±1.0 % from run to run")
    assert text.count(times) == 1
    both = terminal(document(a_history(), a_history(host="other")), 120)
    said = "throughput: worse in 2 of 2 cases, since 2026-11-05 (run run04), with torch 2.12.0 → 2.13.0"
    assert " ".join(both.split()).startswith(f"{said}, and nothing else that is recorded; {times}.")
    rows = [line for line in both.splitlines() if line.startswith("batch_size 8")]
    assert [("0.900 [0.880, 0.920]" in row, CHANGED in row) for row in rows] == [(True, True)] * 2
    every = terminal(document(a_history(), a_history(host="other")), 120, every=True)
    assert every.count(f"2026-11-05 WORSE: {times}, from run run04 on\n") == 2


def test_where_nothing_that_is_recorded_changed_that_is_said():
    text = terminal(document(a_history(())), 120)
    assert "  nothing that is recorded changed with it: the machine itself, or what else ran on it\n" in text


def test_the_levels_are_a_table_with_their_intervals():
    section, pictures = (part for part in document(a_history()).parts if isinstance(part, Section))
    assert [part.name for part in pictures.parts if isinstance(part, Chart)] == ["history"]
    (levels,) = [part for part in section.parts if isinstance(part, Table)]
    cells = {column.title: column.cells for column in levels.columns}
    assert cells["level"] == ("1", "2")
    assert cells["since"] == ("2026-11-01", "2026-11-05")
    assert cells["from run"] == ("run00", "run04")
    assert cells["throughput"] == ("100.0 items/s", "90.00 items/s")
    assert cells["±"] == ("±1.0 %", "±1.1 %")


def test_much_that_changed_is_folded():
    many = [Changed(f"library{n}", "1", "2", throughout=n < 8) for n in range(10)]
    text, whole = (terminal(document(a_history(many)), 160, every=every) for every in (False, True))
    assert "with it changed: library0 1 → 2; library1 1 → 2; " in text
    assert "library7" not in text
    assert "library8" not in text, "there is better"
    assert "changed there, and elsewhere too: library8 1 → 2; library9 1 → 2\n" in whole
    assert "library7 1 → 2" in whole
    assert "--full" not in whole


def test_every_run_is_there_where_all_is_asked_for():
    told = document(a_history(left_out=(2,)))
    text, whole = terminal(told, 120), terminal(told, 120, every=True)
    assert "each run: --full\n" in text
    assert "run02" not in text
    assert f"left out ({LEFT_OUT}): 1 SUSPECT: neighbours; --suspect counts them" in text
    for run in range(8):
        assert f"run{run:02d}" in whole
    assert "2026-11-03 10:00" in whole
    assert whole.count("SUSPECT: neighbours") == 2, "with its run, and counted"


def test_a_few_quiet_ones_are_told_at_length():
    text = terminal(document(a_history(None), a_history(None, count=3)), 120)
    assert text.startswith("throughput: none of 2 cases changed.\n")
    assert "no significant change\n" in text
    assert "too few to see a change: 3 more runs of this case (6 are the fewest)\n" in text


def test_many_quiet_ones_are_a_table_and_at_length_where_all_is_asked_for():
    quiet = [a_history(None, count=3, configuration={"batch_size": 2**n, "compile": "on"}) for n in range(22)]
    told = document(a_history(), *quiet)
    text, whole = terminal(told, 120), terminal(told, 120, every=True)
    assert "no change seen\n" in text
    assert "  batch_size 4 " in text, "what all have is not what sets one apart"
    assert "and 2 more: --full, or name a case or a model\n" in text
    assert "a change is looked for in cases with 6 runs or more on one machine\n" in text
    assert text.count("too few to see a change") == 0
    assert whole.count("too few to see a change") == 22
    assert "host" not in [column.title for column in tables(told)[-1].columns], "all of one machine"
    other = document(a_history(), *quiet[:3], a_history(None, host="gpubox"))
    assert "gpubox" in next(column.cells for column in tables(other)[-1].columns if column.title == "host")


def tables(told: Document) -> list[Table]:
    """The tables that are not folded."""
    sections = [part for part in told.parts if isinstance(part, Section)]
    return [part for section in sections for part in section.parts if isinstance(part, Table)]


def test_an_empty_store_and_a_figure_that_no_case_has():
    assert document(runs=0).parts == (
        Text("nothing is stored. Make a first run:", Role.HEADLINE), CommandLine("torchstone run demo"),
    )  # fmt: skip
    assert document(runs=1).headline == "1 run stored, none with a case that has the figure throughput"


def test_what_a_gate_says_follows_the_answer_and_files_come_last():
    requested = Requested(["a.svg", "b.jsonl"], 1, "SUSPECT: steal (--suspect counts them)", 1, 0.05)
    _, gate, lacking, *_, files = document(a_history(), requested=requested).parts
    assert files == Fields((("written", "a.svg"), ("written", "b.jsonl")))
    assert lacking == Text("not in the reference: 1 of 1 cases, SUSPECT: steal (--suspect counts them)")
    assert gate == Text("1 of 1 cases: the newest level is worse by more than 5 %")
    _, gate, *_ = document(a_history(), requested=Requested(worse=1)).parts
    assert gate == Text("1 of 1 cases: the newest level is worse than the one before")


def test_a_stranger_s_text_steers_neither_terminal_nor_page():
    evil = msgspec.structs.replace(a_history(), host="h\x1bst|", device="card\x1b[31m")
    told = document(evil, problems=(Problem("junk\x1b.jsonl", "x|y"),))
    assert "\x1b" not in terminal(told, 120, every=True)
    assert "\x1b" not in markdown(told)
    assert "unreadable: junk" in terminal(told, 120)
