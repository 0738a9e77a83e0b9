"""What every engine must do: step, tell what was computed, count its work, and be what a user would write by hand."""

import copy
import subprocess
import sys

import pytest
import torch

from torchstone.core.errors import Unsupported
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import Decoding, InputSpec, LoadedModel
from torchstone.execution.timing.loop import unmarked
from torchstone.plugins import registry

criterion = torch.nn.functional.cross_entropy


def loss(network, tensors):
    return criterion(network(tensors["input"]), tensors["target"])


def made(**changes):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    example = {"input": torch.randn(8, 6), "target": torch.randint(0, 3, (8,))}
    parts = {"module": module, "forward": lambda n, t: n(t["input"]), "loss": loss, "input": InputSpec("own")}
    return LoadedModel(**{**parts, "example": example, **changes})


def talking(**changes):
    """A language model whose next token hangs on its last alone."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
    decoding = Decoding(
        lambda network, tensors, _: (network(tensors["input_ids"])[:, -1], tensors["input_ids"]),
        lambda network, tokens, _: network(tokens),
        lambda state: state.nbytes,
        lambda items, tokens, number_bytes: items * tokens * number_bytes,
    )
    parts = {"module": module, "forward": lambda n, t: n(t["input_ids"]), "loss": None}
    example = {"input_ids": torch.randint(0, 16, (8, 6)), "attention_mask": torch.ones(8, 6, dtype=torch.int64)}
    spec = InputSpec("text", causal=True)
    return LoadedModel(**{**parts, "input": spec, "example": example, "decoding": decoding, **changes})


def model_for(task):
    if task == "call":
        weights = torch.ones(4, 4)
        return made(example=None, forward=lambda _module, _tensors: weights @ weights)
    return talking() if task == "generate" else made()


def ready(task, model, **axes):
    engine = registry.load("engines", task)
    sizes = {"batch_size": 4} if "batch_size" in engine.axes else {}
    values = {axis: AXES[axis].default for axis in engine.axes} | sizes | axes
    case = Case(Workload(Task(task), "module:test", "example", "sample"), values, Placement("cpu"))
    device = registry.load("devices", "cpu").open(0)
    return engine.prepare(case, model, device), engine.open_batches(case, model, None, device, 0)


@pytest.mark.parametrize("task", registry.names("engines"))
def test_every_engine_steps_tells_and_counts(task):
    engine = registry.load("engines", task)
    assert engine.describes
    assert set(engine.axes) <= set(AXES)
    prepared, batches = ready(task, model_for(task))
    for _ in range(3):
        prepared.step(batches.next, unmarked)
    told = prepared.results()
    assert all(torch.isfinite(torch.tensor(values)).all() for values in told.values())
    counted = prepared.count(batches.next())
    if task == "load":  # it computes nothing, and says so
        assert (told, counted.flops) == ({}, None)
        assert counted.why_not
    elif task in ("loadgen", "call"):  # no batch is like all others; what a function reaches is not known
        assert (len(told["fingerprint"]), counted.flops) == (2, None)
        assert counted.why_not
    else:
        assert told["fingerprint"]
        for total in (counted.flops, counted.traffic_bytes, counted.operators):
            assert total is not None
            assert total > 0
    assert set(engine.windows({"mode": "both"})) <= {"latency", "throughput", "load"}
    batches.close()


@pytest.mark.parametrize(
    ("task", "axes", "phases"),
    [
        ("infer", {"feed": "resident"}, "data forward"),
        ("infer", {"feed": "loader"}, "data transfer forward"),
        ("load", {}, "data"),
        ("generate", {"feed": "resident", "new_tokens": 3}, "data prefill decode"),
        ("generate", {"feed": "loader", "new_tokens": 1}, "data transfer prefill"),
        ("train", {"feed": "resident"}, "data forward backward optimizer"),
        (
            "train",
            {"feed": "loader", "grad_accumulation": 2, "grad_clip": 1.0},
            "data transfer forward backward data transfer forward backward optimizer",
        ),
    ],
)
def test_every_engine_marks_its_phases_where_they_end(task, axes, phases):
    prepared, batches = ready(task, model_for(task), **axes)
    told = []

    def pull():
        told.append("pulled")
        return batches.next()

    for _ in range(2):
        told.clear()
        prepared.step(pull, told.append)
        assert [word for word in told if word != "pulled"] == phases.split()
        assert all(told[n + 1] == "data" for n, word in enumerate(told) if word == "pulled"), "as soon as it is there"
    batches.close()


@pytest.mark.parametrize("task", [name for name in registry.names("engines") if name != "call"])
@pytest.mark.parametrize("feed", ["resident", "loader"])
def test_every_feed_gives_whole_batches(task, feed):
    _, batches = ready(task, model_for(task), feed=feed, batch_size=3)
    for _ in range(7):
        batch = batches.next()
        assert batch.items == 3
        assert all(len(tensor) == 3 for tensor in batch.tensors.values())
    batches.close()


@pytest.mark.parametrize(("optimizer", "settings"), [("sgd", {"momentum": 0.9}), ("adamw", {}), ("adam", {})])
def test_training_computes_what_a_loop_by_hand_computes(optimizer, settings):
    model = made()
    twin = copy.deepcopy(model.module)
    prepared, batches = ready("train", model, optimizer=optimizer, learning_rate=0.05, fused="off", grad_clip=0.5)
    seen = [batches.next() for _ in range(6)]
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    by_hand = kinds[optimizer](twin.parameters(), lr=0.05, **settings)
    wanted = []
    for batch in seen:
        value = loss(twin, batch.tensors)
        value.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        by_hand.step()
        by_hand.zero_grad()
        wanted.append(value.item())
    source = iter(seen)
    for _ in seen:
        prepared.step(source.__next__, unmarked)
    assert prepared.results()["loss"] == wanted, "bit for bit"


@pytest.mark.filterwarnings("ignore")  # of torch's compiler and torchao
@pytest.mark.parametrize("optimizer", ["adam8bit", "adamw8bit"])
def test_a_step_in_eight_bits_is_torchs_but_for_rounding(optimizer):
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    wide = torch.nn.Sequential(torch.nn.Linear(6, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 3))
    losses = []
    for name in (optimizer, optimizer.removesuffix("8bit")):
        prepared, batches = ready("train", made(module=copy.deepcopy(wide)), optimizer=name, learning_rate=0.001)
        for _ in range(8):
            prepared.step(batches.next, unmarked)
        losses.append(prepared.results()["loss"])
        batches.close()
    assert losses[1][-1] < losses[1][0]
    assert losses[0] == pytest.approx(losses[1], abs=0.01)
    prepared, _ = ready("train", made(module=wide), optimizer=optimizer)
    assert prepared.facts.fused_optimizer is None
    with pytest.raises(Unsupported, match=f"fused=on: {optimizer} has no such kernels"):
        ready("train", made(), optimizer=optimizer, fused="on")


def test_adapters_are_trained_and_nothing_else(monkeypatch):
    peft = pytest.importorskip("peft")
    monkeypatch.setattr(torch.backends.mha, "_is_fastpath_enabled", True)  # adapters turn it off for the process
    model, by_hand = made(), made().module
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    torch.manual_seed(1)
    prepared, batches = ready("train", model, lora=2, optimizer="adamw", learning_rate=0.05, fused="off")
    assert prepared.facts.trainable_parameters == 2 * (6 + 8) + 2 * (8 + 3)
    assert sum(p.numel() for group in prepared.optimizer.param_groups for p in group["params"]) == 50
    torch.manual_seed(1)
    by_hand = peft.get_peft_model(by_hand, peft.LoraConfig(r=2, target_modules=["0", "2"]))
    optimizer = torch.optim.AdamW([p for p in by_hand.parameters() if p.requires_grad], lr=0.05)
    wanted = []
    for _ in range(6):
        batch = batches.next()
        value = loss(by_hand, batch.tensors)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        wanted.append(value.item())
        prepared.step(lambda batch=batch: batch, unmarked)
    assert prepared.results()["loss"] == wanted, "bit for bit"
    assert wanted[-1] < wanted[0]
    after = {name.replace(".base_layer", ""): value for name, value in prepared.module.state_dict().items()}
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize(
    ("axes", "module", "extra"), [({"lora": 4}, "peft", "lora"), ({"optimizer": "adamw8bit"}, "torchao", "torchao")]
)
def test_a_library_that_is_not_here_is_named_with_its_command(axes, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unsupported, match=rf"needs {module}: pip install 'torchstone\[{extra}\]'"):
        ready("train", made(), **axes)


def test_accumulation_adds_up_to_the_larger_batch():
    losses = []
    for size, accumulation in ((8, 1), (4, 2)):
        model = made()
        prepared, _ = ready("train", model, optimizer="sgd", learning_rate=0.1, grad_accumulation=accumulation)
        rows = {name: tensor.split(size) for name, tensor in model.example.items()}
        from torchstone.core.schema.model import Batch

        parts = [Batch({n: t[i] for n, t in rows.items()}, size) for i in range(8 // size)]
        source = iter(parts * 3)
        for _ in range(3):
            prepared.step(source.__next__, unmarked)
        losses.append(next(iter(model.module.parameters())).detach().clone())
    torch.testing.assert_close(losses[0], losses[1])


def test_fp16_goes_with_a_scaler_and_bf16_without():
    for precision in ("fp16", "bf16"):
        prepared, batches = ready("train", made(), precision=precision)
        prepared.step(batches.next, unmarked)
        assert torch.isfinite(torch.tensor(prepared.results()["loss"])).all()


def test_inference_keeps_no_gradients_and_eval_mode():
    model = made()
    model.module.append(torch.nn.Dropout(0.9))
    prepared, batches = ready("infer", model)
    prepared.step(batches.next, unmarked)
    assert not model.module.training
    assert all(p.grad is None for p in model.module.parameters())


@pytest.mark.parametrize(
    ("task", "axes", "said"),
    [
        ("train", {"channels_last": True}, "no convolution"),
        ("train", {"gradient_checkpointing": True}, "checkpointing"),
        ("train", {"precision": "tf32"}, "tf32"),
        ("infer", {"pin_memory": True}, "accelerator"),
    ],
)
def test_what_cannot_be_done_is_unsupported_with_the_reason(task, axes, said):
    with pytest.raises(Unsupported, match=said):
        ready(task, made(), **axes)


def test_training_without_a_loss_is_unsupported():
    with pytest.raises(Unsupported, match="loss"):
        ready("train", made(loss=None))


def test_generation_streams_in_its_latency_window_only():
    prepared, batches = ready("generate", talking(), new_tokens=5)
    for window, steps in ((None, 2), ("latency", 3), ("throughput", 4)):
        if window is not None:
            prepared.enter(window)
        for _ in range(steps):
            prepared.step(batches.next, unmarked)
    told = prepared.results()
    assert len(told["time_to_first_token_s"]) == len(told["time_per_output_token_s"]) == 3
    assert len(told["output_token_time_s"]) == 3 * 4
    assert all(value > 0.0 for name, values in told.items() if name.endswith("_s") for value in values)
    assert told["kv_cache_bytes"] == [4 * 6 * 8]
    assert (prepared.facts.new_tokens, prepared.facts.stops_at_end_of_sequence) == (5, False)


def test_generation_in_another_precision_is_compared_with_fp32():
    prepared, batches = ready("generate", talking(), new_tokens=3, precision="bf16")
    assert 0.0 < prepared.compare_precision(batches.next)["relative_output_error"] < 0.05
    texts = [{name: tensor[0] for name, tensor in talking().example.items()}] * 40
    assert prepared.compare(texts, 0) is None, "it guesses: nothing is known of it"
    prepared, batches = ready("generate", talking(), new_tokens=3)
    assert prepared.compare_precision(batches.next) == {}
    assert prepared.compare(texts, 0) is None


def test_generation_is_quantized_and_gives_out_what_the_quantized_model_says():
    texts = talking()
    prepared, batches = ready("generate", texts, new_tokens=3, quantization="int8-dynamic")
    found = prepared.build(batches.next)
    assert 0.0 < found["relative_output_error"] < 0.1
    assert prepared.facts.settings["runtime"].value == "eager"
    prepared.step(batches.next, unmarked)
    layer = prepared._asked[1]
    assert ".quantized.dynamic." in type(layer).__module__
    assert isinstance(texts.module[1], torch.nn.Linear), "what it is compared with is as it was"
    calls = []
    layer.register_forward_hook(lambda *_: calls.append(1))
    prepared.step(batches.next, unmarked)
    assert len(calls) == 3
    assert prepared.count(batches.next()).why_not is not None


def test_generation_back_to_back_reads_no_clock_and_computes_the_same():
    fingerprints = []
    for mode in ("latency", "throughput"):
        prepared, batches = ready("generate", talking(), new_tokens=5, mode=mode)
        prepared.step(batches.next, unmarked)
        told = prepared.results()
        assert ("time_to_first_token_s" in told) is (mode == "latency")
        fingerprints.append(told["fingerprint"])
    assert fingerprints[0] == fingerprints[1]


@pytest.mark.parametrize(
    ("model", "axes", "said"),
    [
        (made(), {}, "use a language model of hf:"),
        (
            talking(input=InputSpec("text", causal=True, longest=64)),
            {"sequence_length": 40, "new_tokens": 26},
            "sequence_length=40, new_tokens=26: the model has 64 positions, and this needs 65",
        ),
    ],
)
def test_what_cannot_be_generated_is_unsupported_with_the_reason(model, axes, said):
    with pytest.raises(Unsupported, match=said):
        ready("generate", model, **axes)


@pytest.mark.parametrize("task", [Task.INFER, Task.TRAIN, Task.GENERATE, Task.LOAD])
def test_what_a_step_needs_is_imported_before_the_fork(task):
    """torch's compiler, whose switches _settings and _graphs set, takes a second: once a template, not once a trial."""
    preload = f"import sys; from torchstone.plugins import registry; registry.load('engines', '{task}').preload()"
    names = "print(*[name for name in sys.modules if name.startswith('torchstone.plugins.tasks._')])"
    done = subprocess.run([sys.executable, "-c", f"{preload}; {names}"], capture_output=True, text=True, check=True)
    assert {"torchstone.plugins.tasks._batches", "torchstone.plugins.tasks._settings"} <= set(done.stdout.split())
