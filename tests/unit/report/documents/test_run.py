"""A run as a whole: what stands in which order, where its files are, and which Cases are no results."""

from pathlib import Path

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_sweep, a_trial

from torchstone.analysis.summary import summarize
from torchstone.core.schema.facts import SettingFact
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Purpose, Status
from torchstone.report.document import Fields, Role, Section, Text
from torchstone.report.documents.run import measured_document, run_document, run_parts, without_probes
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of
from torchstone.workflows.run.planned_run import Results

POINTS = [({"batch_size": size}, 0.02 + 1e-3 * size) for size in (8, 64, 512)]
TOLD = {"settings": {"threads": SettingFact("4", "device", {"why": "the physical cores"})}}


def summary(run):
    return summarize(entry_of(run, Path("outputs/records/x.jsonl")))


def head(**settings):
    """On which machine, which run it is, and how it was measured."""
    *parts, rest = run_parts(summary(a_run(**settings)))
    assert isinstance(rest, Section)
    shown, told = ([one.text for one in some if isinstance(one, Text) and one.role == Role.BODY]
                   for some in (parts, rest.parts))  # fmt: skip
    return [shown[-1], *told, ""][:3]


def test_the_answer_then_the_run_its_table_what_to_doubt_and_the_settings():
    run = a_run([a_trial(facts=TOLD)])
    told = run_document(summary(run))
    assert told.title == "test"
    assert told.headline is not None
    assert told.headline.startswith("1,495 images/s (one trial: no interval)")
    assert [type(part).__name__ for part in told.parts] == ["Text", "Section", "Text", "Section"]
    table, rest = (part for part in told.parts if isinstance(part, Section))
    assert table.title == "train net:cnn on cpu, data synthetic"
    assert (rest.title, rest.folded) == ("everything else", True)
    assert rest.how == "torchstone show 20261121-100000-abcd --full"
    (settings,) = (part for part in rest.parts if isinstance(part, Section))
    assert settings.title.startswith("settings: ")


def test_all_of_it_has_the_report_at_its_end():
    short, full = (run_document(summary(a_run()), every=every) for every in (False, True))
    assert full.parts[: len(short.parts)] == short.parts
    (report,) = full.parts[len(short.parts) :]
    assert isinstance(report, Section)
    assert report.title == "BENCHMARK REPORT: test"


def test_a_run_that_has_just_ended_says_where_its_files_are():
    run = summary(a_run())
    *_, rest = measured_document(Results(run, Path("a.json"), Path("b.csv"), 0)).parts
    assert isinstance(rest, Section)
    files = (("record", "outputs/records/x.jsonl"), ("document", "a.json"), ("table", "b.csv"))
    assert rest.parts[-1] == Fields(files)


def test_a_run_of_six_cases_is_told_in_25_lines():
    points = [({"num_workers": workers, **point}, step_s) for workers in (0, 2) for point, step_s in POINTS]
    phases = {"data": 0.1, "forward": 0.4, "backward": 0.4, "optimizer": 0.1}
    run = summary(a_sweep(points, phases=phases))
    shown = terminal(measured_document(Results(run, Path("a.json"), Path("b.csv"), 0)), 80).splitlines()
    assert len(run.cases) == 6
    assert len(shown) <= 25
    assert shown[0].startswith("Fastest: num_workers ")
    assert shown[-2] == f"everything else: torchstone show {run.run_id} --full"


def test_its_head_is_what_ran_where_and_how_it_was_measured():
    used, unused = DeviceInfo("cpu", "cpu", "Intel", 0, "a CPU"), DeviceInfo("cuda", "cuda", "x", 0, "a card")
    assert head(machine=a_machine(devices=(used, unused))) == [
        "host, a CPU, torch 2.9.0: 3 trials a case, ± half the 95 % interval",
        "test: run 20261121-100000-abcd, 2026-11-21T10:00:00Z, done",
        "3 trials a case, at most 5 s a window, until ±1 %, auto, fixed heap",
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
    assert head(trials=trials, procedure=Procedure(trials=1, isolation="imported"))[0] == (
        "host, torch 2.9.0: 1 trial a case, measured by a script; "
        "torchstone check 20261121-100000-abcd looks for its mistakes"
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
