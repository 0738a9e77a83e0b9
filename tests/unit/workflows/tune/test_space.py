import pytest
from build import a_tune_spec

from torchstone.core.errors import UsageError
from torchstone.core.schema.answer import Constraints
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.case import Task
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.search import Part
from torchstone.workflows.tune.space import TuneSpace, applied, usual_axes

BASE = a_tune_spec().base.configuration


def test_every_point_is_there_once_but_those_excluded():
    assert len(TuneSpace(a_tune_spec()).points) == 8
    left = TuneSpace(a_tune_spec(exclude=("batch_size>=32,precision=fp32",))).points
    assert len(left) == 6
    assert {"batch_size": 32, "num_workers": 0, "precision": "fp32"} not in left


def test_a_condition_may_speak_of_an_axis_that_does_not_vary():
    assert len(TuneSpace(a_tune_spec(exclude=("image_size=32,batch_size=8",))).points) == 4


def test_no_point_left_is_told_with_what_removed_it():
    with pytest.raises(UsageError, match="none of 8 settings is left: batch_size>=8 removes 8"):
        TuneSpace(a_tune_spec(exclude=("batch_size>=8",)))


def test_parts_leave_out_what_does_not_matter_to_them():
    space = TuneSpace(a_tune_spec())
    point: dict[str, Scalar] = {"batch_size": 32, "num_workers": 2, "precision": "bf16"}
    whole, device, loader = (space.case(point, part) for part in (Part.WHOLE, Part.DEVICE, Part.LOADER))
    assert whole.configuration["feed"] == "loader"
    assert (device.configuration["feed"], device.configuration["num_workers"]) == ("resident", 0)
    assert loader.workload.task == Task.LOAD
    assert "precision" not in loader.configuration
    assert loader.case_id == space.case({**point, "precision": "fp32"}, Part.LOADER).case_id
    assert device.case_id == space.case({**point, "num_workers": 0}, Part.DEVICE).case_id
    assert space.point_of(whole) == point


def test_accumulation_keeps_the_effective_batch_and_the_rate_follows_its_root():
    space = TuneSpace(a_tune_spec(constraints=Constraints(effective_batch=32), learning_rate_rule="sqrt"))
    case = space.case({"batch_size": 8, "num_workers": 0, "precision": "fp32"})
    assert case.configuration["grad_accumulation"] == 4
    assert case.configuration["learning_rate"] == pytest.approx(2e-3)  # 8 → 32 effective: twice
    with pytest.raises(UsageError, match="--effective-batch 12 is not a multiple of any batch size: 8, 32"):
        TuneSpace(a_tune_spec(constraints=Constraints(effective_batch=12)))


def test_usual_axes_are_what_the_device_and_the_data_have():
    card = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "a card", compute_capability="8.0")
    old = DeviceInfo("cuda", "cuda", "NVIDIA", 0, "an old card", compute_capability="7.0")
    cpu = DeviceInfo("cpu", "cpu", "Intel", 0, "a processor")
    assert usual_axes("train", card, 16, BASE, loads=True)["precision"] == ("fp32", "tf32", "bf16")
    assert usual_axes("train", old, 16, BASE, loads=True)["precision"] == ("fp32", "fp16")
    assert "pin_memory" in usual_axes("train", card, 16, BASE, loads=True)
    assert usual_axes("train", cpu, 2, BASE, loads=True)["num_workers"] == (0, 1, 2, 4)
    assert set(usual_axes("train", cpu, 2, BASE, loads=False)) == {"batch_size", "precision"}


def test_ranks_count_in_the_effective_batch_and_one_process_has_no_strategy():
    axes = {"batch_size": (8, 32), "world_size": (1, 2, 4), "strategy": ("none", "ddp")}
    space = TuneSpace(a_tune_spec(axes=axes, constraints=Constraints(effective_batch=32)))
    found = {}
    for point in space.points:
        case = space.case(point)
        settings = case.configuration
        found[settings["world_size"], settings["strategy"], settings["batch_size"]] = settings["grad_accumulation"]
        assert case.placement.count == settings["world_size"]
        assert settings["backend"] == ("auto" if settings["strategy"] == "none" else "gloo")
        assert space.point_of(case) == point
    assert found == {
        (1, "none", 8): 4, (1, "none", 32): 1, (1, "ddp", 8): 4, (1, "ddp", 32): 1, (2, "ddp", 8): 2, (4, "ddp", 8): 1,
    }  # fmt: skip


def test_the_present_settings_are_those_of_the_user_whatever_batch_is_wanted():
    present: dict[str, Scalar] = {"batch_size": 8, "num_workers": 0, "precision": "fp32", "optimizer": "sgd"}
    space = TuneSpace(
        a_tune_spec(present=present, constraints=Constraints(effective_batch=32), learning_rate_rule="sqrt")
    )
    now = space.present()
    assert now is not None
    assert (now.configuration["grad_accumulation"], now.configuration["learning_rate"]) == (1, 1e-3)
    assert now.configuration["optimizer"] == "sgd", "which does not vary, and is measured otherwise"
    assert not space.keeps_the_batch(now)
    assert space.keeps_the_batch(space.case({axis: present[axis] for axis in space.axes}))
    assert space.brief(None, 0).present == {axis: present[axis] for axis in space.axes}
    same = TuneSpace(a_tune_spec(present={axis: present[axis] for axis in space.axes}, learning_rate_rule="sqrt"))
    assert same.present() == same.case({axis: present[axis] for axis in space.axes})


def test_a_loaders_settings_are_applied_only_where_one_fed_the_steps():
    configuration = {**BASE, "num_workers": 2}
    assert applied(configuration)["num_workers"] == 2
    assert "num_workers" not in applied({**configuration, "feed": "resident"})
    assert "image_size" not in applied(configuration), "which is another training"


def test_a_runtime_is_never_tried_beside_what_it_cannot_have():
    axes: dict[str, tuple[Scalar, ...]] = {
        "runtime": ("eager", "onnxruntime"),
        "quantization": ("none", "int8-dynamic", "int8-static"),
        "precision": ("fp32", "bf16"),
    }
    points = [tuple(point.values()) for point in TuneSpace(a_tune_spec(axes=axes)).points]
    assert points == [
        ("eager", "none", "fp32"),
        ("eager", "none", "bf16"),
        ("eager", "int8-dynamic", "fp32"),
        ("onnxruntime", "none", "fp32"),
        ("onnxruntime", "int8-dynamic", "fp32"),
        ("onnxruntime", "int8-static", "fp32"),
    ]
    with pytest.raises(UsageError, match="runtime=onnxruntime, precision=bf16"):
        TuneSpace(a_tune_spec(axes={"runtime": ("onnxruntime",), "precision": ("bf16",)}))
