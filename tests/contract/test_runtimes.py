"""What every runtime must do: compute what eager mode computes, with as many threads as it is given."""

import copy
import importlib.util
import math
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import psutil
import pytest
import torch
from build import a_case, a_run, a_trial, a_tune_spec

from torchstone.core.errors import MissingError, Unsupported, UsageError
from torchstone.core.quality import is_as_good, judged, quality_of
from torchstone.core.schema.axis import AXES, Scalar
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.model import InputSpec, LoadedModel
from torchstone.core.schema.quality import AnswerCounts
from torchstone.core.schema.request import WorkloadRequest
from torchstone.core.schema.search import Probe
from torchstone.execution import plan
from torchstone.execution.timing.loop import unmarked
from torchstone.extend import OpenRuntime, Runtime
from torchstone.plugins import registry
from torchstone.plugins.choices import RuntimeVariant
from torchstone.plugins.protocols import SavedFile
from torchstone.plugins.runtimes.onnxruntime import on_device
from torchstone.plugins.tasks import _runtimes
from torchstone.workflows.tune.answering import reading_of, worth_of

NAMES = registry.names("runtimes")
SLOW = ("aoti",)  # a C++ compiler builds the model
ROOT = Path(__file__).parents[2]


def made(**changes):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    parts = {"module": module, "forward": lambda n, t: n(t["input"]), "example": {"input": torch.randn(8, 6)}}
    return LoadedModel(**{**parts, "loss": None, "input": InputSpec("own"), **changes})


def ready(model, **axes):
    engine = registry.load("engines", "infer")
    values = {axis: AXES[axis].default for axis in engine.axes} | {"batch_size": 4} | axes
    case = Case(Workload(Task.INFER, "module:test", "example", "sample"), values, Placement("cpu"))
    device = registry.load("devices", "cpu").open(0)
    return engine.prepare(case, model, device), engine.open_batches(case, model, None, device, 0)


def lacking(name):
    return registry.load("runtimes", name).missing()


EACH = [
    pytest.param(
        name,
        marks=[
            pytest.mark.skipif(lacking(name) is not None, reason=lacking(name) or ""),
            *([pytest.mark.long] if name in SLOW else []),
        ],
    )
    for name in NAMES
]


def test_there_are_these():
    assert NAMES == ("aoti", "executorch", "onnxruntime", "openvino")


@pytest.mark.parametrize("name", EACH)
def test_it_answers_as_eager_mode_does_and_tells_what_that_took(name):
    model = made()
    prepared, batches = ready(model, runtime=name)
    found = prepared.build(batches.next)
    assert found["relative_output_error"] < 1e-5
    assert found["output_error"] < 1e-5
    assert found["top1_agreement"] == 1.0
    assert min(found[w] for w in ("export_time_s", "build_time_s", "first_query_time_s")) > 0.0
    assert found["exported_bytes"] > 300  # numbers of 83 parameters
    assert prepared.facts.threads_in_effect == torch.get_num_threads()
    assert prepared.facts.settings["runtime"].value == name
    eager, same = ready(model)
    for _ in range(2):
        prepared.step(batches.next, unmarked)
        eager.step(same.next, unmarked)
    assert prepared.results()["fingerprint"] == pytest.approx(eager.results()["fingerprint"], rel=1e-5)


@pytest.mark.parametrize(("precision", "compiled"), [("bf16", "off"), ("fp32", "off")])
def test_another_precision_is_compared_with_fp32_behind_the_windows(precision, compiled):
    prepared, batches = ready(made(), precision=precision, compile=compiled)
    assert prepared.build(batches.next) == {}
    prepared.step(batches.next, unmarked)
    found = prepared.compare_precision(batches.next)
    if precision == "fp32":
        assert found == {}
        assert prepared.compare(items_of([1] * 8), 0) is None
        return
    assert set(found) == {"output_error", "relative_output_error", "top1_agreement"}
    assert 1e-3 < found["relative_output_error"] < 2e-2
    items = [{"input": one, "labels": torch.tensor(0)} for one in torch.randn(64, 6)]
    counts = prepared.compare(items, 0)
    right = (made().module(torch.stack([one["input"] for one in items])).argmax(1) == 0).sum()
    assert counts.items == 64
    assert counts.right + counts.lost == right, "who lost is right in fp32"
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("counts", [None, AnswerCounts(0, 0), AnswerCounts(2000, 2000), AnswerCounts(2000, 1500)])
def test_a_precision_that_is_worse_is_suspect_and_one_of_which_nothing_is_known_is_a_note(counts):
    case = a_case({"precision": "bf16"}, task=Task.INFER)
    setup = {} if counts == AnswerCounts(0, 0) else {"relative_output_error": [4e-3]}
    trial = a_trial(case_id=case.case_id, setup=setup, facts={"answers": counts})
    found = list(registry.load("checks", "runtime_differs").look(a_run([trial], cases=[case])))
    severity = {2000: [], 1500: [Severity.WARNING]}.get(counts.same if counts else 0, [Severity.INFO])
    assert [one.severity for one in found] == severity
    assert all(one.values["runtime"] == "eager bf16" and one.message for one in found)
    grade = quality_of([(setup.get("relative_output_error", [None])[0], counts)], 0.01)
    assert is_as_good(grade) is (severity == [])


def reading(spec, case, counts):
    trial = a_trial(case_id=case.case_id, setup={"relative_output_error": [4e-3]}, facts={"answers": counts})
    probe = Probe({"precision": "bf16"})
    return reading_of(trial, probe, spec).value, worth_of([trial], spec)


def test_tune_is_told_nothing_of_a_precision_that_is_not_shown_to_be_as_good_unless_no_other_is_asked_for():
    case = a_case({"precision": "bf16"}, task=Task.INFER)
    several = a_tune_spec(base=case, axes={"precision": ("fp32", "bf16"), "batch_size": (8, 16)})
    only = a_tune_spec(base=case, axes={"batch_size": (8, 16)})
    assert reading(several, case, None) == reading(several, case, AnswerCounts(2000, 1500)) == (None, None)
    value, worth = reading(several, case, AnswerCounts(2000, 2000))
    assert value == pytest.approx(worth)
    assert reading(only, case, None) == (value, worth)
    other = a_tune_spec(base=a_case({"precision": "fp32", "quantization": "int8-dynamic"}, task=Task.INFER), axes={})
    assert reading(other, case, None) == (None, None)


QUANTIZED = [(name, q) for name in NAMES for q in registry.load("runtimes", name).quantizations]


TORCHAOS = [("eager", one) for one in ("int8-weights", "fp8-weights")]


@pytest.mark.parametrize(("name", "quantization"), [("eager", "int8-dynamic"), *TORCHAOS, *QUANTIZED])
def test_quantized_it_is_smaller_and_near_what_eager_mode_answers(name, quantization):
    if name != "eager" and lacking(name):
        pytest.skip(lacking(name))
    if name == "openvino" and importlib.util.find_spec("nncf") is None:
        pytest.skip("nncf is not installed")
    if (name, quantization) in TORCHAOS:
        pytest.importorskip("torchao")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
    model = made(module=module, example={"input": torch.randn(8, 256)})
    prepared, batches = ready(model, runtime=name, quantization=quantization)
    found = prepared.build(batches.next)
    bits = 4 if quantization == "int4-weights" else 8
    assert 1e-4 < found["relative_output_error"] < (0.15 if bits == 4 else 0.05)
    assert found["top1_agreement"] > 0.8
    assert 16_384 * bits < found["exported_bytes"] < 22_500 * bits  # 2 × 256 × 256 numbers
    assert prepared.facts.settings["runtime"].value == name
    prepared.step(batches.next, unmarked)
    prepared.enter("throughput")
    assert prepared.count(batches.next()).flops is None, "a share of the peak of fp32 would be wrong"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_torchao_quantizes_is_compiled_where_that_is_asked_for():
    pytest.importorskip("torchao")
    prepared, batches = ready(wide(), quantization="int8-weights", compile="default")
    assert 1e-4 < prepared.build(batches.next)["relative_output_error"] < 0.05
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1


def test_torchs_transformer_layers_are_quantized_without_their_fast_path():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    model = made(module=layer, example={"input": torch.randn(8, 10, 64)})
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        prepared, batches = ready(model, quantization="int8-dynamic")
        assert 1e-4 < prepared.build(batches.next)["relative_output_error"] < 0.05
        options = prepared.facts.settings["runtime"].values["options"]
        assert "mha.fastpath_enabled=False" in options
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@pytest.mark.parametrize(
    ("axes", "module"),
    [
        ({"quantization": "int8-static"}, torch.nn.Linear(6, 3)),
        ({"quantization": "int8-dynamic"}, torch.nn.ReLU()),
        ({"quantization": "int8-dynamic", "precision": "bf16"}, torch.nn.Linear(6, 3)),
        ({"quantization": "int8-dynamic", "compile": "default"}, torch.nn.Linear(6, 3)),
        ({"quantization": "int8-dynamic", "runtime": "aoti"}, torch.nn.Linear(6, 3)),
        ({"quantization": "int8-dynamic", "runtime": "onnxruntime"}, torch.nn.ReLU()),
    ],
)
def test_what_cannot_be_quantized_is_unsupported(axes, module):
    if axes.get("runtime") == "onnxruntime" and lacking("onnxruntime"):
        pytest.skip(lacking("onnxruntime"))
    with pytest.raises(Unsupported, match="quantization=int8"):
        prepared, batches = ready(made(module=module), **axes)
        prepared.build(batches.next)


@pytest.mark.parametrize("axis", ["runtime", "quantization"])
def test_a_case_that_does_not_ask_for_it_has_the_identity_that_it_had(axis):
    (configuration,) = plan.sketch(WorkloadRequest("infer", "builtin:cnn")).configurations
    assert axis not in configuration


@pytest.mark.parametrize("name", NAMES)
def test_an_absent_library_is_told_with_what_installs_it(name, monkeypatch):
    monkeypatch.setattr(f"torchstone.plugins.runtimes.{name}.find_spec", lambda _: None, raising=False)
    monkeypatch.setenv("CXX", "no-such-compiler")
    request = WorkloadRequest("infer", "builtin:cnn", axes={"runtime": ("eager", name)})
    with pytest.raises(MissingError, match=name) as told:
        plan.sketch(request)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert name in SLOW or (f"pip install 'torchstone[{name}]'" in str(told.value) and name in extras)
    with pytest.raises(Unsupported, match=name):  # of a later point of a tune
        prepared, batches = ready(made(), runtime=name)
        prepared.build(batches.next)


def test_an_unknown_runtime_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"onnxruntime.*Known: aoti, eager, executorch, onnxruntime, openvino"):
        plan.sketch(WorkloadRequest("infer", "builtin:cnn", axes={"runtime": ("onnxrutime",)}))


@pytest.mark.parametrize(("axis", "value"), [("precision", "bf16"), ("compile", "default"), ("sdpa", "math")])
def test_what_only_torch_does_is_refused_beside_another_runtime(axis, value):
    with pytest.raises(Unsupported, match=f"{axis}={value}"):
        ready(made(), runtime="onnxruntime", **{axis: value})


def card(name):
    """A device that is not here."""
    device: Any = SimpleNamespace(torch_device=name)
    return device


def test_what_a_runtime_does_not_compute_on_is_refused_with_what_it_does():
    with pytest.raises(Unsupported, match="computes on cpu only, not on cuda"):
        _runtimes.variant_of({"runtime": "openvino"}, card("cuda:0"))
    quantized = {"quantization": "int8-dynamic", "compile": "default"}
    with pytest.raises(Unsupported, match="compile=default: not possible together on the CPU"):
        _runtimes.variant_of(quantized, card("cpu"))
    assert _runtimes.variant_of(quantized, card("cuda:0")) is not None, "there torchao quantizes"
    assert _runtimes.variant_of({"runtime": "onnxruntime"}, card("cuda:0")) == RuntimeVariant("onnxruntime")


class Kinds(torch.nn.Module):
    """Has inputs and outputs of several types, one of which lies in another order."""

    def forward(self, scores, chosen, kept):
        return scores.T * 2.0, chosen + 1, kept.logical_not()


@pytest.mark.skipif(lacking("onnxruntime") is not None, reason=lacking("onnxruntime") or "")
def test_onnxruntime_answers_where_the_tensors_lie_as_from_the_host(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    runtime, variant = registry.load("runtimes", "onnxruntime"), RuntimeVariant("onnxruntime")
    scores = torch.randn(3, 4).T
    inputs = {"scores": scores, "chosen": torch.arange(5), "kept": torch.tensor([True, False])}
    file = SavedFile(tmp_path, "model")
    lines = _runtimes.save(variant, Kinds(), lambda module, given: module(**given), inputs, (), file, "cuda:0", "off")
    assert "('CUDAExecutionProvider', {'device_id': '0', 'use_tf32': '0'})" in "".join(lines)
    assert not scores.is_contiguous()
    session = onnxruntime.InferenceSession(tmp_path / f"{tmp_path.name}.onnx", providers=["CPUExecutionProvider"])
    there, host = on_device(session, "cpu", 0)(inputs), runtime.open(tmp_path, 1, "cpu").answer(inputs)
    for one, other, mine in zip(there, host, Kinds()(**inputs), strict=True):
        assert one.dtype == other.dtype == mine.dtype
        assert torch.equal(one, mine)
        assert torch.equal(other, mine)
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        with pytest.raises(Unsupported, match="pip install onnxruntime-gpu"):
            runtime.open(tmp_path, 1, "cuda:0")


WORK = """
import sys
import torch
sys.path[:0] = {path!r}
from test_runtimes import made, ready
torch.set_num_threads({threads})
module = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8)))
example = {{"input": torch.randn(256, 1024)}}
prepared, batches = ready(made(module=module, example=example), runtime={name!r}, threads={threads},
                          batch_size=256)
prepared.build(batches.next)
print("ready", flush=True)
while True:
    prepared.step(batches.next, lambda _: None)
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [pytest.param("eager"), *EACH])
def test_it_computes_with_as_many_threads_as_it_is_given_counted_from_outside(name, threads):
    if (psutil.cpu_count() or 1) < threads:
        pytest.skip("one core: two threads cannot be told from one")
    code = WORK.format(path=[str(ROOT / "tests"), str(Path(__file__).parent)], name=name, threads=threads)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            watched = psutil.Process(process.pid)
            before = {thread.id: thread.user_time for thread in watched.threads()}
            time.sleep(2.0)
            used = [thread.user_time - before.get(thread.id, 0.0) for thread in watched.threads()]
        finally:
            process.kill()
    # Beside a test suite a thread that steals work had a sixth of the other's; those that have none have 0.
    assert sum(one > 0.1 * max(used) for one in used) == threads, used


class Branching(torch.nn.Module):
    """Does something else by what its input holds."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 3)

    def forward(self, x):
        y = self.inner(x)
        if y.sum() > 0:  # no graph has this
            y = -y
        return y


class Rare(torch.nn.Module):
    """Calls an operator that few runtimes have."""

    def forward(self, x):
        return x.digamma()


class Ours(Runtime):
    """A runtime that computes what it is told."""

    describes = "ours"

    def __init__(self, answer, error=None):
        self._answer, self._error = answer, error

    def missing(self):
        return None

    def export(self, program, folder):
        if self._error:
            raise self._error
        (folder / "model").write_bytes(b"12345")

    def open(self, folder, threads, device):
        assert device == "cpu"
        assert (folder / "model").stat().st_size == 5
        return OpenRuntime(self._answer, "ours 1", threads, {})


def built(monkeypatch, runtime, model):
    monkeypatch.setattr(registry, "load", lambda *_: runtime)
    return _runtimes.build(RuntimeVariant("ours"), model.module, model.forward, [model.example])


def test_a_branch_on_data_is_refused_with_the_line_that_stands_in_the_way(monkeypatch):
    model = made(module=Branching())
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "no graph has this" in text)
    with pytest.raises(Unsupported, match=rf"test_runtimes\.py:{line} in forward \(if y\.sum\(\) > 0:"):
        built(monkeypatch, Ours(None), model)


def test_an_operator_that_is_not_converted_is_told_with_its_line(monkeypatch):
    model = made(module=Rare())
    with pytest.raises(
        Unsupported,
        match=r"convert the model, aten\.digamma at test_runtimes\.py:\d+ in forward \(return x\.digamma\(\)\)",
    ):
        built(monkeypatch, Ours(None, ValueError("no rule for aten.digamma.default")), model)


def test_a_runtime_that_computes_something_else_is_found(monkeypatch):
    model = made()
    right = model.module(model.example["input"])
    for answer, error, agreement in ((right, 0.0, 1.0), (right * 1.01, 0.01, 1.0), (right.flip(-1), None, None)):
        found = built(monkeypatch, Ours(lambda _, answer=answer: [answer]), model).values
        assert found["exported_bytes"] == 5
        assert error is None or found["relative_output_error"] == pytest.approx(error, rel=1e-4)
        assert found["relative_output_error"] > 0.1 or error is not None
        assert found["top1_agreement"] < 1.0 or agreement is not None
    with pytest.raises(RuntimeError, match="NaN"):
        built(monkeypatch, Ours(lambda _: [right * torch.nan]), model)


@pytest.mark.parametrize(("error", "fires"), [(1e-6, False), (2e-3, True)])
def test_its_difference_makes_the_case_suspect(error, fires):
    case = a_case({"runtime": "ours"}, task=Task.INFER)
    trial = a_trial(case_id=case.case_id, setup={"relative_output_error": [error]})
    found = list(registry.load("checks", "runtime_differs").look(a_run([trial], cases=[case])))
    assert [one.severity for one in found] == [Severity.WARNING] * fires
    assert all(one.values == {"runtime": "ours", "error": error, "agreement": None} for one in found)


class Scores(torch.nn.Module):
    """Gives the classes that its input holds."""

    def forward(self, x):
        return torch.nn.functional.one_hot(x.long().squeeze(-1), 4).float()


def items_of(classes, labels=None):
    """Items whose class eager mode answers rightly, or with other labels."""
    told = [{}] * len(classes) if labels is None else [{"labels": torch.tensor(label)} for label in labels]
    return [{"input": torch.tensor([float(one)]), **more} for one, more in zip(classes, told, strict=True)]


@pytest.mark.parametrize(
    ("shift", "labels", "found"),
    [
        (0, None, (16, 16)),
        (1, None, (16, 0)),
        (0, [0, 1, 2, 3] * 4, (16, 16, 16, 0, 0)),
        (1, [0, 1, 2, 3] * 4, (16, 0, 0, 16, 0)),
        (1, [1, 2, 3, 3] * 4, (16, 0, 0, 4, 12)),
    ],
)
def test_items_are_counted_by_who_answers_them_right(shift, labels, found):
    scores = Scores()
    items = items_of([0, 1, 2, 3] * 4, labels)
    counts = _runtimes.counted(
        lambda tensors: [scores((tensors["input"] + shift) % 4)],
        lambda tensors: [scores(tensors["input"])],
        items,
        {"batch_size": 4},
        seed=0,
    )
    assert counts == AnswerCounts(*found)


def test_items_come_in_whole_batches_and_only_classes_are_compared():
    scores = Scores()

    def answer(tensors):
        assert len(tensors["input"]) == 4
        return [scores(tensors["input"])]

    assert _runtimes.counted(answer, answer, items_of([1] * 11), {"batch_size": 4}, 0) == AnswerCounts(8, 8)
    assert _runtimes.counted(answer, answer, items_of([1] * 3), {"batch_size": 4}, 0) is None
    tokens = lambda tensors: [scores(tensors["input"])[:, None]]
    assert _runtimes.counted(tokens, tokens, items_of([1] * 8), {"batch_size": 4}, 0) is None


WORDS = 12


def speaking(seed=0):
    """A language model that knows how often a word follows another, and 300 texts of it, some shorter than others."""
    dice = torch.Generator().manual_seed(seed)
    scores = 2.0 * torch.randn(WORDS, WORDS, generator=dice)
    words, head = torch.nn.Embedding.from_pretrained(scores), torch.nn.Linear(WORDS, WORDS)
    with torch.no_grad():
        head.weight.copy_(torch.eye(WORDS))
        head.bias.zero_()
    module = torch.nn.Sequential(words, head)
    ids = torch.randint(WORDS, (300, 1), generator=dice)
    for _ in range(31):
        ids = torch.cat([ids, torch.multinomial(scores.softmax(1)[ids[:, -1]], 1, generator=dice)], 1)
    kept = (torch.arange(32) < torch.randint(8, 33, (300, 1), generator=dice)).long()
    items = [{"input_ids": one, "attention_mask": mask} for one, mask in zip(ids, kept, strict=True)]
    parts = {"forward": lambda n, t: n(t["input_ids"]), "input": InputSpec("text", causal=True)}
    return made(module=module, example=items[0], **parts), items


def of_texts(model, items, module):
    """Judge a module beside the model's own."""

    def answer(of):
        return lambda tensors: [model.forward(of, tensors).detach()]

    return _runtimes.counted(answer(module), answer(model.module), items, {"batch_size": 10}, 0, causal=True)


def test_a_language_model_is_judged_by_its_perplexity_on_real_texts():
    model, items = speaking()
    counts = of_texts(model, items, model.module)
    ids, kept = (torch.stack([one[name] for one in items])[:, 1:] for name in ("input_ids", "attention_mask"))
    logits = model.module(torch.stack([one["input_ids"] for one in items]))[:, :-1].detach()
    losses = torch.nn.functional.cross_entropy(logits.permute(0, 2, 1), ids, reduction="none")
    assert counts.text.tokens == int(kept.sum())
    assert counts.text.reference_nats == pytest.approx(float((losses * kept).sum() / kept.sum()), rel=1e-6)
    assert (counts.items, counts.same, counts.text.more_nats, counts.text.error_nats) == (300, 300, 0.0, 0.0)
    assert judged(counts, 0.01).verdict == "as good"
    noisy = copy.deepcopy(model.module)
    with torch.no_grad():
        noisy[0].weight.add_(torch.randn(WORDS, WORDS), alpha=0.6)
    worse = judged(of_texts(model, items, noisy), 0.01)
    assert worse.verdict == "worse"
    assert worse.perplexity is not None
    assert worse.perplexity > math.exp(counts.text.reference_nats) * 1.01
    halved = [{**one, "labels": torch.where(torch.arange(32) < 6, -100, one["input_ids"])} for one in items]
    assert of_texts(model, halved, model.module).text.tokens == int(kept[:, 5:].sum())
    rounded = copy.deepcopy(model.module).bfloat16().float()
    assert judged(of_texts(model, items, rounded), 0.01).verdict == "as good"


def test_a_language_model_that_guesses_or_breaks_is_not_compared():
    model, items = speaking()
    broken = copy.deepcopy(model.module)
    with torch.no_grad():
        broken[1].bias.fill_(float("nan"))
    assert of_texts(model, items, broken) is None
    with torch.no_grad():
        model.module[0].weight.normal_(0.0, 0.5)
    assert of_texts(model, items, model.module) is None


def damaged(kind, module):
    dice = torch.Generator().manual_seed(1)
    with torch.no_grad():
        if kind == "noise":
            module[0].weight += 0.5 * torch.randn(module[0].weight.shape, generator=dice)
        elif kind == "dropped channels":
            module[0].weight[::2], module[0].bias[::2] = 0.0, 0.0
        elif kind == "swapped labels":
            module[2].weight[[0, 1]], module[2].bias[[0, 1]] = module[2].weight[[1, 0]], module[2].bias[[1, 0]]
        elif kind == "bf16":
            module.bfloat16().float()
    return module


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("noise", "worse"), ("dropped channels", "worse"), ("swapped labels", "worse"), ("bf16", "as good")],
)
def test_planted_damage_is_found_and_an_honest_format_is_accepted(kind, verdict):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    other = damaged(kind, copy.deepcopy(module))
    with torch.no_grad():
        inputs = torch.randn(4000, 6)
        items = [{"input": one, "labels": label} for one, label in zip(inputs, module(inputs).argmax(1), strict=True)]
        counts = _runtimes.counted(
            lambda t: [other(t["input"])], lambda t: [module(t["input"])], items, {"batch_size": 100}, 0
        )
    assert counts is not None
    assert judged(counts, 0.01).verdict == verdict


def test_a_wrong_layout_that_is_fast_is_worse(monkeypatch):
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 16, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(16 * 6 * 6, 4)
    module, images = torch.nn.Sequential(*layers), torch.randn(2000, 3, 8, 8)
    model = made(module=module, example={"input": images[:100].to(memory_format=torch.channels_last)})

    def misread(tensors):  # the memory of channels-last images as it lies, for the copy that channels first takes
        lying = tensors["input"].to(memory_format=torch.channels_last)
        return [module(lying.permute(0, 2, 3, 1).view(lying.shape))]

    found = built(monkeypatch, Ours(misread), model).values
    with torch.no_grad():
        items = [{"input": one, "labels": label} for one, label in zip(images, module(images).argmax(1), strict=True)]
        counts = _runtimes.counted(misread, lambda t: [module(t["input"])], items, {"batch_size": 100}, 0)
    assert counts is not None
    quality = quality_of([(found["relative_output_error"], counts)], 0.01)
    assert quality is not None
    assert quality.verdict == "worse"


@pytest.mark.parametrize("axes", [{"runtime": "ours"}, {"runtime": "ours", "quantization": "int8-dynamic"}])
def test_what_is_shown_to_be_as_good_is_not_suspect(axes):
    case = a_case(axes, task=Task.INFER)
    for answers, fires in ((AnswerCounts(1000, 1000), False), (AnswerCounts(1000, 900), True)):
        facts = {"answers": answers}
        trial = a_trial(case_id=case.case_id, setup={"relative_output_error": [0.01]}, facts=facts)
        found = list(registry.load("checks", "runtime_differs").look(a_run([trial], cases=[case])))
        assert len(found) == fires


def test_nothing_of_a_runtime_is_imported_by_the_controller_or_beside_it():
    code = (
        "import sys; from torchstone.core.schema.request import WorkloadRequest; "
        "from torchstone.execution import plan; "
        "plan.sketch(WorkloadRequest('infer', 'builtin:cnn', axes={'runtime': ('eager',)})); "
        "from torchstone.plugins import registry; [one.missing() for _, one in registry.usable('runtimes')]; "
        "print(sorted({'torch', 'onnxruntime', 'onnx', 'onnxscript', 'openvino', 'executorch'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_openvino_reports_nothing_to_its_makers():
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("openvino is not installed")
    code = (
        "import sys; from torchstone.plugins.runtimes import openvino; openvino._openvino(); "
        "print(sys.modules['openvino_telemetry'], [n for n in sys.modules if n.startswith('openvino_telemetry.')])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "None []\n"


def test_a_model_without_tensors_in_its_output_is_refused(monkeypatch):
    model = LoadedModel(
        module=torch.nn.Linear(2, 2), forward=lambda n, t: 1, loss=None, input=InputSpec("own"),
        example={"input": torch.ones(1, 2)},
    )  # fmt: skip
    with pytest.raises(Unsupported, match="no tensor"):
        built(monkeypatch, Ours(None), model)


# ── a file that loads without torchstone ────────────────────────────────────────────────────────────────────


ALONE = """
import sys
sys.modules["torchstone"] = None
import numpy
inputs = dict(numpy.load("inputs.npz").items())
if {tensors}:
    import torch
    inputs = {{name: torch.from_numpy(array) for name, array in inputs.items()}}
{lines}
assert not any(name.startswith("torchstone.") for name in sys.modules)
numpy.savez("outputs.npz", *[one.float() if hasattr(one, "float") else one for one in outputs])
"""


def answered_alone(folder, lines, inputs):
    """Return the outputs of a fresh interpreter that cannot import torchstone."""
    numpy.savez(folder / "inputs.npz", **{name: tensor.numpy() for name, tensor in inputs.items()})
    code = ALONE.format(lines="\n".join(lines), tensors="torch tensors" in lines[0])
    subprocess.run([sys.executable, "-I", "-c", code], check=True, cwd=folder, timeout=240)
    return [torch.from_numpy(array) for array in numpy.load(folder / "outputs.npz").values()]


def wide(**more):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 16)).eval()
    return made(module=module, example={"input": torch.randn(8, 256), "labels": torch.ones(8).long()}, **more)


@pytest.mark.parametrize(
    ("axes", "most"),
    [
        *(pytest.param({"runtime": param.values[0]}, 1e-5, marks=param.marks) for param in EACH),
        ({}, 1e-6),
        ({"precision": "bf16"}, 0.02),
        pytest.param(
            {"compile": "default"},
            1e-5,
            marks=[pytest.mark.long, pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")],
        ),
        ({"quantization": "int8-dynamic"}, 0.05),
        *(({"quantization": q}, 0.05) for _, q in TORCHAOS),
        *(({"runtime": name, "quantization": q}, 0.15 if "int4" in q else 0.05) for name, q in QUANTIZED),
    ],
)
def test_a_saved_model_answers_as_eager_mode_does_where_torchstone_is_not(tmp_path, axes, most):
    if ("eager", axes.get("quantization")) in TORCHAOS and "runtime" not in axes:
        pytest.importorskip("torchao")
    name = axes.get("runtime", "eager")
    if name != "eager" and lacking(name):
        pytest.skip(lacking(name))
    if name == "openvino" and "quantization" in axes and importlib.util.find_spec("nncf") is None:
        pytest.skip("nncf is not installed")
    model = wide()
    prepared, batches = ready(model, **axes)
    folder = tmp_path / "best"
    folder.mkdir()
    lines = prepared.save(batches.next, None, 0, SavedFile(folder, "best/best"))
    suffixes = registry.load("runtimes", name).suffixes if name != "eager" else (".pt2", ".pt")
    written = {file.name for file in folder.iterdir()}
    assert written
    assert written <= {f"best{suffix}" for suffix in suffixes}
    assert any(re.search(rf"\b{torch.get_num_threads()}\b", line) for line in lines[1:]), "threads are set alike"
    inputs = {"input": batches.next().tensors["input"]}
    (theirs,) = answered_alone(tmp_path, lines, inputs)
    with torch.no_grad():
        ours = model.module(inputs["input"])
    assert float((theirs - ours).norm() / ours.norm()) < most


executorch = pytest.mark.skipif(lacking("executorch") is not None, reason=lacking("executorch") or "")


@executorch
def test_executorch_is_given_its_inputs_by_their_names(tmp_path):
    example = {"b": torch.arange(8.0).view(4, 2), "a": torch.ones(4, 2)}
    model = made(module=torch.nn.ReLU(), forward=lambda net, t: net(t["b"] - t["a"]), example=example)
    prepared, batches = ready(model, runtime="executorch")
    assert prepared.build(batches.next)["output_error"] == 0.0
    folder = tmp_path / "best"
    folder.mkdir()
    lines = prepared.save(batches.next, None, 0, SavedFile(folder, "best/best"))
    (theirs,) = answered_alone(tmp_path, lines, {"a": example["a"], "b": example["b"].T.contiguous().T})
    assert torch.equal(theirs, (example["b"] - example["a"]).relu())


@executorch
@pytest.mark.parametrize(
    ("module", "shape", "wrong"),
    [
        (torch.nn.Conv3d(1, 2, 2), (1, 1, 4, 4, 4), "cannot compute the model: RuntimeError"),
        (Rare(), (1, 3, 4, 4), "aten.digamma at test_runtimes.py"),
    ],
)
def test_what_executorch_cannot_compute_is_unsupported(module, shape, wrong):
    example = {"input": torch.randn(shape)}
    prepared, batches = ready(made(module=module, example=example), runtime="executorch", batch_size=1)
    with pytest.raises(Unsupported, match=re.escape(wrong)):
        prepared.build(batches.next)


@executorch
def test_executorch_refuses_a_layout_that_it_would_read_wrongly(tmp_path):
    image = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    module = _runtimes.Exportable(torch.nn.Conv2d(3, 2, 2), lambda net, tensors: net(tensors["input"]))
    with pytest.raises(ValueError, match="input input is not contiguous"):
        registry.load("runtimes", "executorch").export(torch.export.export(module, (), {"input": image}), tmp_path)


STATIC: dict[str, Scalar] = {"batch_size": 4, "quantization": "int8-static"}


class Counted(list[dict[str, torch.Tensor]]):
    """Items that keep which of them were asked for."""

    def __init__(self, items):
        super().__init__(items)
        self.asked = []

    def __getitem__(self, number):
        self.asked.append(number)
        return super().__getitem__(number)


@pytest.mark.parametrize(("items", "calibrating"), [(100, 24), (5000, 256), (12, 4)])
def test_what_calibrates_is_never_compared(items, calibrating):
    scores, samples = Scores(), Counted(items_of([1] * items))
    answer = lambda tensors: [scores(tensors["input"])]
    counts = _runtimes.counted(answer, answer, samples, STATIC, seed=3)
    compared, samples.asked = set(samples.asked), []
    assert len(list(_runtimes.calibration(samples, STATIC, seed=3))) * 4 == calibrating
    assert len(set(samples.asked)) == calibrating
    assert not compared & set(samples.asked)
    assert counts is not None
    assert counts.items == len(compared) == items - calibrating
    assert not list(_runtimes.calibration(samples, {**STATIC, "quantization": "int8-dynamic"}, seed=3))


def test_with_fewer_items_than_two_batches_nothing_is_compared():
    samples = Counted(items_of([1] * 5))
    scores = lambda tensors: [Scores()(tensors["input"])]
    assert _runtimes.counted(scores, scores, samples, STATIC, seed=0) is None


@pytest.mark.skipif(lacking("onnxruntime") is not None, reason=lacking("onnxruntime") or "")
def test_a_static_format_is_calibrated_on_real_items_and_its_quality_is_that_of_others():
    torch.manual_seed(0)
    model = made()
    items = [{"input": torch.randn(6), "labels": torch.tensor(0)} for _ in range(400)]
    with torch.no_grad():
        items = [{**item, "labels": model.module(item["input"]).argmax()} for item in items]
    samples = Counted(items)
    prepared, batches = ready(model, runtime="onnxruntime", quantization="int8-static")
    found = prepared.build(batches.next, samples, 7)
    calibrating, samples.asked = set(samples.asked), []
    assert len(calibrating) == 100
    assert 1e-4 < found["relative_output_error"] < 0.05
    counts = prepared.compare(samples, 7)
    assert counts is not None
    assert counts.items == 300
    assert counts.right is not None
    assert counts.right > 285
    assert not calibrating & set(samples.asked)
