"""A run as a whole: what stands in which order, where its files are, and which Cases are no results."""

from pathlib import Path

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_sweep, a_trial

from torchstone.analysis.summary import summarize
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Purpose, Status
from torchstone.report.document import Command, Facts, Role, Section, Text
from torchstone.report.documents.run import measured_document, run_document, run_parts, without_probes
from torchstone.storage.query import entry_of
from torchstone.workflows.run.results import Results

POINTS = [({"batch_size": size}, 0.02 + 1e-3 * size) for size in (8, 64, 512)]
TOLD = {"setting_threads": "4: the physical cores"}


def summary(run):
    return summarize(entry_of(run, Path("outputs/records/x.jsonl")))


def head(**settings):
    """The lines below the answer."""
    texts = (part for part in run_parts(summary(a_run(**settings))) if isinstance(part, Text))
    return [text.text for text in texts if text.role == Role.BODY][:3]


def test_the_answer_then_the_run_its_table_what_to_doubt_and_the_settings():
    run = a_run([a_trial(facts=TOLD)])
    told = run_document(summary(run))
    assert told.title == "test"
    assert told.headline is not None
    assert told.headline.startswith("1,495 images/s (one trial: no interval)")
    assert [type(part).__name__ for part in told.parts] == ["Text", "Text", "Text", "Text", "Section", "Section"]
    table, settings = (part for part in told.parts if isinstance(part, Section))
    assert table.title == "train net:cnn on cpu, data synthetic"
    assert settings.title.startswith("settings: ")


def test_all_of_it_has_the_report_at_its_end():
    short, full = (run_document(summary(a_run()), every=every) for every in (False, True))
    assert full.parts[: len(short.parts)] == short.parts
    (report,) = full.parts[len(short.parts) :]
    assert isinstance(report, Section)
    assert report.title == "BENCHMARK REPORT: test"


def test_a_run_that_has_just_ended_says_where_its_files_are():
    run = summary(a_run())
    *_, files, every, command = measured_document(Results(run, Path("a.json"), Path("b.csv"), 0)).parts
    assert files == Facts((("record", "outputs/records/x.jsonl"), ("document", "a.json"), ("table", "b.csv")))
    assert (every, command) == (Text("every figure:"), Command(f"torchstone show {run.run_id} --full"))


def test_its_head_is_what_ran_where_and_how_it_was_measured():
    used, unused = DeviceInfo("cpu", "cpu", "Intel", 0, "a CPU"), DeviceInfo("cuda", "cuda", "x", 0, "a card")
    assert head(machine=a_machine(devices=(used, unused))) == [
        "test: run 20261121-100000-abcd, 2026-11-21T10:00:00Z, done",
        "host: a CPU, torch 2.9.0",
        (
            "3 trials a case, at most 5 s a window, until ±1 %, auto, fixed heap; "
            "± is half the 95 % confidence interval over trials"
        ),
    ]


@pytest.mark.parametrize(
    ("procedure", "said"),
    [
        (Procedure(trials=1), "1 trial a case, at most 5 s a window"),
        (Procedure(trials=2, target=None), "2 trials a case, at most 5 s a window, auto"),
        (Procedure(iterations=7), "3 trials a case, 7 steps"),
        (Procedure(), "3 trials a case, short windows, until ±5 %"),
        (Procedure(trials=1, epochs=2), "1 trial a case, at most 2 epochs"),
    ],
)
def test_how_long_it_was_measured(procedure, said):
    assert head(procedure=procedure)[2].startswith(said)


def test_as_many_trials_as_came_are_told_where_their_number_was_open():
    cases = (a_case(), a_case({"batch_size": 32}))
    trials = [a_trial(trial_id=f"t{n}", number=n, case_id=cases[n % 2].case_id) for n in range(5)]
    assert head(trials=trials, cases=cases, procedure=Procedure())[2].startswith("2 to 3 trials a case, short windows")
    trials = [a_trial(), a_trial(trial_id="t1", outcome=Outcome(Status.INTERRUPTED))]
    assert head(trials=trials, procedure=Procedure())[2].startswith("1 trial a case")


def test_what_another_tool_measured_says_so():
    trials = [a_trial(facts={"imported_from": "a script"})]
    assert head(trials=trials, procedure=Procedure(trials=1, isolation="imported"))[2] == (
        "1 trial a case, measured by a script; torchstone check 20261121-100000-abcd looks for its mistakes"
    )


def test_what_a_search_only_probed_is_no_result():
    run = summary(a_sweep(POINTS))
    first, *others = run.cases
    probed = tuple(msgspec.structs.replace(trial, purpose=Purpose.PROBE) for trial in first.trials)
    tuned = msgspec.structs.replace(run, cases=(msgspec.structs.replace(first, trials=probed), *others))
    assert [case.case_id for case in without_probes(tuned).cases] == [case.case_id for case in others]
    assert without_probes(run) is run
    searching = msgspec.structs.replace(run, cases=tuned.cases[:1])
    assert without_probes(searching) is searching, "of a search that was cut off, probes are all there is"


def test_a_case_that_was_not_taken_stays_in_the_table():
    run = summary(a_run([a_trial()], cases=(a_case(), a_case({"batch_size": 32}))))
    assert len(without_probes(run).cases) == 2
