"""What a tune found, as it is printed: what to choose, what it gains, why, and the settings to write."""

from pathlib import Path

import pytest
from build import a_run
from msgspec.structs import replace
from results import a_tuned

from torchstone.analysis.summary import summarize
from torchstone.core.quality import judged
from torchstone.core.schema.answer import TuneResult
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Estimate, Finding, Severity, Verdict
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.quality import AnswerCounts
from torchstone.report.document import Document
from torchstone.report.documents.run import without_probes
from torchstone.report.documents.run_answer import rate_words
from torchstone.report.documents.tune import tune_choices, tune_parts
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of


def tune_document(run):
    return Document("tune", (*tune_parts(run, run.answer), *tune_choices(run, run.answer)))


def recommended_case(run):
    return next(case for case in run.cases if case.case_id == best_of(run).case_id)


def best_of(run):
    assert run.answer is not None
    return run.answer.recommended


def shown(run, width=100, *, every=False):
    return terminal(tune_document(run), width, every=every)


def test_the_answer_comes_first_with_its_rate_and_its_gain():
    rate = rate_words(recommended_case(a_tuned()))
    said = f"Recommended: batch_size 32, {rate}. That is 2.00 [1.90, 2.10] times the present settings (2 rounds)."
    assert tune_document(a_tuned()).headline == said


def test_the_loss_of_quality_of_what_is_recommended_stands_behind_its_rate():
    run = a_tuned()
    assert isinstance(run.answer, TuneResult)
    quality = judged(AnswerCounts(2000, 1990, 1800, 6, 4), 0.01)
    summary = replace(run, cases=tuple(replace(case, quality=quality) for case in run.cases))
    headline = Document("tune", tuple(tune_parts(summary, run.answer))).headline
    assert "as good: 0.1 [-0.2, 0.5] points less accurate, of 2,000 items. That is 2.00 [1.90, 2.10]" in str(headline)


@pytest.mark.parametrize("width", [60, 100])
def test_choices_gain_epoch_reasons_cost_and_settings(width):
    text = shown(a_tuned(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "Highest throughput: batch_size " in text
    assert "Recommended for training: batch_size 32" in text
    flat = " ".join(text.split())
    assert "epoch 600 ms [580 ms, 620 ms] expected" in flat
    assert "\nwhy       peak memory 954 MiB, 50.0 % of the memory\n" in text
    assert "cost 7 probes, 12.0 s: 5.0 % of about 4.0 min for all 24 settings" in flat
    assert "settings batch_size 32, num_workers 2, pin_memory false" in flat


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (None, None, "2 times the present settings (one round: no interval)"),
        (1.0, 2.1, "2.00 [1.00, 2.10] times the present settings (not significant; more --trials may tell)"),
        (0.1, 9.0, "not known how many times the present settings: 2 trials differ too much"),
    ],
)
def test_a_gain_that_is_not_sure_says_so(low, high, said):
    headline = tune_document(a_tuned(gain=Estimate(2.0, low, high, 0.95, "ratio", "rounds", 2, 20))).headline
    assert said in str(headline)


def test_present_settings_that_are_the_best_and_ones_that_nobody_named():
    text = shown(a_tuned(present=best_of(a_tuned()), gain=None))
    assert "These are the present settings." in " ".join(text.split())
    assert "gain      none: the present settings are the best of those that were run" in text
    text = shown(a_tuned(present=None, gain=None, epoch_time_s=None, everything_s=None))
    assert "gain      not known: name the present settings with --present batch_size=…" in text
    assert "\nepoch " not in text
    assert "cost      7 probes, 12.0 s; 24 settings" in text


def test_what_was_never_run_is_not_beaten():
    alone = a_tuned(present=best_of(a_tuned()), gain=None, tried=1, untried={"batch_size": (4, 64)})
    text = " ".join(shown(alone).split())
    assert text.startswith("Not decided: of 24 settings only one was run (batch_size 32, the present settings), ")
    assert "gain not known: no other setting was run" in text
    assert "no step was run with batch_size 4, 64" in " ".join(shown(alone, every=True).split())
    some = str(tune_document(a_tuned(tried=3)).headline)
    assert some.startswith("Recommended: batch_size 32, ")
    assert some.endswith("the present settings (2 rounds). 3 of 24 settings were run.")
    assert "were run" not in str(tune_document(a_tuned(tried=24)).headline)


def test_the_present_settings_are_named_as_far_as_they_are_others():
    assert "present   batch_size 16" in shown(a_tuned())


def test_what_differs_too_much_between_trials_is_found_and_not_recommended():
    best = best_of(a_tuned())
    wide = type(best)(best.case_id, best.point, 2, 3000.0, throughput_low=300.0, throughput_high=9000.0)
    assert shown(a_tuned(recommended=wide)).startswith("Best found, not certain: batch_size 32, ")


def test_what_is_in_doubt_is_found_and_not_recommended():
    run = a_tuned()
    best = recommended_case(run)
    cases = tuple(replace(case, verdict=Verdict.SUSPECT) if case == best else case for case in run.cases)
    text = " ".join(shown(replace(run, cases=cases)).split())
    assert text.startswith("Best found, not certain: batch_size 32, ")
    assert ". The figure is SUSPECT. That is 2.00 [1.90, 2.10] times the present settings" in text


def test_where_all_is_in_doubt_nothing_is_chosen():
    run = a_tuned(tried=2)
    why = Finding("neighbours", Severity.WARNING, "run", {}, "")
    cases = tuple(replace(case, verdict=Verdict.SUSPECT, findings=(why,)) for case in run.cases)
    doubtful = replace(run, cases=cases)
    said = "Which settings are best is not known: other programs used the cores. All 2 cases are SUSPECT."
    assert tune_document(doubtful).headline == f"{said} 2 of 24 settings were run."
    text = shown(doubtful, every=True)
    assert "Recommended" not in text
    assert "Highest throughput" not in text
    assert "settings batch_size" not in " ".join(text.split())


def test_the_probes_of_a_search_are_no_results():
    run = a_tuned()
    assert [case.configuration["batch_size"] for case in without_probes(run).cases] == [16, 32]
    assert run.answer is not None
    assert recommended_case(run).configuration["batch_size"] == 32
    probed = without_probes(summarize(entry_of(a_run([]), Path())))
    assert len(probed.cases) == 1, "of a search that was cut there is nothing else"


def test_a_cost_of_nothing_is_no_share():
    run = a_tuned(everything_s=0.0, searched_s=0.0)
    assert "7 probes, 0 ns; 24 settings" in terminal(tune_document(run), 100)


def in_short(configuration, quality=None, **changes):
    """The headline where another runtime is recommended, whose files take 41 MiB; now has 66,846,720 numbers."""
    run = a_tuned(**changes)
    assert isinstance(run.answer, TuneResult)
    size = Estimate(41 * 2.0**20, None, None, 0.95, "bytes", "", 1, 1)
    best, cases = best_of(run).case_id, []
    for case in run.cases:
        facts = Facts(parameters=66_846_720)
        trials = tuple(replace(trial, facts=facts) for trial in case.trials)
        shown_case = replace(case, trials=trials)
        if case.case_id == best:
            settings = {**case.configuration, **configuration}
            estimates = {**case.estimates, "exported_bytes": size}
            shown_case = replace(shown_case, configuration=settings, quality=quality, estimates=estimates)
        cases.append(shown_case)
    return str(Document("tune", tuple(tune_parts(replace(run, cases=tuple(cases)), run.answer))).headline)


def test_another_runtime_is_recommended_in_one_sentence():
    int8 = {"runtime": "openvino", "quantization": "int8-dynamic"}
    loss = judged(AnswerCounts(2000, 1990, 1800, 6, 4), 0.01)
    assert in_short(int8, loss) == (
        "Recommended: openvino int8-dynamic, batch_size 32: 2.00 [1.90, 2.10] times as fast as now, "
        "0.1 [-0.2, 0.5] points less accurate, 41.0 MiB instead of 255 MiB."
    )
    assert "another class for 0.5 [0.3, 0.9] % of items," in in_short(int8, judged(AnswerCounts(2000, 1990), 0.01))
    told = in_short({"runtime": "onnxruntime"}, objective="memory")
    assert "onnxruntime, batch_size 32: 2.00 [1.90, 2.10] times as good as now by memory, the same outputs, " in told
    wide = in_short({"runtime": "onnxruntime"}, gain=Estimate(2.0, 0.1, 9.0, 0.95, "ratio", "rounds", 2, 20))
    assert "not known how many times the present settings: 2 trials differ too much" in wide
    assert "not significant" not in wide
    unclear = in_short({"runtime": "onnxruntime"}, gain=Estimate(1.0, 0.9, 1.1, 0.95, "ratio", "rounds", 2, 20))
    assert "times as fast as now (not significant; more --trials may tell), the same outputs" in unclear


def test_what_is_not_shown_to_be_as_good_is_listed_with_its_speed():
    run = a_tuned()
    assert "Not shown to be as good" not in shown(run)
    quality = judged(AnswerCounts(100, 99), 0.01)
    best, *others = sorted(run.cases, key=lambda case: case.case_id != best_of(run).case_id)
    int8 = replace(others[0], configuration={**others[0].configuration, "runtime": "openvino"}, quality=quality)
    rate = rate_words(int8)
    text = shown(replace(run, cases=(int8, best, *others[1:])), 300)
    assert f"Not shown to be as good: batch_size 16, runtime openvino, {rate}, undecided" in text
    assert "another class for 1.0 [0.0, 5.4] % of items" in text, "no share is below 0"


def test_of_an_inference_the_line_that_saves_the_model_is_told():
    run = a_tuned()
    saving = f"torchstone show {run.run_id} --save-model model"
    assert saving not in shown(run)
    inference = tuple(replace(c, workload=replace(c.workload, task=Task.INFER)) for c in run.cases)
    assert saving in shown(replace(run, cases=inference))
