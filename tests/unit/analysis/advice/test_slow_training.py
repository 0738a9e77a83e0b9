"""The three questions, the checklist, and results that vary."""

from pathlib import Path

import msgspec
import pytest
from build import a_sweep

from torchstone.analysis.advice.checklist import checklist
from torchstone.analysis.advice.questions import three_questions
from torchstone.analysis.advice.spread import read_spread
from torchstone.analysis.summary import summarize
from torchstone.core.schema.procedure import Procedure
from torchstone.storage.query import entry_of

SETTINGS = {"num_workers": 4, "feed": "loader", "precision": "fp32"}


def swept(*steps_s, **changes):
    cases = [({**SETTINGS, "batch_size": 8 * 4**n}, step_s) for n, step_s in enumerate(steps_s)]
    run = a_sweep(cases, **changes)
    return summarize(entry_of(run, Path()))


def test_s2_44_each_question_has_its_answer_and_what_to_do():
    loads, idles, computes = three_questions({"data": 0.04, "forward": 0.02, "backward": 0.04}, 0.5)
    assert loads == "is the I/O time high? yes, 40 % of the step, 40.0 ms → num_workers up, if it is"
    assert idles.startswith("is the utilization low? yes, 50 % (usual: 70 to 95 %)")
    assert computes == ("are forward and backward slow? yes, 60 % of the step → mixed precision (AMP), if they are")
    assert three_questions({"data": 0.04, "forward": 0.06}, None)[1].startswith("is the utilization low? not known")
    assert three_questions({}, 0.5) == []


def test_s2_49_what_was_done_is_ticked_and_the_rest_says_what_to_type():
    run = swept(0.01, 0.02)
    lines = checklist(run.cases[1], run.cases, run.machine)
    assert lines[0] == "[x] it was measured"
    assert "[x] batch sizes compared: 8, 32" in lines
    assert "[ ] num_workers compared: 4 (tune --only num_workers)" in lines
    assert "[ ] precision: fp32 (try bf16)" in lines
    assert any("less than the usual 60 to 80 %" in line for line in lines)
    assert "[x] throughput known: 1,600 items/s" in lines


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
    assert any(said in line for line in checklist(case, run.cases, run.machine))


def test_s3_60_results_that_vary_say_what_makes_them_steadier():
    assert read_spread(swept(0.01, spread=0.001).cases[0], Procedure()) is None
    told = read_spread(swept(0.01, spread=0.2).cases[0], Procedure())
    assert told is not None
    assert "throughput varies much" in told.seen
    assert {"--trials 10", "--warmup 50", "--budget 20s for longer windows"} <= set(told.remedies)
    more = read_spread(swept(0.01, spread=0.2).cases[0], Procedure(warmup=80, budget_s=20.0))
    assert more is not None
    assert {"--warmup 160", "--budget 80s for longer windows"} <= set(more.remedies), "not less than was done already"
