"""How a trial warms up."""

from torchstone.core.schema.procedure import Procedure
from torchstone.execution.worker.window import warm_up_plan


def test_it_drains_the_loaders_queue():
    assert warm_up_plan(Procedure(), 8, "cpu").goes_on(7, [0.1] * 7, 99.0)


def test_on_an_accelerator_half_a_second_is_the_least():
    steps_s = [0.002] * 20
    assert not warm_up_plan(Procedure(), 0, "cpu").goes_on(20, steps_s, 0.04)
    assert warm_up_plan(Procedure(), 0, "cuda").goes_on(20, steps_s, 0.04)
    assert not warm_up_plan(Procedure(), 0, "cuda").goes_on(250, steps_s, 0.5)
