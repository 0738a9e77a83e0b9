"""Where --save-model may write, and which model of a run it is; nothing is written of a tune that is all in doubt."""

import pytest
from msgspec.structs import replace
from results import a_tuned, a_tuned_run

from torchstone.cli._applying import apply_answer
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Verdict
from torchstone.workflows.tune.saving import checked_path, saved


@pytest.mark.parametrize("name", ["best", "best.onnx", "best.xml", "best.pt2"])
def test_the_suffix_is_the_runtimes(tmp_path, name):
    assert checked_path(tmp_path / name) == tmp_path / "best"
    assert checked_path(tmp_path / "best.v1") == tmp_path / "best.v1"


@pytest.mark.parametrize("there", ["best", "best.onnx", "best.onnx.data", "best.bin", "best.pt"])
def test_no_file_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("kept")
    with pytest.raises(UsageError, match=r"best.* exists; give a new name"):
        checked_path(tmp_path / "best.onnx")
    assert (tmp_path / there).read_text() == "kept"
    with pytest.raises(UsageError, match="no folder"):
        checked_path(tmp_path / "absent" / "best")


def test_only_one_model_of_an_inference_is_saved(tmp_path):
    run, summary = a_tuned_run(), a_tuned()
    with pytest.raises(UsageError, match="only a model of task infer"):
        saved(run, summary, tmp_path / "best")
    cases = tuple(replace(one, workload=replace(one.workload, task=Task.INFER)) for one in summary.cases)
    with pytest.raises(UsageError, match="has 3 cases"):
        saved(run, replace(summary, cases=cases, answer=None), tmp_path / "best")
    assert not list(tmp_path.iterdir())


def test_where_all_is_in_doubt_no_model_is_saved_and_no_file_changed(tmp_path):
    summary = a_tuned()
    cases = tuple(replace(one, workload=replace(one.workload, task=Task.INFER)) for one in summary.cases)
    doubtful = replace(summary, cases=tuple(replace(one, verdict=Verdict.SUSPECT) for one in cases))
    with pytest.raises(TorchstoneError, match=r"is not known \(SUSPECT\): no model is saved"):
        saved(a_tuned_run(), doubtful, tmp_path / "best")
    settings = tmp_path / "train.yaml"
    settings.write_text("batch_size: 1\n")
    with pytest.raises(TorchstoneError, match=r"is not known \(SUSPECT\): .*train.yaml stays as it is"):
        apply_answer(settings, doubtful)
    assert settings.read_text() == "batch_size: 1\n"
    assert [file.name for file in tmp_path.iterdir()] == ["train.yaml"]
