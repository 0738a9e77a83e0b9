"""Which Case is diagnosed, by which Procedure, and why some are only read."""

from pathlib import Path

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_sweep, a_trial
from evidences import SETTINGS

from torchstone.analysis.advice.rules import recorded_evidence
from torchstone.analysis.summary import summarize
from torchstone.config.recipe_files import load_request
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Placement, Task
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.trial import Disturbance, Disturber, Purpose
from torchstone.execution import machine_facts
from torchstone.storage.query import entry_of
from torchstone.workflows.diagnose.measured_diagnosis import diagnosed_from_record
from torchstone.workflows.diagnose.program_diagnosis import evidence_of
from torchstone.workflows.diagnose.target import (
    asks_for_one,
    brief_procedure,
    of_own_program,
    of_request,
    of_run,
    one_workload,
)

SWEEP = [({**SETTINGS, "batch_size": size}, 0.01 + 1e-4 * size) for size in (8, 32, 128)]


def target(run, which=None):
    entry = entry_of(run, Path())
    return of_run(entry, summarize(entry), which)


def here(run):
    machine = msgspec.structs.replace(run.head.machine, host=machine_facts.host(), settings=machine_facts.settings())
    return msgspec.structs.replace(run, head=msgspec.structs.replace(run.head, machine=machine))


def test_the_recommended_case_is_taken_unless_one_is_named():
    run = a_sweep(SWEEP)
    assert target(run).case.configuration["batch_size"] == 128
    first = run.head.plan.cases[0]
    assert target(run, first.case_id[:6]).case.case_id == first.case_id
    with pytest.raises(UsageError, match=f"--case zzz matches 0 cases .*{first.case_id}"):
        target(run, "zzz")


def test_of_several_models_one_must_be_chosen():
    cases = [a_case(model="builtin:cnn"), a_case(model="builtin:mlp")]
    trials = [a_trial(case_id=case.case_id) for case in cases]
    with pytest.raises(UsageError, match="several models: choose one with --case"):
        target(a_run(trials, cases=cases))


def test_a_loader_alone_has_no_step():
    case = a_case(task=Task.LOAD)
    with pytest.raises(UsageError, match="task load has none"):
        target(a_run([a_trial(case_id=case.case_id)], cases=[case]))


def test_the_record_of_a_diagnosis_leads_to_what_was_diagnosed():
    run = a_sweep(SWEEP)
    probes = tuple(msgspec.structs.replace(trial, purpose=Purpose.PROBE) for trial in run.trials)
    assert target(msgspec.structs.replace(run, trials=probes)).case.configuration["batch_size"] == 8


def test_of_a_case_whose_trials_others_disturbed_nothing_is_diagnosed_nor_measured_again_at_once():
    quiet = a_sweep(SWEEP)
    busy = Disturbance(disturbed=True, share=1.0, causes=(Disturber.PROCESSES,), cores=1.7)
    trials = tuple(msgspec.structs.replace(trial, disturbance=busy) for trial in quiet.trials)
    disturbed = msgspec.structs.replace(quiet, trials=trials)
    assert diagnosed_from_record(target(disturbed)).is_hidden
    assert not diagnosed_from_record(target(quiet)).is_hidden
    case = a_case(model="builtin:cnn")
    entry = entry_of(here(a_run([a_trial(case_id=case.case_id, disturbance=busy)], cases=[case])), Path())
    assert of_run(entry, summarize(entry), None, measured_now=True).elsewhere == Statement("busy_machine")
    assert of_run(entry, summarize(entry), None).elsewhere is None, "the machine may be quiet by now"


def test_another_machine_is_only_read():
    found = target(a_sweep(SWEEP))
    assert found.elsewhere == Statement("own_program")
    run = a_run([a_trial(case_id=(case := a_case(model="builtin:cnn")).case_id)], cases=[case], machine=a_machine())
    assert target(run).elsewhere.id == "another_machine"
    assert target(here(run)).elsewhere is None
    diagnosis = diagnosed_from_record(target(run))
    assert diagnosis.unmeasured == target(run).elsewhere
    assert diagnosis.throughput == pytest.approx(16 / 0.0107)


def test_software_that_is_not_as_it_was_recorded_is_told():
    case = a_case(model="builtin:cnn")
    run = here(a_run([a_trial(case_id=case.case_id)], cases=[case], machine=a_machine()))
    then = run.head.machine
    now = msgspec.structs.replace(then, software={**then.software, "torch": "99.0"})
    assert target(run).moved(then) == []
    assert target(run).moved(now) == [f"torch was {then.software.get('torch')}, is 99.0"]


def test_a_record_tells_a_fixed_cost_by_its_own_larger_batch():
    summary = summarize(entry_of(a_sweep(SWEEP), Path()))
    evidence = recorded_evidence(summary, summary.cases[0])
    assert evidence.larger is not None
    assert evidence.larger[0] == 32
    assert evidence.overhead_s == pytest.approx(0.01, rel=0.01)
    assert recorded_evidence(summary, summary.cases[2]).larger is None


def test_a_request_for_one_case_needs_no_run_before():
    smoke = load_request("smoke")
    assert one_workload(smoke) == smoke.workloads[0]
    asked = msgspec.structs.replace(smoke, workloads=(one_workload(smoke),))
    single = {axis: values[:1] for axis, values in asked.workloads[0].axes.items()}
    one = msgspec.structs.replace(asked, workloads=(msgspec.structs.replace(asked.workloads[0], axes=single),))
    assert asks_for_one(one)
    assert of_request(one).model == asked.workloads[0].model
    several = {**single, "batch_size": (2, 4)}
    two = msgspec.structs.replace(one, workloads=(msgspec.structs.replace(one.workloads[0], axes=several),))
    assert not asks_for_one(two)
    with pytest.raises(UsageError, match="smoke has 2 cases"):
        of_request(two)


def test_a_file_for_a_card_is_diagnosed_on_a_cpu_without_its_page_locked_memory():
    axes: dict[str, tuple[Scalar, ...]] = {"pin_memory": (True,)}
    asked = of_request(RunRequest((WorkloadRequest("train", "builtin:cnn", "digits", axes=axes),), device="cpu"))
    cpu = DeviceInfo("cpu", "cpu", "a vendor", 0, "a processor")
    case = asked.case_on(a_machine(devices=(cpu,)), Inspected((cpu,), {}, {}))
    assert case.configuration["pin_memory"] is False
    (told,) = asked.notes(case.placement)
    assert "no effect on cpu" in told.message
    assert target(a_sweep(SWEEP)).notes(Placement("cpu")) == [], "of a stored run nothing is asked anew"


def test_trials_are_short_and_otherwise_as_recorded():
    how = brief_procedure(Procedure(trials=7, budget_s=30.0, seed=5, heap="default", iterations=9, isolation="inline"))
    assert (how.trials, how.budget_s, how.seed, how.heap, how.iterations) == (1, 1.0, 5, "default", None)
    assert how.isolation == "auto"
    assert brief_procedure(Procedure(budget_s=0.2)).budget_s == 0.2


def test_what_was_measured_in_the_users_own_program_is_diagnosed_from_its_record():
    run = a_sweep(SWEEP, phases={"data": 0.0, "forward": 0.4, "backward": 0.6})
    told = diagnosed_from_record(of_own_program(summarize(entry_of(run, Path()))))
    assert told.unmeasured == Statement("own_program")
    assert told.case.configuration["batch_size"] == 128
    assert "computing" in [cause.id for cause in told.causes]
    assert told.checklist


@pytest.mark.parametrize(
    ("disturbed", "rate"),
    [((False, False, False), 16.0), ((False, True, False), 16.0), ((True, False, True), None), ((True,) * 3, None)],
)
def test_a_program_is_diagnosed_from_its_undisturbed_trials_where_these_are_most(disturbed, rate):
    trials = [
        a_trial([10.0 if one else 1.0] * 10, disturbance=Disturbance(disturbed=one, share=float(one)))
        for one in disturbed
    ]
    evidence = evidence_of(a_case(), trials, None, a_machine())
    assert (evidence.disturbance is None) is (rate is not None)
    if rate is not None:
        assert evidence.figures["throughput"] == pytest.approx(rate)
