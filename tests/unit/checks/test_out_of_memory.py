"""Out of memory: the ladder of advice leaves out what is in use already, and names what fitted."""

import msgspec
from build import a_case, a_run, a_trial

from torchstone import registry
from torchstone.terms.estimate import Severity
from torchstone.terms.run import Plan, Run, Slot
from torchstone.terms.trial import Status


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
    assert "batch_size=8" in finding.advice
    assert "precision=bf16" in finding.advice


def test_it_does_not_advise_what_is_in_use():
    (finding,) = registry.load("checks", "out_of_memory").look(run_of(precision="bf16"))
    assert "bf16" not in finding.advice


def test_a_run_that_fits_is_silent():
    assert not list(registry.load("checks", "out_of_memory").look(a_run()))
