"""Decoding of transformers' language models: the tokens of their own generate(), and a cache of the size expected."""

import pytest
import torch
import transformers

from torchstone.core.schema.axis import AXES
from torchstone.core.schema.case import Case, Placement, Task, Workload
from torchstone.core.schema.model import Batch
from torchstone.plugins import registry
from torchstone.plugins.models.hf import building as hf_decoding
from torchstone.plugins.tasks.generate import generate

SMALL = {
    "vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 64, "max_position_embeddings": 128,
}  # fmt: skip
CONFIGS = {
    "llama": SMALL,
    "mistral": {**SMALL, "sliding_window": 8},
    "qwen2": {**SMALL, "head_dim": 16},
}
NAMES = ["gpt2-tiny", "opt-tiny"]


def loaded(name: str, configuration):
    source = registry.load("models", "hf")
    card = source.card(name, {})
    workload = Workload(Task.GENERATE, f"hf:{name}", "synthetic:full", card.item, None, card.fixed)
    model = source.load(name, workload, configuration)
    assert model.decoding is not None
    return model


def made(name: str, **configuration):
    """A module whose next token hangs on all before it, and how it decodes.

    As they are made, random weights are so small that every token only repeats itself.
    """
    torch.manual_seed(0)
    if name in CONFIGS:
        config = transformers.AutoConfig.for_model(name, **CONFIGS[name])
        module = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    else:
        module = loaded(name, configuration).module
    for parameter in module.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return module.eval(), hf_decoding.decoding(module.config, configuration)


def generated(module, decoding, tensors, new_tokens):
    with torch.inference_mode():
        tokens, state = generate(decoding, (module, module), tensors, new_tokens, lambda _: None, lambda _: None)
    return torch.stack(tokens, 1).tolist(), state


def some_ids(items, length):
    return torch.randint(5, 200, (items, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [*NAMES, *CONFIGS])
def test_the_tokens_of_transformers_own_generate(name):
    module, decoding = made(name)
    module.generation_config.eos_token_id = None
    ids = some_ids(3, 12)
    theirs = module.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False, pad_token_id=0
    )
    ours, _ = generated(module, decoding, {"input_ids": ids}, 16)
    assert ours == theirs[:, 12:].tolist()
    assert len({token for item in ours for token in item}) > 10, "no text that only repeats itself"


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("name", [*NAMES, "llama"])
def test_a_padded_prompt_goes_on_as_if_it_were_alone(name, static):
    module, decoding = made(name, compile="default" if static else "off")
    ids = some_ids(2, 9)
    alone = [generated(module, decoding, {"input_ids": row}, 8)[0][0] for row in (ids[:1], ids[1:, 4:])]
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    together, _ = generated(module, decoding, {"input_ids": ids, "attention_mask": mask}, 8)
    assert together == alone


@pytest.mark.parametrize("name", [*NAMES, "llama"])
def test_a_static_cache_gives_the_same_tokens_again_and_again(name):
    module, growing = made(name)
    static = hf_decoding.decoding(module.config, {"compile": "default"})
    ids = some_ids(2, 12)
    wanted, _ = generated(module, growing, {"input_ids": ids}, 16)
    (first, one), (_, _), (again, other) = (
        generated(module, static, {"input_ids": row}, 16) for row in (ids, ids.flip(1), ids)
    )
    assert first == again == wanted
    assert one.cache is other.cache, "compiled code knows its addresses"
    assert static.cache_bytes(other) == static.expected_bytes(2, 12 + 15, 4)


@pytest.mark.parametrize("name", [*NAMES, *CONFIGS])
def test_the_cache_has_the_size_that_the_config_says(name):
    module, decoding = made(name)
    for length in (4, 20):
        _, state = generated(module, decoding, {"input_ids": some_ids(3, length)}, 6)
        assert decoding.cache_bytes(state) == decoding.expected_bytes(3, length + 5, 4) > 0
    heads, width = {"qwen2": (2, 16), "gpt2-tiny": (2, 32), "opt-tiny": (2, 32)}.get(name, (2, 8))
    kept = 7 if name == "mistral" else 25  # what its window of 8 leaves for the next query
    assert decoding.expected_bytes(3, 25, 4) == 2 * 3 * 2 * heads * width * kept * 4


@pytest.mark.parametrize(("new", "compiled"), [(1, "off"), (2, "off"), (6, "off"), (6, "default")])
def test_a_generation_is_counted_as_its_formula_says(new, compiled):
    items, prompt, width, layers, words = 2, 10, 64, 2, 1000
    each = 2 * layers * (4 * width * width + 2 * width * 4 * width)
    heads = 2 * width * words * new  # the last position of the prompt, and every token after it
    seen = prompt * prompt + sum(range(prompt + 1, prompt + new))
    formula = items * (each * (prompt + new - 1) + heads + layers * 4 * width * seen)
    engine = registry.load("engines", "generate")
    values = {axis: AXES[axis].default for axis in engine.axes}
    values |= {"batch_size": items, "sequence_length": prompt, "new_tokens": new}
    model = loaded("gpt2-tiny", {"compile": compiled})
    case = Case(Workload(Task.GENERATE, "hf:gpt2-tiny", "synthetic:full", "sequence"), values, Placement("cpu"))
    prepared = engine.prepare(case, model, registry.load("devices", "cpu").open(0))
    assert prepared.count(Batch({"input_ids": some_ids(items, prompt)}, items, items * prompt)).flops == formula
