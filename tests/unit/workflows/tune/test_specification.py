import msgspec
import pytest
from build import a_machine

from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.answer import Constraints
from torchstone.core.schema.case import Placement
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.model import OwnData
from torchstone.core.schema.request import WorkloadRequest
from torchstone.workflows.tune.specification import TuneRequest, TuneSketch

MACHINE = a_machine(devices=(DeviceInfo("cpu", "cpu", "Intel", 0, "a processor", memory_bytes=8 * 10**9),))


def a_request(axes=None, task="train", **changes):
    asked = WorkloadRequest(task, "builtin:cnn", "digits", axes=axes or {})
    return TuneRequest(**{"run": RunRequest((asked,)), **changes})


def spec(axes=None, **changes):
    return TuneSketch(a_request(axes, **changes)).spec(Placement("cpu"), MACHINE, 3)


def test_a_training_with_data_varies_batch_workers_and_precision():
    found = spec()
    assert set(found.axes) == {"batch_size", "num_workers", "precision"}
    assert found.base.configuration["feed"] == "loader"
    assert found.present is None


def test_single_values_of_a_file_are_what_the_user_has_now():
    found = spec({"batch_size": (48,), "num_workers": (0,)})
    assert found.present == {"batch_size": 48, "num_workers": 0, "precision": "fp32"}
    assert 48 in found.axes["batch_size"], "what is there now must be among what is tried"
    assert list(found.axes["batch_size"]) == sorted(found.axes["batch_size"])


def test_several_values_are_what_may_be_tried():
    assert spec({"batch_size": (8, 16)}).axes["batch_size"] == (8, 16)
    assert spec({"optimizer": ("sgd", "adamw")}).axes["optimizer"] == ("sgd", "adamw")


def test_one_value_on_the_command_line_stays():
    found = spec({"precision": ("bf16",)}, fixed={"precision": "bf16"}, found={"precision": "fp32", "batch_size": 8})
    assert "precision" not in found.axes
    assert found.base.configuration["precision"] == "bf16"
    assert found.present is not None
    assert found.present["precision"] == "fp32", "the present settings are the file's"


def own_sketch(tmp_path, axes=None, **changes):
    (tmp_path / "mine.py").write_text("def load():\n    pass\n")
    asked = WorkloadRequest("train", f"py:{tmp_path}/mine.py:load", axes=axes or {})
    return TuneSketch(TuneRequest(RunRequest((asked,)), **changes))


def test_the_settings_of_the_users_loader_are_the_present_ones(tmp_path):
    asked = own_sketch(tmp_path, {"batch_size": (4, 8)})
    asked.take(OwnData(True, {"batch_size": 48, "num_workers": 3}))
    found = asked.spec(Placement("cpu"), MACHINE, 3)
    assert set(found.axes) == {"batch_size", "num_workers", "precision"}
    assert found.axes["batch_size"] == (4, 8, 48)
    assert 3 in found.axes["num_workers"]
    assert found.present == {"batch_size": 48, "num_workers": 3, "precision": "fp32"}
    assert found.base.configuration["feed"] == "loader"
    said = own_sketch(tmp_path, present={"num_workers": 1})
    said.take(OwnData(True, {"batch_size": 48, "num_workers": 3}))
    now = said.spec(Placement("cpu"), MACHINE, 3).present
    assert now is not None
    assert now["num_workers"] == 1, "who says what there is now knows better"


def test_workers_of_the_users_own_data_set_are_tuned_and_an_example_has_none(tmp_path):
    asked = own_sketch(tmp_path)
    asked.take(OwnData(True))
    assert "num_workers" in asked.spec(Placement("cpu"), MACHINE, 3).axes
    asked = own_sketch(tmp_path)
    asked.take(OwnData())
    assert "num_workers" not in asked.spec(Placement("cpu"), MACHINE, 3).axes


def test_what_the_users_data_fix_does_not_vary_and_asking_for_it_says_why(tmp_path):
    fixed = OwnData(True, {"batch_size": 8, "num_workers": 0}, {"batch_size": 8, "num_workers": 0}, Statement("x"))
    asked = own_sketch(tmp_path)
    asked.take(fixed)
    assert set(asked.spec(Placement("cpu"), MACHINE, 3).axes) == {"precision"}
    for words in ({"only": ("num_workers",)}, {"axes": {"num_workers": (0, 2)}}):
        with pytest.raises(UsageError, match="num_workers cannot vary: x; return the Dataset"):
            own_sketch(tmp_path, **words).take(fixed)


def test_resident_batches_of_real_data_have_no_workers_to_tune():
    assert "num_workers" not in spec({"feed": ("resident",)}, fixed={"feed": "resident"}).axes
    assert spec(task="infer").base.configuration["feed"] == "loader"
    assert spec(task="infer", objective="latency").base.configuration["feed"] == "resident"


def test_only_some_axes_vary():
    found = spec(only=("num_workers",), present={"batch_size": 64})
    assert set(found.axes) == {"num_workers"}
    assert found.base.configuration["batch_size"] == 64
    with pytest.raises(UsageError, match="--only grad_clip: give its values"):
        spec(only=("grad_clip",))
    with pytest.raises(UsageError, match=r"unknown axis 'workers'\. Did you mean 'num_workers'"):
        spec(only=("workers",))


def test_nothing_is_pinned_without_an_accelerator():
    pinning = {"pin_memory": (False, True), "batch_size": (8, 16)}
    found = spec(pinning, found={"pin_memory": True})
    assert set(found.axes) == {"num_workers", "batch_size", "precision"}
    assert found.base.configuration["pin_memory"] is False, "a file that is for a card is tuned on a CPU all the same"
    asked = TuneSketch(a_request(fixed={"pin_memory": True}))
    assert asked.spec(Placement("cpu"), MACHINE, 3).base.configuration["pin_memory"] is False, "and whoever typed it"
    (told,) = asked.notes(Placement("cpu"))
    assert "pin_memory=true has no effect on cpu" in told.message
    assert asked.notes(Placement("cuda")) == TuneSketch(a_request()).notes(Placement("cpu")) == []
    card = DeviceInfo("cuda", "cuda", "nvidia", 0, "a card", memory_bytes=8 * 10**10)
    there = TuneSketch(a_request(pinning)).spec(Placement("cuda"), a_machine(devices=(card,)), 3)
    assert there.axes["pin_memory"] == (False, True)


def test_what_the_file_to_write_says_is_the_present_as_far_as_the_workload_has_it():
    found = spec(found={"batch_size": 4, "sequence_length": 128, "learning_rate": 0.1}, learning_rate_rule="sqrt")
    assert found.present is not None
    assert found.present["batch_size"] == 4
    assert found.learning_rate_rule == "sqrt"
    assert found.base.configuration["learning_rate"] == 0.1
    assert "sequence_length" not in found.base.configuration
    assert spec(learning_rate_rule="sqrt").learning_rate_rule is None, "a rate that nobody stated is not changed"


def test_a_share_of_memory_is_of_this_device():
    assert spec(max_memory_share=0.5).constraints == Constraints(max_memory_bytes=4e9)


def test_one_workload_at_a_time_and_rather_the_training():
    both = RunRequest((WorkloadRequest("infer", "builtin:cnn"), WorkloadRequest("train", "builtin:mlp")))
    assert TuneSketch(TuneRequest(both)).sketch.workload.model == "builtin:mlp"
    two = RunRequest((WorkloadRequest("infer", "builtin:cnn"), WorkloadRequest("infer", "builtin:mlp")))
    with pytest.raises(UsageError, match="tune takes one workload, this has 2"):
        TuneSketch(TuneRequest(two))


def test_latency_is_measured_in_a_closed_loop():
    found = spec(task="infer", objective="latency")
    assert found.base.configuration["mode"] == "latency"


def test_auto_precision_is_decided_before_the_search():
    native = msgspec.structs.replace(MACHINE.devices[0], precisions=("fp32", "bf16"))
    sketched = TuneSketch(a_request({"precision": ("auto", "bf16", "fp32")}, present={"precision": "auto"}))
    found = sketched.spec(Placement("cpu"), a_machine(devices=(native,)), 3)
    assert found.axes["precision"] == ("bf16", "fp32")
    assert found.base.configuration["precision"] == "bf16"
    assert found.present is not None
    assert found.present["precision"] == "bf16"


def test_who_asks_which_runtime_is_fastest_has_eager_mode_now():
    several = {"runtime": ("onnxruntime", "aoti"), "quantization": ("int8-dynamic", "none"), "batch_size": (4, 8)}
    found = spec(several, task="infer")
    assert found.present is not None
    assert (found.present["runtime"], found.present["quantization"]) == ("eager", "none")
    assert found.present["batch_size"] == 4
    assert "eager" in found.axes["runtime"]
    now = spec(several, task="infer", present={"runtime": "onnxruntime"}).present
    assert now is not None
    assert now["runtime"] == "onnxruntime"
    assert spec({"batch_size": (4, 8)}, task="infer").present is None
