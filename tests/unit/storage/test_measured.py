"""Measured Cases over all runs: what counts, what does not, and what is read of them."""

import msgspec
from build import a_finding
from stored import PROCESSOR, a_stored_run, case, machine, store

from torchstone.core.schema.comparison import Rules
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.trial import Disturbance, Purpose
from torchstone.storage.measured import measured_kept, stored_cases, stored_cases_by_id
from torchstone.storage.rows import KEPT


def test_figures_facts_and_doubts_of_each_case_of_each_run(outputs):
    one, other = case(batch_size=8), case(batch_size=16)
    findings = [
        a_finding(check, severity, "m", "a", one.case_id)
        for check, severity in (
            ("neighbours", Severity.WARNING),
            ("few_trials", Severity.WARNING),
            ("leak", Severity.INFO),
        )
    ]
    runs = [
        a_stored_run(2, [(one, 100.0), (other, 50.0)], machine(), findings=findings, failed=[other.case_id]),
        a_stored_run(1, [(one, 90.0)], machine(), code={"py:mine.py": "abc"}),
    ]
    store(outputs, runs)
    found = stored_cases(outputs, ("throughput", "peak_rss_bytes"))
    assert found.runs == 2
    assert [m.run_id for m in found.measured] == [runs[1].head.run_id, runs[0].head.run_id], "the oldest first"
    early, late = found.measured
    assert early.code == {"py:mine.py": "abc"}
    assert len(late.values("throughput")) == 3
    assert set(late.figures) == {"throughput", "peak_rss_bytes"}, "other figures are not read"
    assert late.values("step_time_p50") == []
    assert late.facts.task == "train"
    assert late.device == PROCESSOR
    assert [f.check for f in late.doubts] == ["neighbours"], "that there are few trials makes no figure wrong"
    assert late.procedure["trials"] == 3


def test_probes_and_the_turns_of_ab_are_left_out(outputs):
    one = case()
    tuned = a_stored_run(1, [(one, 100.0)], machine())
    probes = tuple(msgspec.structs.replace(t, purpose=Purpose.PROBE) for t in tuned.trials[:2])
    compared = a_stored_run(2, [(one, 90.0)], machine())
    of_an_ab = msgspec.structs.replace(compared.head, ab=Rules())
    tuned = msgspec.structs.replace(tuned, trials=(*probes, tuned.trials[2]))
    store(outputs, [tuned, msgspec.structs.replace(compared, head=of_an_ab)])
    (found,) = stored_cases(outputs, ("throughput",)).measured
    assert found.trials == 1
    (kept,) = measured_kept(outputs).measured
    assert kept.trials == 1


def test_one_case_is_what_it_is_among_all(outputs):
    one, other = case(batch_size=8), case(batch_size=16)
    store(outputs, [a_stored_run(day, [(one, 100.0 + day), (other, 50.0)], machine()) for day in (3, 1, 2)])
    every = stored_cases(outputs, ("throughput",))
    found = stored_cases_by_id(outputs, one.case_id[:6], ("throughput",))
    assert found.measured == tuple(m for m in every.measured if m.case_id == one.case_id)
    assert found.runs == every.runs == 3
    assert stored_cases_by_id(outputs, "none", ("throughput",)).measured == ()


def test_what_is_kept_of_each_run_is_what_its_trials_say(outputs):
    """Among them a Case that failed, a trial that another program disturbed, and figures that some trials lack."""
    one, other, card = case(batch_size=8), case(batch_size=16), case("cuda")
    runs = [
        a_stored_run(day, [(one, 100.0 + day), (other, 50.0), (card, 10.0)], machine("cuda"), trials=5,
                     failed=[other.case_id] if day == 2 else [])
        for day in (3, 1, 2)
    ]  # fmt: skip
    first, *rest = runs[0].trials
    disturbed = msgspec.structs.replace(first, disturbance=Disturbance(disturbed=True, share=0.9))
    lacking = msgspec.structs.replace(rest[-1], measurements=rest[-1].measurements[:1])
    runs[0] = msgspec.structs.replace(runs[0], trials=(disturbed, *rest[:-1], lacking))
    store(outputs, runs)
    by_trial, by_run = stored_cases(outputs, KEPT), measured_kept(outputs)
    assert [one.prior("throughput") for one in by_run.measured] == [
        one.prior("throughput") for one in by_trial.measured
    ]
    kept = [msgspec.structs.replace(one, facts=Facts(), priors="") for one in by_trial.measured]
    assert {(one.numbers, one.templates) for one in by_run.measured} == {
        (tuple(range(5)), (None,) * 5), (tuple(range(1, 5)), (None,) * 4)
    }  # fmt: skip
    alone = {"priors": "", "numbers": (), "templates": (), "pair_priors": "{}"}
    assert [msgspec.structs.replace(one, **alone) for one in by_run.measured] == kept
    assert len(by_run.measured) == 8
    assert {one.trials for one in by_run.measured} == {4, 5}
    assert any(None in column for one in by_run.measured for column in one.figures.values())
    assert by_run.runs == by_trial.runs == 3


def test_an_empty_store(outputs):
    assert measured_kept(outputs).measured == ()
    assert stored_cases(outputs, ("throughput",)).measured == ()
    assert not outputs.exists()
