"""Plans: every case once, then again, in seeded order; what is asked for wrongly is refused without torch."""

import pytest
from build import a_machine

from torchstone.errors import UsageError
from torchstone.plan import Ask, arrange, place, sketch
from torchstone.terms.axis import AXES
from torchstone.terms.case import Placement
from torchstone.terms.machine import DeviceInfo
from torchstone.terms.message import Inspected

ASK = Ask("infer", "builtin:mlp", axes={"batch_size": ("1", "2", 4)})


def test_a_configuration_holds_every_axis_whether_named_or_not():
    (one,) = sketch(Ask("infer", "builtin:mlp")).configurations
    (same,) = sketch(Ask("infer", "builtin:mlp", axes={"batch_size": (1,), "precision": ("fp32",)})).configurations
    assert one == same
    assert one["image_size"] == 32, "the model's own default"
    assert "sequence_length" not in one
    assert one["feed"] == AXES["feed"].default


def test_names_have_one_form():
    assert sketch(Ask("infer", "distilbert")).workload == sketch(Ask("infer", "hf:distilbert-base-uncased")).workload


def test_the_head_has_as_many_classes_as_the_data():
    assert sketch(Ask("train", "hf:bert-tiny", "manual")).workload.fixed["classes"] == 2
    assert sketch(Ask("train", "hf:vit-tiny", "digits")).workload.fixed["data_classes"] == 10


def test_rounds_are_interleaved_and_seeded():
    cases = [sketch(ASK)]
    plan = arrange(cases, [Placement("cpu")], trials=5, seed=1)
    assert len(plan.cases) == 3
    rounds = [[slot.case for slot in plan.slots if slot.number == n] for n in range(5)]
    assert [slot.number for slot in plan.slots] == sorted(slot.number for slot in plan.slots)
    assert all(sorted(one) == [0, 1, 2] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1, "not always in the same order"
    assert arrange(cases, [Placement("cpu")], trials=5, seed=1) == plan
    assert arrange(cases, [Placement("cpu")], trials=5, seed=2) != plan


def test_the_same_case_asked_for_twice_is_one_case():
    plan = arrange([sketch(ASK), sketch(ASK)], [Placement("cpu")], trials=1, seed=0)
    assert len(plan.cases) == 3


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (Ask("tain", "builtin:mlp"), "Did you mean 'train'"),
        (Ask("infer", "bultin:mlp"), "Did you mean 'builtin'"),
        (Ask("infer", "distilbrt"), "Did you mean 'distilbert'"),
        (Ask("infer", "builtin:mpl"), "mlp"),
        (Ask("infer", "builtin:mlp", "manual"), "is text, but builtin:mlp takes image"),
        (Ask("infer", "builtin:mlp", "example"), "brings no example"),
        (Ask("infer", "builtin:mlp", axes={"batchsize": (1,)}), "Did you mean 'batch_size'"),
        (Ask("infer", "builtin:mlp", axes={"optimizer": ("sgd",)}), "does not go with task infer"),
        (Ask("infer", "builtin:mlp", axes={"batch_size": ()}), "has no value"),
        (Ask("infer", "builtin:mlp", options={"wieghts": "random"}), "Did you mean 'weights'"),
    ],
)
def test_what_is_refused(ask, said):
    with pytest.raises(UsageError, match=said):
        sketch(ask)


def test_a_device_that_is_not_here():
    machine = a_machine(devices=(DeviceInfo("cpu", "cpu", "Intel", 0, "a processor"),))
    found = Inspected(machine.devices, {}, {"mps": "this is Linux"})
    assert place("cpu", found, machine).device == "cpu"
    for word, said in (("mps", "this is Linux"), ("cpu:7", "there are 1 of kind cpu"), ("cdua", "Did you mean 'cuda'")):
        with pytest.raises(UsageError, match=said):
            place(word, found, machine)
