"""The checks of torch's CUDA build, on an interpreter that answers as it is told to."""

import json
import subprocess

import cuda_build
import pytest
from cuda_build import Environment, Failed


class Fake(Environment):
    """Answers the n-th call with the n-th text; `log`: what the loader is said to have written."""

    def __init__(self, folder, *texts, log="find library=libm.so.6 [0]; searching", code=0):
        super().__init__(folder)
        self.texts, self.log, self.code = list(texts), log, code
        self.asked = []

    def run(self, *words, limit_s, more=None):
        self.asked.append((words, more))
        if more and "LD_DEBUG_OUTPUT" in more:
            log = self.log(more) if callable(self.log) else self.log
            (self.folder / "loader" / "log.1").write_text(log)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return subprocess.CompletedProcess(words, self.code, text, "last line\n")


CUDA = {"torch": f"{cuda_build.pinned('torch')}+cu130", "cuda": "13.0", "available": False}
CHILD = json.dumps({"initialised": False, "child": "ok"})


@pytest.mark.parametrize(
    ("change", "good"),
    [({}, True), ({"cuda": None}, False), ({"torch": "2.12.0+cu130"}, False), ({"available": True}, False)],
)
def test_the_build_is_the_pinned_one_for_cuda(tmp_path, change, good):
    assert cuda_build.check_build(Fake(tmp_path, json.dumps({**CUDA, **change})))["good"] is good


def test_imports_that_open_no_driver_are_good(tmp_path):
    told = cuda_build.check_forks(Fake(tmp_path, CHILD))
    assert (told["good"], told["wrong"]) == (True, [])
    assert told["imports"]["hf:gpt2"] == {
        "initialised": False, "child": "ok", "cuda": False, "nvml": False, "cuda_plain": False
    }  # fmt: skip


def test_an_import_that_opens_the_driver_is_named(tmp_path):
    def log(more):
        return (
            "find library=libcuda.so.1 [0]; searching"
            if more["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"
            else "find library="
        )

    told = cuda_build.check_forks(Fake(tmp_path, CHILD, log=log))
    assert not told["good"]
    assert "builtin:cnn" in told["wrong"]


def test_an_import_that_opens_it_only_where_nobody_asks_for_nvml_is_noted(tmp_path):
    def log(more):
        return (
            "find library=libcuda.so.1"
            if more["PYTORCH_NVML_BASED_CUDA_CHECK"] == "0"
            else "find library=libnvidia-ml.so.1"
        )

    told = cuda_build.check_forks(Fake(tmp_path, CHILD, log=log))
    assert told["good"]
    assert told["imports"]["builtin:cnn"]["cuda_plain"] is told["imports"]["builtin:cnn"]["nvml"] is True


def test_the_cuda_runtime_is_no_driver(tmp_path):
    assert cuda_build.check_forks(Fake(tmp_path, CHILD, log="find library=libcudart.so.13"))["good"]


def test_a_library_that_is_needed_and_lacking_is_a_failure(tmp_path):
    told = cuda_build.check_forks(Fake(tmp_path, json.dumps({"absent": "ImportError: no transformers"})))
    assert not told["good"]
    assert "hf:gpt2" in told["wrong"]
    assert "timm:resnet50" not in told["wrong"]


def test_a_loader_that_logs_nothing_proves_nothing(tmp_path):
    with pytest.raises(Failed, match="wrote no log"):
        cuda_build.check_forks(Fake(tmp_path, CHILD, log=""))


def test_the_log_has_to_show_it_where_somebody_asks(tmp_path):
    assert not cuda_build.check_plain_torch(Fake(tmp_path, "false"))["good"]
    assert cuda_build.check_plain_torch(Fake(tmp_path, "false", log="find library=libcuda.so.1"))["good"]


@pytest.mark.parametrize(
    ("told", "good"),
    [
        ({"devices": ["cpu"], "missing": {"cuda": "torch is built for CUDA 13.0 but sees no device"}}, True),
        ({"devices": ["cpu", "cuda"], "missing": {}}, False),
        ({"devices": ["cpu"], "missing": {"cuda": "no torch"}}, False),
    ],
)  # fmt: skip
def test_the_probe_finds_the_cpu_and_says_what_was_looked_for(tmp_path, told, good):
    assert cuda_build.check_probe(Fake(tmp_path, json.dumps({**told, "software": {}})))["good"] is good


def test_a_check_that_cannot_be_done_has_failed_and_says_why(tmp_path):
    told = cuda_build.carried_out(cuda_build.check_build, Fake(tmp_path, "no json"))
    assert told == {"good": False, "why": "last line"}


def test_results_are_written_after_each_check_and_others_stay(tmp_path, monkeypatch, capsys):
    path = tmp_path / "cuda_build.json"
    path.write_text(json.dumps({"tests": {"good": True, "passed": 7}}))

    def second(_):
        assert json.loads(path.read_text())["probe"]["good"] is True
        raise Failed("it broke")

    monkeypatch.setattr(cuda_build, "CHECKS", {"probe": lambda _: {"good": True}, "machine": second})
    code = cuda_build.main(["--no-install", "--environment", str(tmp_path), "--json", str(path)])
    told = json.loads(path.read_text())
    assert (code, told["tests"]["passed"], told["machine"]["why"]) == (1, 7, "it broke")
    assert "FAILED" in capsys.readouterr().out
