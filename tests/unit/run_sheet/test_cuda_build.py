"""The checks of torch's CUDA build, on an interpreter that answers as it is told to."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import cuda_build
import cuda_environment
import pytest
from cuda_environment import Environment, Failed


class Fake(Environment):
    """Answers the n-th call with the n-th text. `inits`: how often each way of asking calls cuInit."""

    def __init__(self, folder, *texts, inits=lambda _by_nvml: 0, log="calling init: {stub}/libcuda.so.1", code=0):
        super().__init__(folder)
        self.texts, self.inits, self.log, self.code = list(texts), inits, log, code
        self.asked = []

    def run(self, *words, limit_s, more=None):
        self.asked.append((words, more))
        if more and "LD_DEBUG_OUTPUT" in more:
            by_nvml = more["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"
            Path(f"{more['LD_DEBUG_OUTPUT']}.1").write_text(self.log.format(stub=self.folder / "stub"))
            if count := self.inits(by_nvml):
                Path(more["STUB_LOG"]).write_text("cuInit 7\n" * count)
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return subprocess.CompletedProcess(words, self.code, text, "last line\n")


@pytest.fixture(autouse=True)
def stub(monkeypatch):
    monkeypatch.setattr(cuda_build, "built_stub", lambda folder: folder / "stub")


BUILT = cuda_build.built_stub
CUDA = {"torch": f"{cuda_build.pinned('torch')}+cu130", "cuda": "13.0", "available": False}
CHILD = json.dumps({"initialised": False, "child": "ok"})


@pytest.mark.parametrize(
    ("change", "good"),
    [({}, True), ({"cuda": None}, False), ({"torch": "2.12.0+cu130"}, False), ({"available": True}, False)],
)
def test_the_build_is_the_pinned_one_for_cuda(tmp_path, change, good):
    assert cuda_build.check_build(Fake(tmp_path, json.dumps({**CUDA, **change})))["good"] is good


def test_imports_that_initialise_no_driver_are_good(tmp_path):
    told = cuda_build.check_forks(Fake(tmp_path, CHILD))
    assert (told["good"], told["wrong"]) == (True, [])
    assert told["imports"]["hf:gpt2"] == {
        "initialised": False, "child": "ok", "cu_inits": 0, "nvml": False, "cu_inits_plain": 0
    }  # fmt: skip


def test_an_import_that_initialises_the_driver_is_named(tmp_path):
    told = cuda_build.check_forks(Fake(tmp_path, CHILD, inits=lambda by_nvml: 2 if by_nvml else 0))
    assert not told["good"]
    assert "builtin:cnn" in told["wrong"]
    assert told["imports"]["builtin:cnn"]["cu_inits"] == 2


def test_an_import_that_does_so_only_where_nobody_asks_for_nvml_is_noted(tmp_path):
    log = "calling init: {stub}/libcuda.so.1\nfind library=libnvidia-ml.so.1"
    told = cuda_build.check_forks(Fake(tmp_path, CHILD, inits=lambda by_nvml: int(not by_nvml), log=log))
    assert told["good"]
    assert told["imports"]["builtin:cnn"]["cu_inits_plain"] == 1
    assert told["imports"]["builtin:cnn"]["nvml"] is True


def test_a_fork_that_does_not_compute_is_named(tmp_path):
    told = cuda_build.check_forks(Fake(tmp_path, json.dumps({"initialised": False, "child": "killed by SIGSEGV"})))
    assert not told["good"]
    assert "hf:gpt2" in told["wrong"]


def test_a_library_that_is_needed_and_lacking_is_a_failure(tmp_path):
    # Without it torch is not imported either, and the driver is not looked for.
    told = cuda_build.check_forks(Fake(tmp_path, json.dumps({"absent": "ImportError: no transformers"}), log=""))
    assert not told["good"]
    assert "hf:gpt2" in told["wrong"]
    assert "timm:resnet50" not in told["wrong"]
    assert (told["imports"]["hf:gpt2"]["cu_inits"], told["imports"]["hf:gpt2"]["cu_inits_plain"]) == (None, None)


@pytest.mark.parametrize("log", ["", "find library=libcuda.so.1 [0]; searching", "calling init: /usr/lib/libcuda.so.1"])
def test_where_the_driver_that_counts_was_not_loaded_nothing_is_proven(tmp_path, log):
    with pytest.raises(Failed, match="was not loaded"):
        cuda_build.check_forks(Fake(tmp_path, CHILD, log=log))


def test_the_count_has_to_show_it_where_somebody_asks(tmp_path):
    assert not cuda_build.check_counting(Fake(tmp_path, "{}"))["good"]
    assert cuda_build.check_counting(Fake(tmp_path, "{}", inits=lambda by_nvml: int(not by_nvml)))["good"]


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


def test_wheels_on_this_machine_are_kept_out_whatever_pips_settings_say(tmp_path, monkeypatch):
    """An empty PIP_FIND_LINKS is none to pip, which then takes that of its files: a folder without a wheel is one."""
    seen = []

    def run(words, **how):
        seen.append((words, how.get("env", {})))
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("PIP_FIND_LINKS", "/some/wheels")
    cuda_environment.install(Environment(tmp_path))
    pips = [(words, env) for words, env in seen if "pip" in words]
    assert pips[0][0][-1] == "torch"
    for _, env in pips:
        assert list(Path(env["PIP_FIND_LINKS"]).iterdir()) == []


def test_it_has_what_the_tests_need():
    """Without a library that `make setup-dev` installs, tests that need it end as errors."""
    make = (cuda_environment.ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = re.findall(r"--editable '(\.\[[^']+\])'", make)
    assert cuda_environment._EXTRAS in wanted
    assert max(wanted, key=len) == cuda_environment._EXTRAS


def test_the_driver_that_counts_is_built(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    assert (BUILT(tmp_path) / "libcuda.so.1").stat().st_size > 0
