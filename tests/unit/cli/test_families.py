"""S3-02: --model-families, and axes that go to the models that have them."""

import pytest

from torchstone.cli._parsing import Parser
from torchstone.cli._run_options import add_run_options, asked
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.execution.plan import sketch

ALL = ["embedding", "text_generation", "vision", "audio", "multimodal"]


def request(*words: str) -> RunRequest:
    parser = Parser(prog="torchstone run")
    add_run_options(parser)
    return asked(parser.parse_args(list(words)))


def families(found: RunRequest) -> list[str]:
    return [str(sketch(work).workload.family) for work in found.workloads]


def test_the_default_set_has_each_family_with_both_tasks() -> None:
    every = request("families")
    assert families(every) == [family for family in ALL for _ in range(2)]
    assert [work.task for work in every.workloads] == ["infer", "train"] * len(ALL)


@pytest.mark.parametrize("words", [["embedding", "vision"], ["embedding,vision"]])
def test_without_a_recipe_they_are_of_the_default_set(words: list[str]) -> None:
    found = request("--model-families", *words, "--task", "train", "--batch-sizes", "16", "--learning-rates", "5e-5")
    assert found.name == "families"
    assert families(found) == ["embedding", "vision"]
    assert {work.task for work in found.workloads} == {"train"}
    assert {work.axes["batch_size"] for work in found.workloads} == {(16,)}


def test_of_a_recipe_only_those_are_kept() -> None:
    assert families(request("demo", "--model-families", "vision")) == ["vision"]


def test_a_family_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"unknown model family here 'visoin'. Did you mean 'vision'\? Known: audio, "):
        request("--model-families", "embedding", "visoin")
    with pytest.raises(UsageError, match=r"unknown model family here 'vision'\. Known: embedding"):
        request("--model", "hf:bert-tiny", "--model-families", "vision")


def test_an_axis_of_texts_goes_to_the_models_that_read() -> None:
    found = request("families", "--sequence-lengths", "32", "64", "--axis", "audio_s=0.5")
    lengths = {str(sketch(w).workload.family): w.axes.get("sequence_length") for w in found.workloads}
    both = (32, 64)
    assert lengths == {"embedding": both, "text_generation": both, "vision": None, "audio": None, "multimodal": both}
    with pytest.raises(UsageError, match="axis audio_s does not apply to infer, train"):
        request("distilbert", "--axis", "audio_s=0.5")
