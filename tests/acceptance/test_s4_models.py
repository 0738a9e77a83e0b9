"""DistilBERT itself and the other language models: the recipes by name, in full size, at their smallest."""

from typing import Any

import pytest
from acceptance.feature_rows import row_of

pytestmark = pytest.mark.long


def encoder(words: int, places: int, kinds: int, width: int, inner: int, layers: int) -> int:
    """The parameters of a transformer's encoder: embeddings with their norm, and blocks of attention and two layers."""
    linear = lambda into, out: into * out + out
    norm = 2 * width
    block = 4 * linear(width, width) + norm + linear(width, inner) + linear(inner, width) + norm
    return (words + places + kinds) * width + norm + layers * block


def head(width: int, *, dense: bool) -> int:
    """The classification head for two classes; `dense`: with a layer before it, be it called pooler or not."""
    return (width * width + width) * dense + 2 * width + 2


# What the papers' configurations come to, added up by hand. A decoder has a norm at its end, and its words as its head.
PARAMETERS = {
    "S4-14": encoder(30522, 512, 0, 768, 3072, 6) + head(768, dense=True),
    "bert": encoder(30522, 512, 2, 768, 3072, 12) + head(768, dense=True),
    "roberta": encoder(50265, 514, 1, 768, 3072, 12) + head(768, dense=True),
    "minilm": encoder(30522, 512, 2, 384, 1536, 6) + head(384, dense=True),
    "gpt2": encoder(50257, 1024, 0, 768, 3072, 12),
    "opt": encoder(50272, 2050, 0, 768, 3072, 12),
}


def parameters(run: dict[str, Any]) -> set[int]:
    return {trial["facts"]["parameters"] for case in run["cases"] for trial in case["trials"]}


def test_s4_13_the_smoke_test_measures_something(desk):
    run = desk.claimed("S4-13").document
    assert run["cases"]
    assert all(case["estimates"]["throughput"]["value"] > 0 for case in run["cases"])


def test_s4_14_distilbert_infers_and_trains_on_the_cpu(desk):
    run = desk.claimed("S4-14").document
    assert {case["workload"]["task"] for case in run["cases"]} == {"infer", "train"}
    assert {case["placement"]["device"] for case in run["cases"]} == {"cpu"}
    assert all(trial["outcome"]["status"] == "ok" for case in run["cases"] for trial in case["trials"])
    assert parameters(run) == {PARAMETERS["S4-14"]}


@pytest.mark.parametrize("name", ["bert", "roberta", "minilm", "gpt2", "opt"])
def test_s4_40_more_language_models_run_by_their_names(desk, name):
    (line,) = [line for line in row_of("S4-40").typed if line.startswith(f"torchstone run {name} ")]
    run = desk.type(line).document
    (case,) = run["cases"]
    assert case["estimates"]["throughput"]["value"] > 0
    assert case["estimates"]["latency_per_batch_p50_s"]["value"] > 0
    assert parameters(run) == {PARAMETERS[name]}
