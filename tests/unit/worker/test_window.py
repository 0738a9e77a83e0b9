import pytest
from build import a_case

from torchstone.errors import Unsupported
from torchstone.terms.procedure import Procedure
from torchstone.worker.window import planned_steps, warm_up_plan


@pytest.mark.parametrize(
    ("epochs", "items", "batch", "accumulation", "steps"),
    [
        (1, 1797, 32, 1, 56),  # the last 5 items are no batch
        (2, 1797, 32, 1, 112),
        (1, 1797, 32, 8, 7),
        (1, 100, 10, 3, 3),
        (3, 100, 10, 3, 10),  # batches that are left over go into the next epoch's first step
        (1, 64, 32, 1, 2),
    ],
)
def test_an_epoch_is_every_whole_batch_once_and_its_first_step_is_timed_apart(
    epochs, items, batch, accumulation, steps
):
    case = a_case({"batch_size": batch, "grad_accumulation": accumulation})
    assert planned_steps(Procedure(epochs=epochs), case, items) == steps - 1


@pytest.mark.parametrize(
    ("items", "said"), [(63, "63 items make 1 steps of 32; 2 are the least"), (None, "has no end")]
)
def test_what_makes_no_epoch_is_unsupported_with_the_reason(items, said):
    with pytest.raises(Unsupported, match=said):
        planned_steps(Procedure(epochs=1), a_case({"batch_size": 32}), items)


def test_without_epochs_the_iterations_count_or_the_stopping_rule():
    assert planned_steps(Procedure(iterations=7), a_case(), None) == 7
    assert planned_steps(Procedure(), a_case(), 1797) is None


def test_an_epoch_has_no_warm_up_not_even_for_the_loaders_queue():
    assert not warm_up_plan(Procedure(epochs=1), 8, rehearse=False).goes_on(0, [], 0.0)
    assert warm_up_plan(Procedure(), 8, rehearse=False).goes_on(7, [0.1] * 7, 99.0)
    rehearsal = warm_up_plan(Procedure(warmup=50), 0, rehearse=True)
    assert not rehearsal.goes_on(2, [0.1, 0.1], 0.1)
