"""How a trial warms up."""

from torchstone.core.schema.procedure import Procedure
from torchstone.execution.worker.window import warm_up_plan


def test_a_rehearsal_does_one_step_and_all_else_drains_the_loaders_queue():
    assert warm_up_plan(Procedure(), 8, "cpu", rehearse=False).goes_on(7, [0.1] * 7, 99.0)
    rehearsal = warm_up_plan(Procedure(warmup=50), 0, "cuda", rehearse=True)
    assert not rehearsal.goes_on(2, [0.1, 0.1], 0.1)


def test_on_an_accelerator_half_a_second_is_the_least():
    steps_s = [0.002] * 20
    assert not warm_up_plan(Procedure(), 0, "cpu", rehearse=False).goes_on(20, steps_s, 0.04)
    assert warm_up_plan(Procedure(), 0, "cuda", rehearse=False).goes_on(20, steps_s, 0.04)
    assert not warm_up_plan(Procedure(), 0, "cuda", rehearse=False).goes_on(250, steps_s, 0.5)
