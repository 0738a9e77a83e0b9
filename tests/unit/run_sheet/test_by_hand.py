"""The loops written by hand: what they time, and that they do the work they say."""

import time

import pytest
import torch
from run_sheet import by_hand, truth
from run_sheet.by_hand import WORKS


class Queue:
    """A device whose steps take 2 ms and run behind the host, and the host's clock: issuing costs 0.1 ms."""

    def __init__(self):
        self.now = self.free = 0.0
        self.steps = 0

    def step(self):
        self.now += 1e-4
        self.free = max(self.free, self.now) + 2e-3
        self.steps += 1

    def synchronize(self):
        self.now = max(self.now, self.free)


def test_steps_that_run_behind_the_host_are_waited_for(monkeypatch):
    queue = Queue()
    monkeypatch.setattr(time, "perf_counter", lambda: queue.now)
    found = by_hand.timed(queue.step, queue.synchronize, warm_s=1.0, window_s=0.5, windows=4)
    assert len(found) == 4
    assert found == pytest.approx([2e-3] * 4, rel=1e-3)
    assert queue.steps >= 500 + 4 * 250


def test_a_first_step_that_compiles_is_in_no_window(monkeypatch):
    queue = Queue()
    monkeypatch.setattr(time, "perf_counter", lambda: queue.now)

    def step():
        queue.now += 5.0 if queue.steps == 0 else 0.0
        queue.step()

    found = by_hand.timed(step, queue.synchronize, warm_s=3.0, window_s=0.1, windows=3)
    assert found == pytest.approx([2e-3] * 3, rel=1e-2)


@pytest.mark.parametrize(("name", "passes"), [("bert-tiny", [(8, 64)]), ("generate-tiny", [(4, 32), *[(4, 1)] * 15])])
def test_a_step_is_so_many_passes_over_so_many_tokens(name, passes):
    torch.manual_seed(0)
    seen = []
    step = WORKS[name].build(WORKS[name], torch.device("cpu"), torch.float32)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, given: seen.append(tuple(given[0].shape)) if is_of_tokens(module) else None
    )
    with hook:
        step()
        assert seen == passes
        step()
    assert seen == passes * 2


def is_of_tokens(module):
    return isinstance(module, torch.nn.Embedding) and module.num_embeddings == 1000


def test_a_step_of_training_moves_every_weight_and_leaves_no_gradient():
    torch.manual_seed(0)
    made = {}

    def kept(model, loss, device, dtype, whole=by_hand.training):
        made["model"], made["loss"] = model, loss
        return whole(model, loss, device, dtype)

    work = WORKS["bert-tiny"]
    original, by_hand.training = by_hand.training, kept
    try:
        step = work.build(work, torch.device("cpu"), torch.float32)
    finally:
        by_hand.training = original
    before = {name: p.detach().clone() for name, p in made["model"].named_parameters()}
    step()
    still = [name for name, p in made["model"].named_parameters() if torch.equal(before[name], p)]
    assert not still
    assert all(p.grad is None for p in made["model"].parameters())


def test_every_workload_has_its_twin_in_torchstone():
    assert set(WORKS) == set(truth._ASKED)


@pytest.mark.parametrize("name", sorted(WORKS))
def test_both_are_asked_for_the_same_sizes(name):
    work, words = WORKS[name], " ".join(truth._ASKED[name])
    assert f"batch_size={work.batch_size}" in words
    assert f"={work.length}" in words.replace(f"batch_size={work.batch_size}", "")
    assert not work.new_tokens or f"new_tokens={work.new_tokens}" in words


@pytest.mark.parametrize("name", ["bert-tiny", "generate-tiny"])
def test_both_build_the_same_model(name):
    from torchstone.core.schema.case import Case, Placement
    from torchstone.core.schema.request import WorkloadRequest
    from torchstone.execution import plan
    from torchstone.execution.worker.setup import load_model

    words = truth._ASKED[name]
    model, task = words[words.index("--model") + 1], words[words.index("--task") + 1]
    sketch = plan.sketch(WorkloadRequest(task, model, "synthetic:full", axes={"batch_size": [1]}))
    ours = load_model(Case(sketch.workload, sketch.configurations[0], Placement("cpu"))).module
    config = by_hand._TINY if name.startswith("bert") else by_hand._TINY_GPT
    from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

    theirs = (
        BertForSequenceClassification(BertConfig(**config))
        if name.startswith("bert")
        else GPT2LMHeadModel(GPT2Config(**config))
    )
    shapes = [{n: tuple(p.shape) for n, p in module.named_parameters()} for module in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert type(ours) is type(theirs)
    assert ours.config._attn_implementation == theirs.config._attn_implementation


@pytest.mark.parametrize(
    ("name", "full"), [("resnet", "microsoft/resnet-50"), ("bert", "bert-base-uncased"), ("gpt2", "gpt2")]
)
def test_the_whole_models_are_the_published_ones(name, full):
    """By their parameters, on the meta device: nothing of that size is built."""
    import transformers

    from torchstone.plugins.models.hf.families import MODELS

    kinds = {
        "resnet": (transformers.ResNetModel, transformers.ResNetConfig()),
        "bert": (transformers.BertModel, transformers.BertConfig()),
        "gpt2": (transformers.GPT2Model, transformers.GPT2Config()),
    }
    made, config = kinds[name]
    with torch.device("meta"):
        body = made(config)
    assert sum(p.numel() for p in body.parameters()) == MODELS[full].body
