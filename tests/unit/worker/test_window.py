"""How a trial warms up."""

from torchstone.terms.procedure import Procedure
from torchstone.worker.window import warm_up_plan


def test_a_rehearsal_does_one_step_and_all_else_drains_the_loaders_queue():
    assert warm_up_plan(Procedure(), 8, rehearse=False).goes_on(7, [0.1] * 7, 99.0)
    rehearsal = warm_up_plan(Procedure(warmup=50), 0, rehearse=True)
    assert not rehearsal.goes_on(2, [0.1, 0.1], 0.1)
