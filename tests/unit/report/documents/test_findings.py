"""What failed and what to doubt: one line a way to fail, one Doubt a check, and with all every one of them."""

from pathlib import Path

from build import a_finding, a_sweep

from torchstone.analysis.summary import summarize
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.trial import Status
from torchstone.report.document import Document, Doubt, Section
from torchstone.report.documents.findings import finding_parts, labels
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of

LOADER = {"feed": "loader", "precision": "bf16"}
POINTS = [({"num_workers": w, "batch_size": b, **LOADER}, 0.02 + 1e-3 * b) for w in (2, 0) for b in (8, 64, 512)]


def summary(points=POINTS, **settings):
    return summarize(entry_of(a_sweep(points, **settings), Path("x")))


def found(check, severity, place, message="it drifts"):
    return a_finding(check, severity, message, "wait", summary().cases[place].case_id)


def test_failures_that_differ_in_numbers_only_share_a_line():
    run = summary(status={3: Status.OUT_OF_MEMORY, 4: Status.OUT_OF_MEMORY, 5: Status.TIMED_OUT})
    assert terminal(Document("", tuple(finding_parts(run))), 100).splitlines() == [
        "train cnn, num_workers 0, batch_size 8 (and 1 more): out_of_memory: it took 8 GiB of 80",
        "train cnn, num_workers 0, batch_size 512: timed_out: it took 512 GiB of 80",
    ]
    assert len(tuple(finding_parts(run, every=True))) == 3
    assert len(set(labels(run.cases).values())) == len(run.cases)


def test_one_check_is_one_doubt_and_errors_come_first():
    seen = [found("drift", Severity.WARNING, place) for place in (0, 1)]
    run = summary(findings=(*seen, found("nan", Severity.ERROR, 2, "it is NaN"), found("told", Severity.INFO, 3)))
    error, warning = finding_parts(run)
    nan = "nan: train cnn, num_workers 2, batch_size 512"
    assert error == Doubt(Severity.ERROR, nan, "it is NaN", "wait", run.cases[2].findings[0])
    both = "drift: train cnn, num_workers 2, batch_size 8 and 1 more"
    assert warning == Doubt(Severity.WARNING, both, "it drifts", "wait", run.cases[0].findings[0])
    every = tuple(finding_parts(run, every=True))
    assert [part.severity for part in every if isinstance(part, Doubt)] == ["error", "warning", "warning", "info"]
    shown = terminal(Document("", every), 100)
    assert "warning drift: train cnn, num_workers 2, batch_size 64: it drifts; wait\n" in shown
    assert "note: told: train cnn, num_workers 0, batch_size 8: it drifts; wait\n" in shown


def test_more_than_eight_are_folded_and_none_is_lost():
    findings = tuple(found(f"check_{n}", Severity.WARNING, 0, f"the {'x' * n}th thing") for n in range(1, 12))
    parts = tuple(finding_parts(summary(findings=findings)))
    assert sum(isinstance(part, Doubt) for part in parts) == 8
    *_, rest = parts
    assert isinstance(rest, Section)
    assert (rest.title, rest.folded, len(rest.parts)) == ("3 more findings", True, 3)
    assert not any(isinstance(part, Section) for part in finding_parts(summary(findings=findings), every=True))


def test_of_the_run_itself_it_is_called_run():
    busy = a_finding("host", Severity.WARNING, "busy", "wait", "run")
    (doubt,) = finding_parts(summary(findings=(busy,)))
    assert doubt == Doubt(Severity.WARNING, "host: run", "busy", "wait", busy)


def test_reasons_and_figures_of_a_check_are_kinds_of_their_own_and_numbers_are_not():
    cases = summary().cases

    def shown(*seen):
        findings = [
            Finding("drift", Severity.WARNING, cases[place].case_id, values, reason)
            for place, (reason, values) in enumerate(seen)
        ]
        return [p.subject for p in finding_parts(summary(findings=findings)) if isinstance(p, Doubt)]

    assert len(shown(("slower", {"change": 0.1}), ("slower", {"change": 0.2}))) == 1
    assert len(shown(("slower", {"change": 0.1}), ("faster", {"change": 0.1}))) == 2
    assert len(shown(("slower", {"figure": "a"}), ("slower", {"figure": "b"}))) == 2


def test_what_differs_in_its_numbers_only_is_told_once_where_more_than_a_dozen_cases_have_it():
    points = [({"batch_size": size}, 0.02) for size in range(1, 14)]
    run = summary(points)

    def of(count):
        told = [
            a_finding("load", Severity.WARNING, f"{n}.5 cores were busy", "stop them", run.cases[n].case_id)
            for n in range(count)
        ]
        parts = finding_parts(summary(points, findings=told), every=True)
        return [part.subject for part in parts if isinstance(part, Doubt)]

    assert len(of(12)) == 12
    assert of(13) == ["load: all 13 cases"]
