"""From run files to benchmarks: every value of an axis is one, with a name and words of its own."""

import pytest

from torchstone.core.errors import UsageError
from torchstone.workflows.ci import measuring as module
from torchstone.workflows.ci.measuring import benchmarks


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "bench.yaml") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


def test_each_value_of_an_axis_is_a_benchmark(file):
    word = file(
        "name: net\ntask: train\nmodel: builtin:mlp\naxes: {batch_size: [4, 8], threads: 1, channels_last: true}\n"
    )
    found = benchmarks([word])
    assert [one.name for one in found] == ["net/batch_size=4", "net/batch_size=8"]
    assert found[1].words == ("--config", word, "--axis", "batch_size=8")
    (workload,) = found[1].request.workloads
    assert {name: tuple(values) for name, values in workload.axes.items()} == {
        "batch_size": (8,), "threads": (1,), "channels_last": ("on",),
    }  # fmt: skip
    assert found[1].request.procedure.heap == "huge", "as ab does"


def test_workloads_are_told_by_their_task_and_those_of_one_task_by_their_model(file):
    text = "workloads:\n- {task: train, model: 'builtin:mlp'}\n- {task: infer, model: 'builtin:mlp'}\n"
    found = benchmarks([file(text)])
    assert [one.name for one in found] == ["bench/train", "bench/infer"]
    assert found[0].words == ("--config", "bench.yaml", "--task", "train")
    several = benchmarks([file(text.replace("infer", "train").replace("mlp'}\n", "cnn'}\n", 1))])
    assert [one.name for one in several] == ["bench/cnn", "bench/mlp"]
    assert [one.words for one in several] == [(), ()], "ab cannot say which of one task"


def test_what_is_excluded_is_left_out(file):
    axes = "axes: {batch_size: [4, 8], precision: [fp32, bf16]}\n"
    word = file(f"task: train\nmodel: builtin:mlp\n{axes}exclude: ['batch_size=8,precision=bf16']\n")
    assert [one.name for one in benchmarks([word])] == [
        "bench/batch_size=4/precision=fp32", "bench/batch_size=4/precision=bf16", "bench/batch_size=8/precision=fp32",
    ]  # fmt: skip
    word = file(f"task: train\nmodel: builtin:mlp\n{axes}exclude: ['batch_size>=1']\n", "none.yaml")
    with pytest.raises(UsageError, match=r"none\.yaml: exclude leaves nothing"):
        benchmarks([word])


def test_equal_names_get_a_number(file):
    word = file("task: train\nmodel: builtin:mlp\n")
    assert [one.name for one in benchmarks([word, word])] == ["bench#1", "bench#2"]


def test_too_many_and_several_devices_are_refused(file, monkeypatch):
    word = file("task: train\nmodel: builtin:mlp\ndevice: [cpu, cuda]\n")
    with pytest.raises(UsageError, match="a benchmark has one device"):
        benchmarks([word])
    monkeypatch.setattr(module, "MOST_BENCHMARKS", 1)
    with pytest.raises(UsageError, match="2 benchmarks are too many"):
        benchmarks([file("task: train\nmodel: builtin:mlp\naxes: {batch_size: [1, 2]}\n")])


def test_a_recipe_is_a_benchmark_too():
    assert benchmarks(["smoke"])[0].words[:2] == ("--config", "smoke")
