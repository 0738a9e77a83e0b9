"""What `check` says: a verdict for each case, the worst first, and each finding once with the cases it concerns."""

from pathlib import Path

from build import a_case, a_finding, a_run, a_sweep

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.trial import Status
from torchstone.report.document import Document, Doubt, Role, Section, Table, Text
from torchstone.report.documents.findings import check_document
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of

SIZES = (2, 4, 8)


def finding(size, message="0.50 s of 2 s lost", severity=Severity.WARNING, check="steal") -> Finding:
    (case,) = a_sweep([({"batch_size": size}, 0.01)]).head.plan.cases
    return a_finding(check, severity, message, "measure again", case.case_id)


def summary(*findings: Finding, sizes=SIZES, **about) -> RunSummary:
    run = a_sweep([({"batch_size": size}, 0.01) for size in sizes], findings=findings, **about)
    return summarize(entry_of(run, Path("records/x.jsonl")))


def table(told: Document) -> list[tuple[str, ...]]:
    (found,) = [part for part in told.parts if isinstance(part, Table)]
    return list(zip(*(column.cells for column in found.columns), strict=True))


def doubts(told: Document) -> list[Doubt]:
    return [part for part in told.parts if isinstance(part, Doubt)]


def test_the_verdicts_with_the_worst_first():
    told = check_document([summary(finding(4), finding(8, severity=Severity.ERROR, check="nan_loss"))])
    assert told.headline == "test: run 20261121-100000-abcd, x.jsonl: 1 INVALID, 1 SUSPECT, 1 VALID"
    assert table(told) == [
        ("INVALID", "train cnn, batch_size 8", "nan_loss"),
        ("SUSPECT", "train cnn, batch_size 4", "steal"),
        ("VALID", "train cnn, batch_size 2", ""),
    ]
    assert [(one.severity, one.subject) for one in doubts(told)] == [
        (Severity.ERROR, "nan_loss: train cnn, batch_size 8"), (Severity.WARNING, "steal: train cnn, batch_size 4"),
    ]  # fmt: skip


def test_messages_that_differ_in_their_numbers_are_one_and_each_is_there_where_all_is_asked_for():
    told = check_document([summary(finding(2), finding(4, "0.75 s of 2 s lost"))])
    (one,) = doubts(told)
    assert (one.severity, one.subject) == (Severity.WARNING, "steal: train cnn, batch_size 2 and 1 more")
    assert (one.message, one.advice) == ("0.50 s of 2 s lost", "measure again")
    assert "0.75 s" not in terminal(told, 120)
    assert "each finding with its own numbers: --full\n" in terminal(told, 120)
    assert "steal: train cnn, batch_size 4: 0.75 s of 2 s lost" in terminal(told, 120, every=True)


def test_a_finding_of_all_cases_and_one_of_the_run_say_so():
    of_run = a_finding("other_heap", Severity.INFO, "another heap", "none", "run")
    told = check_document([summary(*map(finding, SIZES), of_run)])
    assert [one.subject for one in doubts(told)] == ["steal: all 3 cases", "other_heap: run"]
    (both,) = doubts(check_document([summary(finding(2), finding(4), sizes=(2, 4))]))
    assert both.subject == "steal: both cases"


def test_a_case_of_which_no_trial_ended_well_says_so():
    told = check_document([summary(status={1: Status.CRASHED})])
    assert table(told)[0] == ("INVALID", "train cnn, batch_size 4", "no successful trial")


def test_many_cases_are_cut_and_full_has_all():
    told = check_document([summary(sizes=tuple(range(1, 15)))])
    text, whole = terminal(told, 120), terminal(told, 120, every=True)
    assert "and 2 more: --full\n" in text
    assert "batch_size 14" not in text
    assert "batch_size 14" in whole
    assert "--full" not in whole


def test_several_runs_begin_with_how_many_of_all():
    told = check_document([summary(finding(2)), summary()])
    assert told.headline == "2 runs: 1 SUSPECT, 5 VALID"
    runs = [part for part in told.parts if isinstance(part, Section)]
    answers = [run.parts[0] for run in runs]
    assert answers[1] == Text("test: run 20261121-100000-abcd, x.jsonl: 3 VALID", Role.HEADLINE)
    assert "**2 runs: 1 SUSPECT, 5 VALID**" in markdown(told)


def test_a_run_without_cases_and_no_run_at_all():
    empty = summarize(entry_of(a_run([], cases=[]), Path("x")))
    assert check_document([empty]).parts == (
        Text("test: run 20261121-100000-abcd, x: no cases", Role.HEADLINE),
    )  # fmt: skip
    assert check_document([]).parts == ()


def test_a_stranger_s_text_steers_no_terminal():
    evil = a_case({"batch_size": 4}, model="net:\x1b[31m")
    run = a_run([], cases=[evil], findings=(a_finding("x", Severity.ERROR, "m\x1b[2J", "a\x1b", evil.case_id),))
    told = check_document([summarize(entry_of(run, Path("x\x1b.jsonl")))])
    assert "\x1b" not in terminal(told, 120)
    assert "\x1b" not in markdown(told)
