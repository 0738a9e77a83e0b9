"""What the marks of a program mean: where its steps end, what is in them, and what is left out."""

import itertools

import pytest

from torchstone.execution.program.steps import Mark, Marks, steps_of

ITERATION = (
    Mark.DATA_BEGIN, Mark.DATA_END, Mark.TRAIN_FORWARD, Mark.FORWARD_END, Mark.BACKWARD, Mark.BACKWARD_END,
    Mark.OPTIMIZER, Mark.OPTIMIZER_END,
)  # fmt: skip
EVALUATION = (Mark.DATA_BEGIN, Mark.DATA_END, Mark.FORWARD, Mark.FORWARD_END)
PASS = ITERATION[:6]
STEP = (Mark.OPTIMIZER, Mark.OPTIMIZER_END)


def marks(*kinds, ended_by=None, items=None, inputs=None, window_mark=None, **about):
    """A mark each millisecond; batches of 4."""
    ends = kinds.count(Mark.OPTIMIZER_END)
    forward = sum(kind in (Mark.FORWARD, Mark.TRAIN_FORWARD) for kind in kinds)
    return Marks(
        kinds=bytes(kinds).hex(), times=tuple(0.001 * place for place in range(len(kinds))),
        items=tuple(items if items is not None else [4] * kinds.count(Mark.DATA_END)),
        inputs=tuple(inputs if inputs is not None else [4] * forward),
        ended_by=tuple(ended_by if ended_by is not None else [0] * ends), steps=ends, device="cpu", torch="2.13.0",
        threads=2, workers=0, memory={}, ended_s=1.0, has_optimizer=ends > 0, window_mark=window_mark, **about,
    )  # fmt: skip


def test_a_step_ends_with_the_optimizers_and_its_phases_sum_to_it():
    found = steps_of(marks(*ITERATION * 4, window_mark=16))
    assert len(found) == 3, "when the first one began is not known"
    for step in found:
        assert step.elapsed_s == pytest.approx(0.008)
        assert sum(step.phases_s.values()) == pytest.approx(step.elapsed_s)
        assert step.phases_s == pytest.approx(
            {"rest": 0.004, "data": 0.001, "forward": 0.001, "backward": 0.001, "optimizer": 0.001}
        )
        assert step.items == 4
        assert step.passes == 1
    assert [step.steady for step in found] == [False, True, True]


def test_accumulation_is_one_step_of_all_its_batches():
    (step,) = steps_of(marks(*(*PASS, *PASS, *PASS, *STEP) * 2))
    assert (step.items, step.passes) == (12, 3)


@pytest.mark.parametrize("by", ["auto", "backward"])
def test_without_an_optimizer_a_training_steps_with_its_backward_pass(by):
    found = steps_of(marks(*PASS * 5, *EVALUATION * 2, *PASS * 2), by)
    assert [step.passes for step in found] == [1] * 5, "the step with the evaluation is left out"
    assert {step.items for step in found} == {4}
    assert marks(*PASS).trains
    assert not marks(*EVALUATION).trains


@pytest.mark.parametrize(
    ("ended_by", "steps"), [([0, 1] * 4, 3), ([0, 0, 0, 1] * 4, 3), ([1, 0] * 4, 3)],
    ids=["discriminator, generator", "three to one", "whichever comes last"],
)  # fmt: skip
def test_of_several_optimizers_the_rarest_or_last_ends_the_step(ended_by, steps):
    found = steps_of(marks(*ITERATION * len(ended_by), ended_by=ended_by))
    assert len(found) == steps
    assert {step.passes for step in found} == {len(ended_by) // 4}


def test_within_a_closure_forward_and_backward_are_not_the_optimizers_time():
    closure = (Mark.OPTIMIZER, *ITERATION[2:6], Mark.OPTIMIZER_END)
    (step,) = steps_of(marks(*closure * 2))
    assert step.phases_s == pytest.approx({"rest": 0.001, "optimizer": 0.003, "forward": 0.001, "backward": 0.001})


def test_a_step_with_an_evaluation_is_left_out_but_a_teacher_is_part_of_each():
    some = list(itertools.chain(*(ITERATION if n % 5 else (*EVALUATION, *ITERATION) for n in range(1, 20))))
    found = steps_of(marks(*some))
    assert {round(step.elapsed_s, 6) for step in found} == {0.008}
    assert len(found) == 15
    taught = steps_of(marks(*(*EVALUATION[2:], *ITERATION) * 5))
    assert len(taught) == 4
    assert taught[0].phases_s["forward"] == pytest.approx(0.002)


def test_without_a_loader_the_inputs_of_the_model_are_the_items_and_what_is_not_known_is_none():
    own = ITERATION[2:]
    assert steps_of(marks(*own * 3, inputs=[7, 7, 7]))[0].items == 7
    assert steps_of(marks(*own * 3, inputs=[7, None, 7]))[0].items is None
    assert steps_of(marks(*ITERATION * 3, world=2))[0].items == 8, "every rank has as many"


def test_without_an_optimizer_a_forward_pass_is_the_step():
    (*_, step) = steps_of(marks(*EVALUATION * 3))
    assert step.elapsed_s == pytest.approx(0.004)
    assert step.phases_s == pytest.approx({"rest": 0.002, "data": 0.001, "forward": 0.001})


def test_what_ends_a_step_can_be_named():
    assert len(steps_of(marks(*(*PASS, *PASS, *STEP) * 3), by="backward")) == 5
    assert len(steps_of(marks(*ITERATION * 3), by="forward")) == 2


def test_a_program_that_ended_before_its_first_step_has_none():
    assert steps_of(marks(*EVALUATION[:2])) == []
    assert steps_of(marks(*PASS)) == []
