"""Windows on a card whose energy counter moves every tenth of a second."""

import msgspec
import pytest
from build import a_case, a_run

from torchstone.core.schema.case import Placement
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.run import Plan, Run, Slot
from torchstone.execution.controller.rounds import Rounds
from torchstone.execution.controller.session import for_objective, least_window_s

CUDA = Placement("cuda")


@pytest.mark.parametrize(
    ("device", "mode", "least_s"),
    [("cuda", None, 2.2), ("cuda", "both", 1.1), ("cuda", "latency", 2.2), ("cpu", None, 0.0)],
)
def test_the_windows_of_a_trial_together_have_twenty_ticks(device, mode, least_s):
    case = a_case({} if mode is None else {"mode": mode}, placement=Placement(device))
    assert least_window_s(case) == pytest.approx(least_s)


@pytest.mark.parametrize(
    ("device", "budget_s", "window_s"), [("cpu", 5.0, 0.5), ("cuda", 5.0, 2.2), ("cuda", 1.0, 1.0)]
)
def test_rounds_take_them_where_nobody_wants_shorter_ones(device, budget_s, window_s):
    case = a_case(placement=Placement(device))
    head = msgspec.structs.replace(a_run().head, plan=Plan((case,), (Slot(0, 0),)))
    rounds = Rounds(Procedure(budget_s=budget_s), Run(head, (), (), None))
    assert rounds.procedure_for(0, 0).budget_s == pytest.approx(window_s)


def test_a_search_for_energy_takes_them_and_no_other():
    how = Procedure(budget_s=0.8)
    energy = for_objective(how, "energy", CUDA)
    assert energy.budget_s == pytest.approx(2.2)
    assert energy.target is None
    assert for_objective(Procedure(budget_s=9.0), "energy", CUDA).budget_s == 9.0
    assert for_objective(how, "throughput", CUDA) is how
    assert for_objective(how, "energy", Placement("cpu")) is how
