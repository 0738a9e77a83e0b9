"""Greedy generation: its loop, what it reads off the clock, its prompts, and its digest."""

from typing import cast

import pytest
import torch

from torchstone.core.schema.model import Batch, Decoding, Unreadable
from torchstone.plugins.tasks.generate import Prompts, TokenTimes, digest, generate, without_needless_mask


def counting(told):
    """A way of decoding whose likeliest token is always the next number, and which notes what it is asked."""

    def logits(last):
        return torch.nn.functional.one_hot(last + 1, 100).float()

    def start(module, tensors, new_tokens):
        told.append(f"start {module} {new_tokens}")
        return logits(tensors["input_ids"][:, -1]), "state"

    def go_on(module, tokens, state):
        told.append(f"go_on {module} {tokens.tolist()} {state}")
        return logits(tokens)

    return Decoding(start, go_on, lambda _: 0, lambda *_: 0)


def test_each_token_is_delivered_before_the_next_is_asked_for():
    told: list[str] = []
    prompts = {"input_ids": torch.tensor([[1, 7], [2, 40]])}
    tokens, state = generate(
        counting(told), ("whole", "single"), prompts, 3, lambda t: told.append(f"got {t.tolist()}"), told.append
    )
    assert torch.stack(tokens, 1).tolist() == [[8, 9, 10], [41, 42, 43]]
    assert state == "state"
    assert told == [
        "start whole 3", "got [8, 41]", "prefill", "go_on single [8, 41] state", "got [9, 42]",
        "go_on single [9, 42] state", "got [10, 43]", "decode",
    ]  # fmt: skip


def test_one_token_has_no_decode():
    told: list[str] = []
    generate(counting(told), ("m", "m"), {"input_ids": torch.tensor([[1]])}, 1, lambda _: None, told.append)
    assert told == ["start m 1", "prefill"]


def test_times_of_tokens():
    times = TokenTimes()
    times.add([10.0, 10.5, 10.6, 10.8])
    times.add([20.0, 20.25, 20.5, 20.75])
    raw = times.raw()
    assert raw["time_to_first_token_s"] == pytest.approx([0.5, 0.25])
    assert raw["time_per_output_token_s"] == pytest.approx([0.15, 0.25])
    assert raw["output_token_time_s"] == pytest.approx([0.1, 0.2, 0.25, 0.25])
    assert TokenTimes().raw() == {}


def test_a_single_token_has_no_time_per_token_after_it():
    times = TokenTimes()
    times.add([1.0, 1.5])
    assert times.raw() == {"time_to_first_token_s": [0.5]}


def test_times_of_single_tokens_are_bounded_and_means_are_not():
    times = TokenTimes()
    for _ in range(100):
        times.add([float(n) for n in range(102)])
    raw = times.raw()
    assert len(raw["time_per_output_token_s"]) == 100
    assert len(raw["output_token_time_s"]) == 40 * 100, "whole generations only, within 4096"


def test_another_token_another_digest():
    one, other = digest([[1, 2], [3, 4]]), digest([[1, 2], [3, 5]])
    assert one == digest([[1, 2], [3, 4]])
    assert one != other
    assert digest([[1, 2, 3]]) != digest([[1, 2], [3]])
    assert all(value == int(value) < 2**48 for value in (*one, *other))


def test_padding_goes_before_the_prompt():
    def item(*mask):
        return {"input_ids": torch.arange(1, 1 + len(mask)), "attention_mask": torch.tensor(mask), "labels": 1}

    rows = [item(1, 1, 1, 0, 0), item(0, 0, 1, 1, 1), item(1, 1, 1, 1, 1), item(0, 0, 0, 0, 0), Unreadable("x", "y")]
    prompts = Prompts(rows)
    assert len(prompts) == 5
    first, second, third = [cast("dict[str, torch.Tensor]", prompts[n]) for n in range(3)]
    assert first["input_ids"].tolist() == [4, 5, 1, 2, 3]
    assert first["attention_mask"].tolist() == [0, 0, 1, 1, 1]
    assert set(first) == {"input_ids", "attention_mask"}
    assert second["input_ids"].tolist() == third["input_ids"].tolist() == [1, 2, 3, 4, 5]
    assert isinstance(prompts[3], Unreadable)
    assert prompts[4] == Unreadable("x", "y")


def test_a_mask_is_there_where_a_prompt_is_padded():
    ids = torch.ones(2, 4, dtype=torch.int64)
    tensors = {"input_ids": ids, "attention_mask": ids}
    batches = iter([Batch(tensors, 2, 8), Batch(tensors, 2, 7), Batch({"input_ids": ids}, 2)])
    pull = without_needless_mask(batches.__next__)
    full, padded, bare = pull(), pull(), pull()
    assert (set(full.tensors), full.tokens) == ({"input_ids"}, 8)
    assert (set(padded.tensors), padded.tokens) == ({"input_ids", "attention_mask"}, 7)
    assert bare.tokens == 8
