"""The answer of a run, first and in words: with its interval, or with why it has none."""

import re
from pathlib import Path

import msgspec
import pytest
from build import a_case, a_finding, a_run, a_sweep, a_trial
from stored import a_stored_run, case, machine

from torchstone.analysis.advice.choices import choice_of, choose
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.quality import is_as_good
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Severity, Verdict
from torchstone.core.schema.quality import AnswerCounts, NextToken
from torchstone.core.schema.trial import Disturbance, Disturber, Measurement, Outcome, Stage, Status
from torchstone.plugins.checking import look
from torchstone.report.document import Document, Role, Section, Text
from torchstone.report.documents.case_table import choice_parts
from torchstone.report.documents.run import note_parts, run_parts
from torchstone.report.documents.run_answer import answer_lines, answer_parts
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of

LOADER = {"feed": "loader", "precision": "bf16", "num_workers": 0}
POINTS = [({"batch_size": b, **LOADER}, 0.02 + 1e-3 * b) for b in (8, 64, 512)]
ALIKE = [({"batch_size": b, **LOADER}, 0.01 * b) for b in (1, 2, 4)]


def answered(points=POINTS, **settings):
    return list(answer_lines(summarize(entry_of(a_sweep(points, **settings), Path("x")))))


def test_of_several_the_fastest_with_its_interval():
    (text,) = answered()
    assert text.startswith("Fastest: batch_size 512, 962 images/s (95 % confidence interval 9")
    assert "not significantly different" not in text


def test_what_is_tied_is_named_and_the_smaller_memory_recommended():
    (text,) = answered(ALIKE, spread=0.05)
    assert re.search(r"; not significantly different: batch_size \d(?: and batch_size \d)?\.", text)
    assert "Recommended: batch_size 1" in text or text.startswith("Fastest: batch_size 1,")


def test_one_case_has_its_rate_its_step_and_its_memory():
    (text,) = answered(POINTS[:1])
    assert text.startswith("286 images/s (95 % confidence interval 27")
    assert "28.0 ms a step of 8 images, " in text
    assert text.endswith("iB.")


def of_a_program(phases):
    case = a_case({}, model="program:python train.py")
    run = a_stored_run(1, [(case, 100.0)], machine())
    more = [
        Measurement("phase_time_s", Stage.STEADY, (share * sum(trial.values("step_time_s")),), "throughput", name)
        for trial in run.trials[:1]
        for name, share in phases.items()
    ]
    trials = [msgspec.structs.replace(t, measurements=(*t.measurements, *more)) for t in run.trials]
    return next(answer_lines(summarize(entry_of(msgspec.structs.replace(run, trials=tuple(trials)), Path("x")))))


@pytest.mark.parametrize(
    ("phases", "part", "diagnosed"),
    [
        ({"data": 0.5, "forward": 0.2, "backward": 0.3}, "data is 50 % of the step", True),
        ({"rest": 0.6, "forward": 0.2, "backward": 0.2}, "rest is 60 % of the step", True),
        ({"data": 0.01, "forward": 0.4, "backward": 0.59}, "backward is 59 % of the step", False),
    ],
)
def test_of_a_program_the_answer_names_what_holds_it_back(phases, part, diagnosed):
    text = of_a_program(phases)
    assert part in text
    assert ("torchstone diagnose -- python train.py" in text) is diagnosed


def test_the_step_beside_a_rate_is_the_mean_and_a_median_far_from_it_has_a_note():
    """Nine steps of 10 ms and one of 410 ms: a neighbour held a core. 16 images in 50 ms are 320 a second."""
    steps_s = [0.01] * 9 + [0.41]
    summary = summarize(
        entry_of(a_run([a_trial(steps_s, trial_id=f"t{n}", number=n, order=n) for n in range(3)]), Path())
    )
    (text,) = answer_lines(summary)
    assert text.startswith("320 images/s (95 % confidence interval 320 to 320), 50.0 ms a step")
    (note,) = [part.text for part in note_parts(summary) if "half of the steps" in part.text]
    assert note.startswith("half of the steps take 10.0 ms or less, the mean is 50.0 ms: some are much longer")
    assert not [part for part in note_parts(summarize(entry_of(a_sweep(POINTS), Path()))) if "half of" in part.text]


def test_the_time_of_a_step_is_the_mean_that_goes_with_the_rate_and_with_the_phases():
    a_stall = [0.01] * 19 + [0.81]  # as where another process takes the core: the median does not see it
    four = a_case({"batch_size": 4})
    run = summarize(entry_of(a_run([a_trial(a_stall, items=4, case_id=four.case_id)], cases=[four]), Path("x")))
    (text,) = answer_lines(run)
    assert "80.0 images/s" in text
    assert "50.0 ms a step of 4 images" in text


def test_nothing_is_chosen_on_top_of_trials_that_differ_too_much():
    wide = summarize(entry_of(a_sweep(POINTS, spread=0.6), Path("x")))
    (text,) = answer_lines(wide)
    assert text == (
        "Which is fastest is not known: 3 trials differ too much for an interval (wider than ±50 %): --trials 10."
    )
    shown = terminal(Document("", tuple(run_parts(wide))), 160, every=True)
    assert "  Highest throughput: –\n  Recommended for training: –\n" in shown
    assert "\n…: from the lowest trial to the highest, where the interval is wider" in shown
    assert re.search(r"285\.7 +179 … 714 ", shown), "the middle trial, and in place of its interval the range"
    assert not re.search(r"1,117[*=]|218[*=]", shown)
    assert "speed-up" not in shown
    assert "±6" not in shown
    (alone,) = answered(POINTS[:1], spread=0.6)
    assert alone.startswith("About 286 images/s, 28.0 ms a step of 8 images, ")
    assert "; from 179 to 714, as 3 trials differ too much for an interval" in alone


def test_one_trial_says_that_it_has_no_interval():
    (text,) = answered(POINTS[:1], trials=1)
    assert "(one trial: no interval)" in text


def test_what_is_doubtful_is_said_at_once_and_its_cause_below_alone():
    probe = summarize(entry_of(a_sweep(POINTS[:1]), Path("x")))
    doubt = a_finding("drift", Severity.WARNING, "it drifts", "wait", probe.cases[0].case_id)
    (text,) = answered(POINTS[:1], findings=(doubt,))
    assert text.endswith(" SUSPECT.")
    (none,) = answered(POINTS[:1], status={0: Status.OUT_OF_MEMORY})
    assert none == "Nothing was measured: out_of_memory: it took 8 GiB of 80"


def doubted(*places, message="it drifts"):
    """Findings on those of POINTS."""
    cases = summarize(entry_of(a_sweep(POINTS), Path("x"))).cases
    return tuple(a_finding("drift", Severity.WARNING, message, "wait", cases[place].case_id) for place in places)


def test_nothing_is_chosen_from_what_is_in_doubt():
    (some,) = answered(findings=doubted(2))
    assert some.startswith("Fastest: batch_size 64, 762 images/s (")
    assert some.endswith(" Not compared, as SUSPECT: batch_size 512.")
    (one,) = answered(findings=doubted(1, 2))
    assert one.startswith("Only batch_size 8 is valid: 286 images/s (")
    assert one.endswith("Not compared, as SUSPECT: batch_size 64 and batch_size 512.")
    (none,) = answered(findings=doubted(0, 1, 2))
    assert none == "Which is fastest is not known. All 3 cases are SUSPECT."


def test_it_is_the_headline_and_fits():
    run = summarize(entry_of(a_sweep(ALIKE, spread=0.05), Path("x")))
    told = Document("", tuple(answer_parts(run)))
    assert told.headline is not None
    assert told.headline.startswith("Fastest: ")
    lines = terminal(told, 80).splitlines()
    assert lines[0].startswith("Fastest: ")
    assert max(map(len, lines)) <= 80


def test_of_many_workloads_the_first_are_told_at_once_and_the_others_folded():
    cases = [(case(model=f"hf:model-{n}"), 100.0 + n) for n in range(9)]
    parts = tuple(answer_parts(summarize(entry_of(a_stored_run(1, cases, machine()), Path("x")))))
    assert [part.role for part in parts[:-1] if isinstance(part, Text)] == [Role.HEADLINE] * 6
    *_, rest = parts
    assert isinstance(rest, Section)
    assert (rest.title, rest.folded, len(rest.parts)) == ("3 more workloads", True, 3)
    assert rest.how.startswith("torchstone show ")
    assert all(f"train model-{n}: " in terminal(Document("", parts), 80, every=True) for n in range(9))


def test_a_device_that_is_not_here_is_told_beside_the_answer():
    run = summarize(entry_of(a_stored_run(1, [(case("cpu"), 100.0), (case("cuda"), 100.0)], machine()), Path("x")))
    here, there = run.cases
    gone = tuple(
        msgspec.structs.replace(trial, outcome=Outcome(Status.UNSUPPORTED, "device cuda is not here: no driver"))
        for trial in there.trials
    )
    absent = msgspec.structs.replace(there, trials=gone, estimates={})
    shown = terminal(Document("", tuple(answer_parts(msgspec.structs.replace(run, cases=(here, absent))))), 100)
    assert shown.splitlines()[1] == "  cuda:0: 1 case unsupported, device cuda is not here: no driver"
    alone = terminal(Document("", tuple(answer_parts(msgspec.structs.replace(run, cases=(absent,))))), 100)
    assert alone.startswith("Nothing was measured: none of the devices is here.\n")


def test_a_run_without_a_case_says_so():
    (text,) = answer_parts(summarize(entry_of(a_run([], cases=()), Path("x"))))
    assert text == Text("Nothing was measured: no case was planned.", Role.HEADLINE)


def test_what_is_tied_is_told_by_all_settings_in_which_any_of_it_differs():
    axes = [(size, precision) for size in (1, 2) for precision in ("fp32", "bf16")]
    (text,) = answered([({"batch_size": b, "precision": p}, 0.01 * b) for b, p in axes], spread=0.05)
    assert "not significantly different: " in text
    tied = text.partition("not significantly different: ")[2].partition(".")[0].split("; ")
    assert len(tied) == 3
    assert tied[-1].startswith("and ")
    assert all(re.fullmatch(r"(and )?batch_size \d, precision \w+", one) for one in tied)


def test_how_many_disturbed_trials_are_left_out_stands_in_the_answer():
    run = a_sweep(POINTS[:1], trials=5)
    beside = Disturbance(
        disturbed=True, share=1.0, causes=(Disturber.PROCESSES,), cores=0.8, processes=(("make", 0.8),)
    )
    quiet = Disturbance(disturbed=False, share=0.0)
    trials = [
        msgspec.structs.replace(trial, disturbance=quiet if place else beside) for place, trial in enumerate(run.trials)
    ]
    run = msgspec.structs.replace(run, trials=tuple(trials))
    run = msgspec.structs.replace(run, findings=tuple(look(run)))
    (text,) = answer_lines(summarize(entry_of(run, Path("x"))))
    assert text.endswith(" 1 of 5 trials left out: other programs (make) used up to 0.8 CPU cores.")


def of_formats(answers: AnswerCounts | None, error: float | None = 0.01) -> RunSummary:
    """A run of fp32 and of int8, which is twice as fast and answers items so. `error`: None: nothing was compared."""
    exact, narrow = (a_case({"quantization": word}, task=Task.INFER) for word in ("none", "int8-dynamic"))
    trials = []
    for n in range(3):
        steps_s = [0.02 * (1.0 + 0.01 * n)] * 20
        trials.append(a_trial(steps_s, case_id=exact.case_id, trial_id=f"a{n}", number=n, order=n))
        facts, setup = {"answers": None if n else answers}, {"relative_output_error": [error]} if error else {}
        twice = [step_s / 2 for step_s in steps_s]
        own = a_trial(twice, case_id=narrow.case_id, trial_id=f"b{n}", number=n, order=n, facts=facts, setup=setup)
        trials.append(own)
    return summarize(entry_of(a_run(trials, cases=[exact, narrow]), Path("x")))


def texts(items, more_nats, error_nats):
    return AnswerCounts(items, 0, text=NextToken(100 * items, 3.0, more_nats, error_nats))


def test_what_is_shown_to_be_as_good_is_the_fastest_and_its_loss_is_told():
    (text,) = answer_lines(of_formats(AnswerCounts(2000, 1990, 1800, 4, 4)))
    assert text.startswith("Fastest: batch_size 16, quantization int8-dynamic, ")
    assert "as good: 0.0 [-0.3, 0.3] points less accurate, of 2,000 items" in text
    assert "Not shown" not in text
    (text,) = answer_lines(of_formats(texts(100, 0.001, 0.001)))
    assert "as good: perplexity 0.1 [-0.1, 0.3] % higher, of 100 items" in text
    (text,) = answer_lines(of_formats(texts(100, -0.0001, 0.0001)))
    assert "as good: perplexity 0.0 [0.0, 0.0] % higher, of 100 items" in text, "no -0.0"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (AnswerCounts(2000, 1900, 1700, 90, 10), "worse: 4.0 [3.1, 5.0] points less accurate, of 2,000 items."),
        (AnswerCounts(300, 300, 290, 0, 0), "points less accurate, of 300 items; 381 items would decide."),
        (AnswerCounts(2000, 1900), "worse: another class for 5.0 [4.1, 6.0] % of items, of 2,000 items."),
        (texts(200, 0.02, 0.002), "worse: perplexity 2.0 [1.6, 2.4] % higher, of 200 items."),
        (texts(200, 0.009, 0.001), "perplexity 0.9 [0.7, 1.1] % higher, of 200 items; 863 items would decide."),
        (texts(4, 0.0, 0.001), "undecided: 4 items are too few, 20 may decide."),
        (None, "undecided: compared on no real items with classes or text (--data)."),
    ],
)
def test_what_is_not_shown_to_be_as_good_is_listed_and_never_chosen(answers, told):
    summary = of_formats(answers)
    (text,) = answer_lines(summary)
    assert text.startswith("Fastest: batch_size 16, quantization none, ")
    assert "Not shown to be as good: batch_size 16, quantization int8-dynamic, " in text
    assert text.endswith(told)
    assert "Recommended" not in text
    assert list(choice_parts(summary, summary.cases, ["quantization"])) == []
    choices = [choice_of(one, summary.machine, ["quantization"]) for one in summary.cases]
    assert [is_as_good(one.quality) for one in choices] == [True, False]
    assert choose(choices) is None


def test_a_format_of_which_a_record_compares_nothing_is_not_trusted():
    """As in records of other tools, and of versions that did not compare outputs."""
    (text,) = answer_lines(of_formats(None, error=None))
    assert text.startswith("Fastest: batch_size 16, quantization none, ")
    assert text.endswith("undecided: compared on no real items with classes or text (--data).")


def test_of_a_busy_machine_nothing_is_told_of_formats_either():
    summary = of_formats(None)
    suspect = tuple(msgspec.structs.replace(case, verdict=Verdict.SUSPECT) for case in summary.cases)
    (text,) = answer_lines(msgspec.structs.replace(summary, cases=suspect))
    assert text == f"Which is fastest is not known. All {len(suspect)} cases are SUSPECT."


def test_of_formats_of_which_none_is_shown_to_be_as_good_none_is_the_fastest():
    summary = of_formats(None)
    narrow = summary.cases[1]
    wider = msgspec.structs.replace(narrow, case_id="other", configuration={**narrow.configuration, "runtime": "ours"})
    (text,) = answer_lines(msgspec.structs.replace(summary, cases=(narrow, wider)))
    assert text.startswith("Which is fastest is not known. Not shown to be as good: ")
