"""The flags of `run`: what they make of a recipe, and of nothing."""

import pytest

from torchstone.cli._parsing import Parser
from torchstone.cli._run_options import add_run_options, request_from
from torchstone.config.run_file import RunRequest
from torchstone.core.errors import UsageError
from torchstone.execution.plan import sketch


def request(*words: str):
    parser = Parser(prog="torchstone run")
    add_run_options(parser)
    return request_from(parser.parse_args(list(words)))


def test_nothing_at_all_is_the_demo():
    demo = request()
    assert demo.name == "demo"
    assert {w.task for w in demo.workloads} == {"infer", "train"}
    assert {w.data for w in demo.workloads} == {"manual", "digits"}


@pytest.mark.parametrize("words", [["--task", "train"], ["--axis", "batch_size=2"], ["--data", "digits"]])
def test_half_a_request_is_not_the_demo(words):
    with pytest.raises(UsageError, match="nothing to measure"):
        request(*words)


def test_an_axis_goes_to_the_workloads_that_have_it():
    asked_for = request("demo", "--axis", "optimizer=sgd", "--batch-sizes", "1,2", "4")
    for work in asked_for.workloads:
        assert work.axes["batch_size"] == (1, 2, 4)
        assert ("optimizer" in work.axes) == (work.task == "train")


def test_flags_win_over_the_procedure_of_a_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("task: infer\nmodel: builtin:mlp\nprocedure: {trials: 7, budget: 9s}\n")
    procedure = request(str(file), "--trials", "2", "--target", "5%", "--warmup-budget", "1s").procedure
    assert (procedure.trials, procedure.budget_s, procedure.target, procedure.warmup_budget_s) == (2, 9.0, 0.05, 1.0)


def test_mixed_precision_and_several_devices():
    work = request("--model", "builtin:mlp", "--mixed-precision", "--device", "cpu,cuda:1")
    assert work.device == "cpu,cuda:1"
    assert work.workloads[0].axes["precision"] == ("fp32", "bf16")


def test_a_model_takes_the_place_of_a_recipes_one_model(monkeypatch, tmp_path):
    work, other = request("finetune-mri", "--model", "hf:vit-tiny", "--option", "weights=random").workloads
    assert (work.task, work.model, other.task, other.model) == ("infer", "hf:vit-tiny", "train", "hf:vit-tiny")
    assert other.axes["learning_rate"] == (2e-5,), "all else is the recipe's"
    assert other.options == {"classes": 4, "weights": "random"}
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    only = request("finetune-mri", "--option", "weights=random", "--axis", "image_size=32").workloads
    assert {one.axes["image_size"] for one in only} == {(32,)}, "asked for before the recipe's own weights are missed"
    with pytest.raises(UsageError, match="one model, and demo names hf:distilbert-base-uncased, hf:google/vit"):
        request("demo", "--model", "builtin:cnn")


def test_a_folder_may_be_called_like_the_source_that_reads_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("imagenet100", "digits"):
        (tmp_path / name).mkdir()
    assert request("vit-imagenet100", "--data", "imagenet100").workloads[0].data == "imagenet100:imagenet100"
    assert request("vit", "--task", "train", "--data", "digits").workloads[0].data == "digits", "which takes no path"


def test_axes_come_in_the_order_typed():
    words = ["--num-workers", "0", "2", "--axis", "precision=bf16", "--batch-sizes", "4,8", "--axis", "num_workers=4"]
    work = request("--model", "builtin:mlp", "--task", "train", *words).workloads[0]
    assert list(work.axes.items()) == [("num_workers", (0, 2, 4)), ("precision", ("bf16",)), ("batch_size", (4, 8))]


def test_steps_is_another_word_for_iterations():
    assert request("--model", "builtin:mlp", "--steps", "5").procedure.iterations == 5


def test_conditions_of_flags_go_with_those_of_the_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("task: train\nmodel: builtin:mlp\nexclude: batch_size=1\nfirst: batch_size=2\n")
    asked_for = request(
        str(file), "--exclude", "optimizer=sgd", "--exclude", "batch_size>9", "--first", "precision=bf16"
    )
    assert [str(c) for c in asked_for.exclude] == ["batch_size=1", "optimizer=sgd", "batch_size>9"]
    assert [str(c) for c in asked_for.first] == ["precision=bf16", "batch_size=2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--exclude", "batch_size>=x"], "--exclude axis batch_size: 'x' is not a whole number"),
        (["--first", "nonsense"], "--first 'nonsense' is not a condition"),
        (["--exclude", "optimizer=sgd"], "--exclude optimizer=sgd: no workload has all of these axes .task infer"),
    ],
)
def test_a_condition_that_cannot_mean_anything_is_refused(words, said):
    with pytest.raises(UsageError, match=said):
        request("--model", "builtin:mlp", *words)


def test_what_looks_closer_is_asked_for_and_phases_are_there_unless_left_out():
    usual = request("--model", "builtin:mlp").procedure
    assert (usual.phases, usual.nvtx) == (True, False)
    other = request("--model", "builtin:mlp", "--no-phases", "--nvtx").procedure
    assert (other.phases, other.nvtx) == (False, True)


def test_settings_are_the_devices_unless_left_to_torch():
    assert request("--model", "builtin:mlp").procedure.settings == "device"
    assert request("--model", "builtin:mlp", "--settings", "torch").procedure.settings == "torch"


ALL = ["embedding", "text_generation", "vision", "audio", "multimodal"]


def request_families(*words: str) -> RunRequest:
    parser = Parser(prog="torchstone run")
    add_run_options(parser)
    return request_from(parser.parse_args(list(words)))


def families(found: RunRequest) -> list[str]:
    return [str(sketch(work).workload.family) for work in found.workloads]


def test_the_default_set_has_each_family_with_both_tasks() -> None:
    every = request_families("families")
    assert families(every) == [family for family in ALL for _ in range(2)]
    assert [work.task for work in every.workloads] == ["infer", "train"] * len(ALL)


@pytest.mark.parametrize("words", [["embedding", "vision"], ["embedding,vision"]])
def test_without_a_recipe_they_are_of_the_default_set(words: list[str]) -> None:
    found = request_families(
        "--model-families", *words, "--task", "train", "--batch-sizes", "16", "--learning-rates", "5e-5"
    )
    assert found.name == "families"
    assert families(found) == ["embedding", "vision"]
    assert {work.task for work in found.workloads} == {"train"}
    assert {work.axes["batch_size"] for work in found.workloads} == {(16,)}


def test_of_a_recipe_only_those_are_kept() -> None:
    assert families(request_families("demo", "--model-families", "vision")) == ["vision"]


def test_a_family_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"unknown model family here 'visoin'. Did you mean 'vision'\? Known: audio, "):
        request_families("--model-families", "embedding", "visoin")
    with pytest.raises(UsageError, match=r"unknown model family here 'vision'\. Known: embedding"):
        request_families("--model", "hf:bert-tiny", "--model-families", "vision")


def test_an_axis_of_texts_goes_to_the_models_that_read() -> None:
    found = request_families("families", "--sequence-lengths", "32", "64", "--axis", "audio_s=0.5")
    lengths = {str(sketch(w).workload.family): w.axes.get("sequence_length") for w in found.workloads}
    both = (32, 64)
    assert lengths == {"embedding": both, "text_generation": both, "vision": None, "audio": None, "multimodal": both}
    with pytest.raises(UsageError, match="axis audio_s does not apply to infer, train"):
        request_families("distilbert", "--axis", "audio_s=0.5")
