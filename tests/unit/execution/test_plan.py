"""Plans: every case once, then again, in seeded order; what is asked for wrongly is refused without torch."""

import pytest
from build import a_machine

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.message import Inspected
from torchstone.core.schema.model import OwnData
from torchstone.core.schema.request import WorkloadRequest, parse
from torchstone.execution.plan import arrange, first_case, place, sketch, with_own_data

ASK = WorkloadRequest("infer", "builtin:mlp", axes={"batch_size": (1, 2, 4)})


def test_a_configuration_holds_every_axis_whether_named_or_not():
    (one,) = sketch(WorkloadRequest("infer", "builtin:mlp")).configurations
    (same,) = sketch(
        WorkloadRequest("infer", "builtin:mlp", axes={"batch_size": (1,), "precision": ("fp32",)})
    ).configurations
    assert one == same
    assert one["image_size"] == 32, "the model's own default"
    assert "sequence_length" not in one
    assert one["feed"] == AXES["feed"].default


def test_names_have_one_form():
    assert (
        sketch(WorkloadRequest("infer", "distilbert")).workload
        == sketch(WorkloadRequest("infer", "hf:distilbert-base-uncased")).workload
    )


def test_the_head_has_as_many_classes_as_the_data():
    assert sketch(WorkloadRequest("train", "hf:bert-tiny", "manual")).workload.fixed["classes"] == 2
    assert sketch(WorkloadRequest("train", "hf:vit-tiny", "digits")).workload.fixed["data_classes"] == 10


def test_rounds_are_interleaved_and_seeded():
    cases = [sketch(ASK)]
    plan = arrange(cases, [Placement("cpu")], a_machine(), trials=5, seed=1)
    assert len(plan.cases) == 3
    rounds = [[slot.case for slot in plan.slots if slot.number == n] for n in range(5)]
    assert [slot.number for slot in plan.slots] == sorted(slot.number for slot in plan.slots)
    assert all(sorted(one) == [0, 1, 2] for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1, "not always in the same order"
    assert arrange(cases, [Placement("cpu")], a_machine(), trials=5, seed=1) == plan
    assert arrange(cases, [Placement("cpu")], a_machine(), trials=5, seed=2) != plan


def test_the_same_case_asked_for_twice_is_one_case():
    plan = arrange([sketch(ASK), sketch(ASK)], [Placement("cpu")], a_machine(), trials=1, seed=0)
    assert len(plan.cases) == 3


def test_the_axes_of_the_user_lead_in_the_users_order():
    ask = WorkloadRequest("train", "builtin:mlp", axes={"precision": ("bf16", "fp32"), "batch_size": (8, 2)})
    configurations = sketch(ask).configurations
    assert list(configurations[0])[:2] == ["precision", "batch_size"]
    assert [(c["precision"], c["batch_size"]) for c in configurations] == [
        ("bf16", 8), ("bf16", 2), ("fp32", 8), ("fp32", 2),
    ]  # fmt: skip


def test_who_asks_for_workers_gets_a_loader():
    assert (
        sketch(WorkloadRequest("train", "builtin:mlp", axes={"num_workers": (0, 2)})).configurations[0]["feed"]
        == "loader"
    )
    axes: dict[str, tuple[Scalar, ...]] = {"num_workers": (2,), "feed": ("resident",)}
    assert sketch(WorkloadRequest("train", "builtin:mlp", axes=axes)).configurations[0]["feed"] == "resident"


@pytest.mark.parametrize(
    ("task", "data", "fed", "feed"),
    [
        ("train", "digits", False, "loader"),
        ("train", "synthetic", False, "resident"),
        ("infer", "digits", False, "resident"),
        ("infer", "digits", True, "loader"),
        ("infer", "synthetic", True, "resident"),
    ],
)
def test_real_data_come_through_the_loader_where_the_question_is_not_about_the_model_alone(task, data, fed, feed):
    assert sketch(WorkloadRequest(task, "builtin:cnn", data, fed=fed)).configurations[0]["feed"] == feed
    asked = sketch(WorkloadRequest(task, "builtin:cnn", data, axes={"feed": ("resident",)}, fed=fed))
    assert asked.configurations[0]["feed"] == "resident", "who asks for it gets it"


OWN = OwnData(True, {"batch_size": 32, "num_workers": 2}, {"batch_size": 32}, Statement("batch_sampler"))


def own_sketch(tmp_path, task="train", **axes):
    (tmp_path / "mine.py").write_text("def load():\n    pass\n")
    return sketch(WorkloadRequest(task, f"py:{tmp_path}/mine.py:load", axes=axes))


def test_the_data_of_any_model_can_be_loaded_alone():
    (one,) = sketch(WorkloadRequest("load", "builtin:cnn", "digits")).configurations
    assert "num_workers" in one
    assert "feed" not in one, "it is nothing but a loader"


def test_data_of_the_users_own_decide_what_nobody_named(tmp_path):
    assert sketch(WorkloadRequest("train", "builtin:cnn", "digits")).left_open == ()
    found = own_sketch(tmp_path, num_workers=(0, 1))
    assert set(found.left_open) == {"batch_size", "pin_memory", "prefetch_factor", "feed"}
    done = with_own_data(found, OWN)
    assert [(c["num_workers"], c["batch_size"], c["feed"]) for c in done.configurations] == [
        (0, 32, "loader"), (1, 32, "loader"),
    ]  # fmt: skip
    assert done.left_open == ()
    assert with_own_data(found, OwnData()).configurations == found.configurations, "an example batch"
    assert "feed" not in own_sketch(tmp_path, "infer").left_open, "inference is a question about the model"


def test_an_axis_that_the_users_data_fix_is_refused_with_the_reason(tmp_path):
    says = "batch_size=8 not possible: a batch_sampler makes the batches, with batch_size=32; return the Dataset"
    with pytest.raises(UsageError, match=says):
        with_own_data(own_sketch(tmp_path, batch_size=(32, 8)), OWN)


def test_what_is_excluded_is_not_planned():
    ask = WorkloadRequest(
        "infer", "builtin:mlp", axes={"batch_size": (1, 2, 4)}, exclude=(parse("batch_size>=2,precision=fp32"),)
    )
    assert [c["batch_size"] for c in sketch(ask).configurations] == [1]
    with pytest.raises(UsageError, match="infer builtin:mlp: none of 1 settings is left: batch_size=1 removes 1"):
        sketch(WorkloadRequest("infer", "builtin:mlp", exclude=(parse("batch_size=1"),)))


@pytest.mark.parametrize(
    ("kind", "asked", "planned"),
    [
        ("cpu", (True,), [False]), ("mps", (True,), [False]), ("cuda", (True,), [True]),
        ("cpu", (True, False), [True, False]), ("cpu", (False,), [False]),
    ],
)  # fmt: skip
def test_page_locked_memory_is_planned_where_it_has_an_effect_or_is_what_is_asked_about(kind, asked, planned):
    found = sketch(WorkloadRequest("train", "builtin:mlp", axes={"pin_memory": asked}))
    whole = arrange([found], [Placement(kind)], a_machine(), 1, 0)
    assert [case.configuration["pin_memory"] for case in whole.cases] == planned
    assert {case.configuration["feed"] for case in whole.cases} == {"loader"}, "who names it means a loader"
    assert first_case(found, Placement(kind), a_machine()) == whole.cases[0]


def test_what_comes_first_comes_first_in_every_round():
    ask = WorkloadRequest("infer", "builtin:mlp", axes={"batch_size": tuple(range(1, 9))})
    first = [parse("batch_size>6"), parse("batch_size<=3")]
    plan = arrange([sketch(ask)], [Placement("cpu")], a_machine(), 6, 0, first)
    sizes = [[plan.cases[s.case].configuration["batch_size"] for s in plan.slots if s.number == n] for n in range(6)]
    assert all((set(one[:2]), set(one[2:5])) == ({7, 8}, {1, 2, 3}) for one in sizes)
    assert len({tuple(one) for one in sizes}) > 1, "in seeded order among equals"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (WorkloadRequest("tain", "builtin:mlp"), "Did you mean 'train'"),
        (WorkloadRequest("infer", "bultin:mlp"), "Did you mean 'builtin'"),
        (WorkloadRequest("infer", "distilbrt"), "Did you mean 'distilbert'"),
        (WorkloadRequest("infer", "builtin:mpl"), "mlp"),
        (
            WorkloadRequest("infer", "outputs/a model.pth"),
            "write builtin:NAME@outputs/a model.pth .*, or py:FILE.py:FUNCTION that",
        ),
        (WorkloadRequest("infer", "builtin:mlp", "manual"), "is text, but builtin:mlp takes image"),
        (WorkloadRequest("infer", "builtin:mlp", "example"), "returns no example"),
        (WorkloadRequest("infer", "builtin:mlp", axes={"batchsize": (1,)}), "Did you mean 'batch_size'"),
        (WorkloadRequest("infer", "builtin:mlp", axes={"optimizer": ("sgd",)}), "does not apply to task infer"),
        (WorkloadRequest("infer", "builtin:mlp", options={"wieghts": "random"}), "Did you mean 'weights'"),
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


def test_a_prompt_is_as_long_as_it_was_asked_for_and_only_language_models_go_on():
    assert sketch(WorkloadRequest("generate", "hf:gpt2-tiny")).workload.data == "synthetic:full"
    assert sketch(WorkloadRequest("infer", "hf:gpt2-tiny")).workload.data == "synthetic"
    assert (
        sketch(WorkloadRequest("generate", "hf:opt-tiny", "manual", axes={"new_tokens": ("4", 8)})).workload.data
        == "manual"
    )
    with pytest.raises(UsageError, match=r"bert-tiny does not support task 'generate' \(supported: infer, train\)"):
        sketch(WorkloadRequest("generate", "hf:bert-tiny"))
    with pytest.raises(UsageError, match="mlp does not support task 'generate'"):
        sketch(WorkloadRequest("generate", "builtin:mlp"))


@pytest.mark.parametrize(
    ("native", "meant"),
    [
        (("fp32", "tf32", "bf16", "fp16"), "bf16"), (("fp32", "bf16"), "bf16"), (("fp32", "tf32"), "tf32"),
        (("fp32", "fp16"), "fp32"), ((), "fp32"),
    ],
)  # fmt: skip
def test_auto_precision_is_what_the_device_has_natively_and_the_case_says_which(native, meant):
    card = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "a card", precisions=native)
    ask = WorkloadRequest("infer", "builtin:mlp", axes={"precision": ("auto", meant)})
    plan = arrange([sketch(ask)], [Placement("cuda")], a_machine(devices=(card,)), 1, 0)
    assert [case.configuration["precision"] for case in plan.cases] == [meant], "both words mean one Case here"
    (asked,) = sketch(WorkloadRequest("infer", "builtin:mlp", axes={"precision": (meant,)})).configurations
    assert plan.cases[0].configuration == asked


def test_auto_precision_differs_between_devices():
    cards = (
        DeviceInfo("cpu", "cpu", "Intel", 0, "old", precisions=("fp32",)),
        DeviceInfo("cuda", "cuda", "NVIDIA", 0, "new", precisions=("fp32", "bf16")),
    )
    ask = WorkloadRequest("infer", "builtin:mlp", axes={"precision": ("auto",)})
    plan = arrange([sketch(ask)], [Placement("cpu"), Placement("cuda")], a_machine(devices=cards), 1, 0)
    assert [case.configuration["precision"] for case in plan.cases] == ["fp32", "bf16"]


def test_auto_never_passes_over_a_card_that_cannot_be_used():
    cpu, card = DeviceInfo("cpu", "cpu", "Intel", 0, "a processor"), DeviceInfo("xpu", "xpu", "Intel", 0, "Arc")
    broken = Inspected((cpu,), {}, {"cuda": "a build without CUDA"}, {"cuda": "NVIDIA H200 (by NVML)"})
    with pytest.raises(MissingError) as refused:
        place("auto", broken, a_machine(devices=(cpu,)))
    assert str(refused.value) == (
        "device auto: torch cannot use NVIDIA H200 (by NVML): a build without CUDA. --device cpu measures the CPU"
    )
    assert place("cpu", broken, a_machine(devices=(cpu,))) == Placement("cpu", 0), "who names the CPU gets it"
    both = Inspected((cpu, card), {}, broken.missing, broken.seen)
    assert place("auto", both, a_machine(devices=(cpu, card))) == Placement("xpu", 0), "an accelerator that can be used"
    assert place("auto", Inspected((cpu,), {}, {}), a_machine(devices=(cpu,))) == Placement("cpu", 0)


@pytest.mark.parametrize(
    ("task", "model", "identity"),
    [
        ("train", "builtin:cnn", "2657716e339f"),
        ("infer", "builtin:cnn", "3d05b4412c23"),
        ("load", "builtin:cnn", "059c41fb0782"),
        ("generate", "hf:gpt2", "ef26bb55541f"),
        ("loadgen", "builtin:cnn", "002b5a18c0b4"),
    ],
)
def test_history_finds_the_runs_of_a_release_before(task, model, identity):
    planned = sketch(WorkloadRequest(task, model, "synthetic:full"))
    cases = [Case(planned.workload, configuration, Placement("cpu")) for configuration in planned.configurations]
    assert [case.case_id for case in cases] == [identity], "a new axis of every Configuration? write on_request=True"
