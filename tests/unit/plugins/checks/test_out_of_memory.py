"""Out of memory: the ladder of advice leaves out what is in use already, and names what fitted."""

import msgspec
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.schema.case import Placement
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.run import Plan, Run, Slot
from torchstone.core.schema.trial import Measurement, Outcome, Reason, Stage, Status
from torchstone.plugins import registry


def run_of(**axes) -> Run:
    """Batch 8 fits, batch 16 does not."""
    base = a_case()
    small, large = (
        msgspec.structs.replace(base, configuration={**base.configuration, **axes, "batch_size": n}) for n in (8, 16)
    )
    head = msgspec.structs.replace(a_run().head, plan=Plan((small, large), (Slot(0, 0), Slot(1, 0))))
    trials = [
        msgspec.structs.replace(a_trial(), case_id=small.case_id),
        msgspec.structs.replace(a_trial(status=Status.OUT_OF_MEMORY), case_id=large.case_id),
    ]
    return Run(head, tuple(trials), (), None)


def test_it_names_the_largest_batch_that_fitted_and_what_to_type():
    run = run_of(precision="fp32")
    (finding,) = registry.load("checks", "out_of_memory").look(run)
    assert finding.subject == run.head.plan.cases[1].case_id
    assert finding.severity == Severity.WARNING
    assert "8 fitted" in finding.message
    rungs = ("batch_size=8", "precision=bf16", "grad_accumulation=2", "gradient_checkpointing", "a smaller model (less")
    places = [finding.advice.index(rung) for rung in rungs]
    assert places == sorted(places), "seed S2-43's ladder, in its order"


def test_it_does_not_advise_what_is_in_use():
    (finding,) = registry.load("checks", "out_of_memory").look(run_of(precision="bf16"))
    assert "bf16" not in finding.advice


def test_a_run_that_fits_is_silent():
    assert not list(registry.load("checks", "out_of_memory").look(a_run()))


def test_what_was_skipped_for_want_of_memory_is_advised_on_too():
    run = run_of(precision="fp32")
    case_id = run.head.plan.cases[1].case_id
    outcome = Outcome(Status.SKIPPED, "needs at least 90 GiB of 80 GiB device memory, extrapolated from batch_size 4")
    skipped = [a_trial(case_id=case_id, status=Status.SKIPPED, outcome=outcome)] * 2
    (finding,) = registry.load("checks", "out_of_memory").look(
        a_run([run.trials[0], *skipped], cases=run.head.plan.cases)
    )
    assert finding.message == f"batch_size 16 was skipped: {outcome.message}; 8 fitted"
    assert "batch_size=8" in finding.advice


def test_what_was_skipped_for_another_reason_is_not():
    run = run_of()
    case_id = run.head.plan.cases[1].case_id
    for status in (Status.TIMED_OUT, Status.UNSUPPORTED):
        trials = [a_trial(case_id=case_id, status=s, outcome=Outcome(s, "x")) for s in (status, Status.SKIPPED)]
        assert not list(registry.load("checks", "out_of_memory").look(a_run(trials, cases=run.head.plan.cases)))


def test_a_loader_that_eats_the_hosts_memory_is_told_to_have_fewer_processes():
    run = run_of(num_workers=8)
    case_id = run.head.plan.cases[1].case_id
    outcome = Outcome(Status.OUT_OF_MEMORY, "it was killed", reason=Reason.LOADER_KILLED)
    trial = a_trial(case_id=case_id, status=Status.OUT_OF_MEMORY, outcome=outcome)
    (finding,) = registry.load("checks", "out_of_memory").look(a_run([trial], cases=run.head.plan.cases))
    assert "num_workers=4" in finding.advice


def test_the_effective_batch_stays_where_batches_are_accumulated_already():
    (finding,) = registry.load("checks", "out_of_memory").look(run_of(precision="bf16", grad_accumulation=4))
    assert "batch_size=8 grad_accumulation=8" in finding.advice


def test_what_fitted_in_another_precision_is_not_told():
    half, full = a_case({"batch_size": 32, "precision": "bf16"}), a_case({"batch_size": 16, "precision": "fp32"})
    trials = [a_trial(case_id=half.case_id), a_trial(case_id=full.case_id, status=Status.OUT_OF_MEMORY)]
    (finding,) = registry.load("checks", "out_of_memory").look(a_run(trials, cases=[half, full]))
    assert finding.message == "batch_size 16 ran out of memory"


def test_a_batch_size_that_is_not_known_is_not_told():
    case = msgspec.structs.replace(a_case(), configuration={})
    trial = a_trial(case_id=case.case_id, status=Status.OUT_OF_MEMORY)
    (finding,) = registry.load("checks", "out_of_memory").look(a_run([trial], cases=[case]))
    assert finding.message == "the case ran out of memory"


def test_no_batch_is_advised_that_is_known_not_to_fit():
    """GPT-2 on an H200: 8, 64 and 512 fitted, the last with 114 GiB of 140; 2048 and 8192 do not."""
    base = a_case(placement=Placement("cuda", 0))
    sizes = {8: 4 << 30, 64: 16 << 30, 512: 114 << 30, 2048: None, 8192: None}
    cases = [msgspec.structs.replace(base, configuration={**base.configuration, "batch_size": n}) for n in sizes]
    trials = []
    for case, peak in zip(cases, sizes.values(), strict=True):
        if peak is None:
            trials.append(a_trial(status=Status.OUT_OF_MEMORY, case_id=case.case_id))
        else:
            trial = a_trial(case_id=case.case_id)
            peaks = Measurement("peak_reserved_bytes", Stage.STEADY, (float(peak),))
            trials.append(msgspec.structs.replace(trial, measurements=(*trial.measurements, peaks)))
    card = DeviceInfo("cuda", "cuda", "nvidia", 0, "NVIDIA H200", memory_bytes=140 << 30)
    run = a_run(trials, cases=cases, machine=a_machine(devices=(card,)))
    for finding in registry.load("checks", "out_of_memory").look(run):
        assert finding.values["settings"][0] == "--axis batch_size=512"
        kept = f"batch_size=512 grad_accumulation={finding.values['batch_size'] // 512}"
        assert kept in finding.values["settings"]
