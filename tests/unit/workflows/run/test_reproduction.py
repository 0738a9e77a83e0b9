"""What is measured again of a stored run, what is refused, and what the comparison answers."""

import re
from pathlib import Path

import msgspec
import pytest
from build import a_case, a_run, a_trial, a_tune_spec
from comparable import a_gpu, a_stored_run

from torchstone.analysis.compare.compare import Equivalence, reproduced
from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import IMPORTED, Plan, Run, Slot
from torchstone.core.schema.training import Fit
from torchstone.core.schema.trial import Outcome, Purpose, Status
from torchstone.execution.controller.observer import Silent
from torchstone.report.documents.comparison import reproduction_document
from torchstone.workflows.run import reproduction
from torchstone.workflows.run.reproduction import Reproduction

FAR = a_case(model="py:/far/net.py:load", data="example")
STEADY = [0.0100, 0.0101, 0.0099, 0.0100, 0.0101, 0.0099, 0.0100, 0.0101]


def with_head(run: Run, **changes) -> Run:
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, **changes))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (with_head(a_run(), ab=Rules()), "is an A/B comparison, .*; type `torchstone run cnn`"),
        (a_run(procedure=Procedure(trials=1, fit=Fit())), "is a training to an end; type `torchstone run cnn`"),
        (a_run(procedure=Procedure(trials=1, isolation=IMPORTED)), "was measured by another tool"),
        (a_run([]), "has no successful trial"),
        (a_run([a_trial(case_id=FAR.case_id)], cases=[FAR]), r"only names: py:/far/net.py:load; .*--code FOLDER"),
    ],
)
def test_what_cannot_be_repeated_is_refused(run, said):
    with pytest.raises(UsageError, match=said):
        Reproduction(run, Silent())


def test_code_is_looked_for_in_the_named_folder_alone(tmp_path, monkeypatch):
    case = a_case(model="py:/far/away/net.py:load", data="example")
    run = a_run([a_trial(case_id=case.case_id)], cases=[case])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"would not measure the same here: .*net\.py.*--force"):
        Reproduction(run, Silent(), code=tmp_path)
    marker = tmp_path / "ran"
    Path("net.py").write_text(f"open({str(marker)!r}, 'w')\n\ndef load():\n    return None\n")
    run = with_head(run, code={case.workload.model: "0" * 64})
    with pytest.raises(UsageError, match=r"py:net\.py:load: its file has changed"):
        Reproduction(run, Silent(), code=tmp_path)
    assert not marker.exists(), "what is only looked at is not run"


@pytest.mark.parametrize(
    ("word", "local"),
    [
        ("py:/a/b/net.py:load", "py:net.py:load"), ("py:../net.py:load", "py:net.py:load"),
        ("py:models/net.py:load", "py:net.py:load"), ("py:here/net.py:load", "py:here/net.py:load"),
        ("py:package.module:load", "py:package.module:load"), ("builtin:cnn", "builtin:cnn"),
        ("synthetic", "synthetic"),
    ],
)  # fmt: skip
def test_where_code_is_looked_for(tmp_path, monkeypatch, word, local):
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    Path("here/net.py").write_text("")
    assert reproduction._local(word) == local


def test_the_plan_is_the_recorded_one_without_devices_that_were_not_there():
    cases = [a_case(), a_case(placement=Placement("cuda")), a_case({"batch_size": 4}, placement=Placement("rocm"))]
    run = a_run([a_trial(case_id=cases[1].case_id)], cases=cases, machine=a_gpu("a card"))
    slots = (Slot(1, 0), Slot(2, 0), Slot(1, 1))
    run = with_head(run, plan=Plan(tuple(cases), slots))
    assert reproduction._cases(run) == [cases[1]]
    assert reproduction._slots(run) == [Slot(0, 0), Slot(0, 1)]
    assert reproduction._procedure(run) == run.head.procedure


def test_of_a_search_its_final_round_is_repeated():
    cases = [a_case({"batch_size": size}) for size in (8, 16, 32)]
    probe = a_trial(case_id=cases[0].case_id, purpose=Purpose.PROBE)
    final = [
        a_trial(case_id=case.case_id, trial_id=f"{case.case_id}{n}", number=n) for n in range(2) for case in cases[1:]
    ]
    run = with_head(a_run([probe, *final], cases=cases, procedure=Procedure(within_s=60.0)), tune=a_tune_spec())
    assert reproduction._cases(run) == cases[1:]
    slots = reproduction._slots(run)
    assert sorted((slot.number, slot.case) for slot in slots) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert slots == reproduction._slots(run), "their order follows from the seed"
    assert (reproduction._procedure(run).trials, reproduction._procedure(run).within_s) == (2, None)


def test_equal_runs_are_equivalent():
    found = reproduced(a_stored_run(STEADY), a_stored_run(STEADY[::-1], minutes=5), 0.1)
    assert found.answer == Equivalence.EQUIVALENT
    assert [one.label for one in found.compared.participants] == ["recorded", "measured here"]
    assert len(found.judged) == 1


def test_twice_the_time_is_different():
    assert reproduced(a_stored_run(STEADY), a_stored_run([2 * s for s in STEADY], minutes=5), 0.1).answer == "different"
    assert reproduced(a_stored_run(STEADY), a_stored_run([s / 2 for s in STEADY], minutes=5), 0.1).answer == "different"


def test_what_is_not_known_well_enough_is_inconclusive():
    noisy = [0.008, 0.013, 0.009, 0.012]
    assert (
        reproduced(a_stored_run(noisy), a_stored_run(noisy[::-1], minutes=5), 0.02).answer == Equivalence.INCONCLUSIVE
    )


def test_the_least_margin_that_would_be_equivalent_is_told_and_is():
    runs = a_stored_run([0.0098, 0.0102, 0.0099]), a_stored_run([0.0103, 0.0099, 0.0101], minutes=5)
    said = reproduction_document(reproduced(*runs, 0.02)).headline or ""
    told = re.search(r"; equivalent within ±(\d+) %", said)
    assert told is not None, said
    margin = int(told[1]) / 100
    assert reproduced(*runs, margin).answer == Equivalence.EQUIVALENT
    assert reproduced(*runs, margin - 0.01).answer == Equivalence.INCONCLUSIVE


def test_a_case_that_failed_here_is_no_equivalence():
    one, other = a_case(), a_case({"batch_size": 32})
    recorded = a_stored_run(STEADY, one, (other, [2 * s for s in STEADY]))
    again = a_stored_run(STEADY[::-1], one, (other, [None] * len(STEADY)), minutes=5)
    found = reproduced(recorded, again, 0.1)
    assert found.answer == Equivalence.INCONCLUSIVE
    assert "equivalent within" not in (reproduction_document(found).headline or "")


def test_a_case_that_failed_in_both_is_no_matter():
    one, other = a_case(), a_case({"batch_size": 32})
    runs = [
        a_stored_run(steps, one, (other, [None] * len(STEADY)), minutes=minutes)
        for steps, minutes in ((STEADY, 0), (STEADY[::-1], 5))
    ]
    assert runs[0].trials[1].outcome == Outcome(Status.OUT_OF_MEMORY, "it took all")
    assert reproduced(runs[0], runs[1], 0.1).answer == Equivalence.EQUIVALENT
