"""The three questions, the checklist, and results that vary."""

from pathlib import Path

import msgspec
import pytest
from build import a_sweep

from torchstone.analysis.advice.curves import read_spread
from torchstone.analysis.summary import summarize
from torchstone.core.schema.procedure import Procedure
from torchstone.report.diagnosis_messages import TO_DO, text
from torchstone.storage.query import entry_of
from torchstone.workflows.diagnose.measured_diagnosis import checklist, three_questions

SETTINGS = {"num_workers": 4, "feed": "loader", "precision": "fp32"}


def swept(*steps_s, **changes):
    cases = [({**SETTINGS, "batch_size": 8 * 4**n}, step_s) for n, step_s in enumerate(steps_s)]
    run = a_sweep(cases, **changes)
    return summarize(entry_of(run, Path()))


def test_s2_44_each_question_has_its_answer_and_what_to_do():
    loads, idles, computes = map(text, three_questions({"data": 0.04, "forward": 0.02, "backward": 0.04}, 0.5))
    assert loads == "is the I/O time high? yes, 40 % of the step, 40.0 ms → num_workers up, if it is"
    assert idles.startswith("is the utilization low? yes, 50 % (usual: 70 to 95 %)")
    assert computes == ("are forward and backward slow? yes, 60 % of the step → mixed precision (AMP), if they are")
    assert three_questions({"data": 0.04, "forward": 0.06}, None)[1].id == "is_utilization_known"
    assert three_questions({}, 0.5) == ()


def test_s2_49_what_was_done_is_ticked_and_the_rest_says_what_to_type():
    run = swept(0.01, 0.02)
    lines = {one.id: one for one in checklist(run, run.cases[1])}
    assert {name: one.done for name, one in lines.items()} == {
        "measured": True, "batch_sizes_compared": True, "workers_compared": False, "precision_compared": False,
        "memory_is_below": True, "throughput_known": True,
    }  # fmt: skip
    assert lines["batch_sizes_compared"].values == {"tried": (8, 32)}
    assert lines["workers_compared"].values == {"tried": (4,)}
    assert lines["throughput_known"].values == {"rate": pytest.approx(1600.0, rel=0.01)}
    assert {name for name, one in lines.items() if not one.done} <= TO_DO.keys(), "which says what to type"


@pytest.mark.parametrize(
    ("peak_bytes", "said"),
    [
        (48.1e9, "within the usual 60 to 80 %"),
        (44e9, "a larger batch may fit"),
        (70e9, "safe up to 90 %"),
        (78e9, "likely to run out"),
    ],
)
def test_memory_is_judged_by_its_share(peak_bytes, said):
    run = swept(0.01, 0.02)
    case = run.cases[0]
    held = msgspec.structs.replace(case.estimates["peak_reserved_bytes"], value=peak_bytes)
    case = msgspec.structs.replace(case, estimates={**case.estimates, "peak_reserved_bytes": held})
    assert any(said in text(line) for line in checklist(run, case))


def test_s3_60_results_that_vary_say_what_makes_them_steadier():
    assert read_spread(swept(0.01, spread=0.001).cases[0], Procedure()) == []
    (told,) = read_spread(swept(0.01, spread=0.2).cases[0], Procedure())
    assert [one.id for one in told.seen] == ["varies"]
    wanted = [{"trials": 10}, {"steps": 50}, {"budget_s": 20.0}]
    assert [one.values for one in told.remedies if one.values] == wanted
    (more,) = read_spread(swept(0.01, spread=0.2).cases[0], Procedure(warmup=80, budget_s=20.0))
    wanted = [{"trials": 10}, {"steps": 160}, {"budget_s": 80.0}]
    assert [one.values for one in more.remedies if one.values] == wanted, "not less than was done already"
