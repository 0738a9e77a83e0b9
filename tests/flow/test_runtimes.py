"""`--axis runtime=…` through the real CLI: the same model in eager mode and in ONNX Runtime."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from warm_templates import TORCHSTONE

from torchstone.core.units import significant

pytest.importorskip("onnxruntime", reason="pip install 'torchstone[onnxruntime]'")

MODELS = """
import torch


class Net(torch.nn.Module):
    def __init__(self, branches):
        super().__init__()
        self.one, self.branches = torch.nn.Linear(32, 4), branches

    def forward(self, x):
        y = self.one(x)
        if self.branches and y.sum() > 0:
            y = -y
        return y


def plain():
    return Net(False), torch.randn(8, 32)


def branching():
    return Net(True), torch.randn(8, 32)
"""


def measured(tmp_path, function: str) -> dict[str, Any]:
    (tmp_path / "nets.py").write_text(MODELS)
    words = ["run", "--task", "infer", "--model", f"py:nets.py:{function}", "--axis", "runtime=eager,onnxruntime"]
    quick = ["--trials", "2", "--warmup", "1", "--iterations", "20", "--json", "--quiet"]
    command = [*TORCHSTONE, *words, *quick]
    told = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    return {case["configuration"]["runtime"]: case for case in json.loads(told.stdout)["cases"]}


def test_both_are_measured_and_what_the_other_took_and_differs_by_is_among_the_figures(tmp_path):
    cases = measured(tmp_path, "plain")
    own = {
        "export_time_s",
        "build_time_s",
        "exported_bytes",
        "loaded_peak_bytes",
        "output_error",
        "relative_output_error",
        "top1_agreement",
    }
    assert own & set(cases["eager"]["estimates"]) == set()
    found = cases["onnxruntime"]["estimates"]
    assert own <= set(found)
    assert found["relative_output_error"]["value"] < 1e-5
    assert found["top1_agreement"]["value"] == 1.0
    for case in cases.values():
        assert {trial["outcome"]["status"] for trial in case["trials"]} == {"ok"}
        assert case["estimates"]["throughput"]["trials"] == 2
    shown = subprocess.check_output([*TORCHSTONE, "show", "latest"], text=True)
    assert f"onnxruntime relative error {significant(found['relative_output_error']['value'], 2)}" in shown
    facts = [cases[name]["trials"][0]["facts"] for name in ("eager", "onnxruntime")]
    assert facts[0]["threads_in_effect"] == facts[1]["threads_in_effect"]
    assert facts[1]["settings"]["runtime"]["values"]["library"].startswith("onnxruntime ")


def test_a_model_that_cannot_be_exported_is_an_outcome_with_its_line_and_eager_mode_is_measured(tmp_path):
    cases = measured(tmp_path, "branching")
    assert {trial["outcome"]["status"] for trial in cases["eager"]["trials"]} == {"ok"}
    first = cases["onnxruntime"]["trials"][0]["outcome"]
    line = next(n for n, text in enumerate(MODELS.splitlines(), 1) if "y.sum()" in text)
    assert first["status"] == "unsupported"
    assert f"nets.py:{line} in forward" in first["message"]


def test_int8_that_answers_real_items_as_well_is_as_good_and_of_made_up_ones_nothing_is_known(tmp_path):
    quick = ["--trials", "1", "--warmup", "1", "--iterations", "20", "--batch-sizes", "8", "--json", "--quiet"]
    model = ["run", "--task", "infer", "--model", "builtin:mlp", "--axis", "quantization=none,int8-dynamic"]
    for data, verdict, items in (("digits", "as good", 1792), ("synthetic", "undecided", 0)):
        command = [*TORCHSTONE, *model, "--data", data, "--quality-margin", "5%", *quick]
        told = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
        assert told.returncode == 0, told.stderr
        cases = {case["configuration"]["quantization"]: case for case in json.loads(told.stdout)["cases"]}
        assert cases["none"]["quality"] is None
        found = cases["int8-dynamic"]["quality"]
        assert (found["verdict"], found["items"], found["margin"]) == (verdict, items, 0.05)
        assert (found["loss"] is None) == (items == 0)


def test_bf16_in_eager_mode_is_judged_as_runtimes_are(tmp_path):
    quick = ["--trials", "1", "--warmup", "1", "--iterations", "20", "--batch-sizes", "8", "--json", "--quiet"]
    model = ["run", "--task", "infer", "--model", "builtin:mlp", "--axis", "precision=fp32,bf16"]
    for data, verdict, items in (("digits", "as good", 1792), ("synthetic", "undecided", 0)):
        command = [*TORCHSTONE, *model, "--data", data, "--quality-margin", "5%", *quick]
        told = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
        assert told.returncode == 0, told.stderr
        cases = {case["configuration"]["precision"]: case for case in json.loads(told.stdout)["cases"]}
        assert cases["fp32"]["quality"] is None
        found = cases["bf16"]["quality"]
        assert (found["verdict"], found["items"]) == (verdict, items)
        assert cases["bf16"]["estimates"]["relative_output_error"]["value"] > 1e-3
        shown = subprocess.check_output([*TORCHSTONE, "show", "latest"], text=True, cwd=tmp_path)
        assert "eager bf16 relative error" in shown


SPEAKING = """
import torch


class Speaking(torch.nn.Module):
    def __init__(self, scores):
        super().__init__()
        self.words, self.head = torch.nn.Embedding.from_pretrained(scores), torch.nn.Linear(24, 24)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(24))
            self.head.bias.zero_()

    def can_generate(self):
        return True

    def forward(self, input_ids):
        return self.head(self.words(input_ids))


def model():
    dice = torch.Generator().manual_seed(0)
    scores = 2.0 * torch.randn(24, 24, generator=dice)
    ids = torch.randint(24, (400, 1), generator=dice)
    for _ in range(31):
        ids = torch.cat([ids, torch.multinomial(scores.softmax(1)[ids[:, -1]], 1, generator=dice)], 1)
    return Speaking(scores), torch.utils.data.TensorDataset(ids)
"""


def test_a_language_model_of_ones_own_is_judged_by_its_perplexity(tmp_path):
    (tmp_path / "speaking.py").write_text(SPEAKING)
    words = ["run", "py:speaking.py:model", "--task", "infer", "--axis", "quantization=none,int8-dynamic"]
    quick = ["--trials", "1", "--warmup", "1", "--iterations", "20", "--batch-sizes", "8", "--quiet"]
    told = subprocess.run(
        [*TORCHSTONE, *words, *quick], capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
    )
    assert told.returncode == 0, told.stderr
    answer = " ".join(told.stdout.split())
    assert re.search(r"as good: perplexity -?0\.\d \[-?0\.\d, 0\.\d\] % higher, of 400 items", answer), answer


NOT_HERE = """
import sys
sys.modules["torchstone"] = None
import numpy
inputs = {{"input": numpy.ones((8, 32), numpy.float32)}}
if {tensors}:
    import torch
    inputs = {{"input": torch.ones(8, 32)}}
{lines}
assert outputs[0].shape == (8, 4)
"""


def test_the_chosen_setting_is_saved_as_a_file_that_loads_without_torchstone(tmp_path):
    (tmp_path / "nets.py").write_text(MODELS)
    model = ["--task", "infer", "--model", "py:nets.py:plain", "--batch-sizes", "8", "--axis", "precision=fp32"]
    quick = ["--searcher", "grid", "--quick", "--trials", "2", "--quiet"]
    words = ["tune", *model, "--axis", "runtime=eager,onnxruntime", *quick, "--save-model", "best.onnx"]

    def torchstone(*command):
        whole = [*TORCHSTONE, *command]
        return subprocess.run(whole, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)

    told = torchstone(*words)
    if told.returncode == 1:  # other tests ran beside it
        assert "which settings are best is not known (SUSPECT): no model is saved" in told.stderr
        assert not list(tmp_path.glob("best.*"))
        alone = torchstone("run", *model, "--axis", "runtime=onnxruntime", "--trials", "1", "--quiet")
        assert alone.returncode == 0, alone.stderr
        told = torchstone("show", "latest", "--save-model", "best.onnx")
    else:
        assert "--save-model model" in told.stdout
    assert told.returncode == 0, told.stderr
    assert {one.suffix for one in tmp_path.glob("best.*")} in ({".pt2"}, {".onnx"}, {".onnx", ".data"})
    again = torchstone(*words)
    assert (again.returncode, again.stdout) == (2, "")
    assert "exists" in again.stderr
    shown = torchstone("show", "latest", "--save-model", "other")
    assert shown.returncode == 0, shown.stderr
    assert "input float32 [8, 32]" in shown.stdout.splitlines()[0]
    code = NOT_HERE.format(lines=shown.stdout, tensors="torch tensors" in shown.stdout)
    subprocess.run([sys.executable, "-I", "-c", code], check=True, cwd=tmp_path)
    assert list(tmp_path.glob("other.*"))
    assert not list(tmp_path.glob(".torchstone-*"))


SPINNING = """
import numpy, onnx, onnxruntime, torch
from onnx import TensorProto, helper, numpy_helper


class Spinning(torch.nn.Module):
    def __init__(self, spins):
        super().__init__()
        size = [128, 128]
        weights = [numpy_helper.from_array(numpy.ones(size, numpy.float32), f"w{n}") for n in range(8)]
        nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(8)]
        ends = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name in ("x0", "x8"))
        graph = helper.make_graph(nodes, "products", [next(ends)], [next(ends)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2 if spins else 1  # two spin while they wait, as is usual
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def forward(self, x):
        return torch.from_numpy(self.session.run(None, {"x0": x.numpy()})[0])


def spinning():
    return Spinning(True), torch.ones(128, 128)


def calm():
    return Spinning(False), torch.ones(128, 128)
"""


@pytest.mark.alone
@pytest.mark.parametrize(("function", "fires"), [("spinning", True), ("calm", False)])
def test_threads_that_spin_beyond_those_it_was_given_are_found(tmp_path, function, fires):
    (tmp_path / "spins.py").write_text(SPINNING)
    words = ["run", "--task", "infer", "--model", f"py:spins.py:{function}", "--axis", "threads=1"]
    quick = ["--trials", "2", "--warmup", "5", "--budget", "2s", "--json", "--quiet"]
    command = [sys.executable, "-m", "torchstone", *words, *quick]
    told = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    (case,) = json.loads(told.stdout)["cases"]
    assert (case["estimates"]["own_cpu_cores"]["value"] > 1.25) is fires
    found = [one for one in case["findings"] if one["check"] == "beyond_threads"]
    assert [(one["values"]["threads"], one["severity"]) for one in found] == [(1, "warning")] * fires
