"""Which devices a run takes, and what it does with those that are not here."""

import msgspec
import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.core.errors import UsageError
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Run, Slot
from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.controller.rounds import FAILED, Rounds
from torchstone.workflows.run.planned_run import places

MACHINE = a_machine(devices=(DeviceInfo("cpu", "cpu", "Intel", 0, "a processor"),))
FOUND = Inspected(MACHINE.devices, {}, {"mps": "this is Linux", "cuda": "no driver"})


def test_devices_that_are_not_here_have_their_reason():
    here, absent = places(["mps", "cpu", "cuda:1"], FOUND, MACHINE, absent_ok=True)
    assert here == [Placement("cpu")]
    assert absent == {
        Placement("mps"): "device mps not found: this is Linux",
        Placement("cuda", 1): "device cuda:1 not found: no driver",
    }


@pytest.mark.parametrize(
    ("words", "absent_ok", "said"),
    [
        (["cpu", "mps"], False, "device mps not found: this is Linux. Found: cpu:0 a processor"),
        (["cuda", "mps"], True, "device cuda not found: no driver. Found: cpu:0 a processor"),
        (["cpu", "cdua"], True, "Did you mean 'cuda'"),
    ],
)
def test_who_typed_them_and_a_file_of_which_none_is_here_are_refused(words, absent_ok, said):
    with pytest.raises(UsageError, match=said):
        places(words, FOUND, MACHINE, absent_ok=absent_ok)


def test_a_case_whose_device_is_not_here_takes_no_round_and_no_time():
    cases = (a_case(), a_case(placement=Placement("mps")))
    head = msgspec.structs.replace(a_run().head, machine=MACHINE, plan=Plan(cases, (Slot(0, 0),)))
    assert head.measurable == (0,)
    told = a_trial(case_id=cases[1].case_id, outcome=Outcome(Status.UNSUPPORTED, "not here"), measurements=())
    rounds = Rounds(Procedure(within_s=60.0), Run(head, (told,), (), None))
    rounds.note(a_trial([0.01] * 20, case_id=cases[0].case_id))
    assert rounds.next(1.0).cases == (0,)
    failed = Outcome(Status.CRASHED, "no")
    broken = Rounds(Procedure(within_s=60.0), Run(head, (told,), (), None))
    for number in range(2):
        broken.note(a_trial(case_id=cases[0].case_id, number=number, outcome=failed, measurements=()))
    assert broken.next(1.0).why == FAILED
