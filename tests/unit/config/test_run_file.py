import json

import pytest

from torchstone.config.recipe_files import load_request, recipe_digest, recipe_names
from torchstone.config.run_file import read_fit, read_procedure
from torchstone.config.source import ConfigFile, read_file
from torchstone.core.errors import UsageError
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.training import Fit
from torchstone.core.units import duration_s, share

SEED = {
    "batch_sizes": [1, 4],
    "sequence_lengths": [32, 128],
    "warmup_iterations": 5,
    "training_iterations": 50,
    "learning_rates": [1e-5, 5e-5],
    "optimizers": ["Adam", "AdamW"],
    "model_families": {"embedding": ["bert-base-uncased"], "text_generation": ["gpt2", "facebook/opt-125m"]},
    "hardware_types": ["cpu", "cuda"],
    "mixed_precision": True,
    "gradient_accumulation_steps": [1, 2],
    "distributed_configs": [{"world_size": 1, "backend": "nccl"}],
}


def asked(tmp_path, text, suffix="yaml"):
    path = tmp_path / f"mine.{suffix}"
    path.write_text(text)
    return load_request(path)


def fault(tmp_path, text, suffix="yaml"):
    with pytest.raises(UsageError) as found:
        asked(tmp_path, text, suffix)
    assert "\n" not in str(found.value)
    return str(found.value).replace(f"{tmp_path}/", "")


def test_a_whole_file(tmp_path):
    request = asked(
        tmp_path,
        "about: x\nname: n\ndevice: cuda:1\nprocedure: {trials: 5, budget: 30s, timeout: 5m, target: 2%, warmup: 3}\n"
        "workloads:\n  - {task: infer, model: 'hf:gpt2', data: synthetic, options: {weights: random},"
        " axes: {batch_size: [1, 8, 8], precision: fp32}}\n",
    )
    assert request.device == "cuda:1"
    assert request.procedure == Procedure(trials=5, budget_s=30.0, timeout_s=300.0, target=0.02, aim=0.02, warmup=3)
    (one,) = request.workloads
    assert (one.task, one.model, one.data, one.options) == ("infer", "hf:gpt2", "synthetic", {"weights": "random"})
    assert one.axes == {"batch_size": (1, 8), "precision": ("fp32",)}


def test_one_workload_at_the_top(tmp_path):
    request = asked(tmp_path, "task: train\nmodel: builtin:cnn\naxes: {learning_rate: 1e-5}\n")
    assert (request.name, request.workloads[0].data) == ("mine", None)
    assert request.workloads[0].axes == {"learning_rate": (1e-5,)}


TOP = "task: infer\nmodel: builtin:cnn\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (TOP + "axes:\n  batch_size: 0\n", "mine.yaml:4:3: axes.batch_size: 0 is too small (a value from 1 up)"),
        (TOP + "axes:\n  batch_size: [1, -1]\n", "mine.yaml:4:19: axes.batch_size[1]: -1 is too small"),
        (TOP + "axes:\n  batch_size: 1.5\n", "mine.yaml:4:3: axes.batch_size: 1.5 is not a whole number"),
        (TOP + "axes:\n  batch_sice: 1\n", "4:3: axes.batch_sice: unknown axis 'batch_sice'. Did you mean 'batch_s"),
        (TOP + "axes: {batch_size: []}\n", "3:8: axes.batch_size: has no value; its default is 1"),
        (TOP + "axes: {batch_size: [[1]]}\n", "axes.batch_size[0]: must be a value or a list of values"),
        (TOP + "axes: {precision: fp31}\n", "axes.precision: unknown value 'fp31'. Did you mean"),
        (TOP + "axes: {learning_rate: .nan}\n", "axes.learning_rate: nan is not a number"),
        (TOP + "axes: 3\n", "mine.yaml:3:1: axes: must be a mapping"),
        (TOP + "options: {weights: [1]}\n", "options.weights: must be one value"),
        (TOP + "modle: x\n", "mine.yaml:3:1: modle: unknown key. Did you mean 'model'?"),
        (TOP + "device: cudaa\n", "mine.yaml:3:1: device: unknown device 'cudaa'. Did you mean 'cuda'?"),
        (TOP + "device: 'cuda:x'\n", "device: 'cuda:x': write cuda:0"),
        (TOP + "device: []\n", "device: has no value"),
        (TOP + "procedure:\n  trils: 3\n", "mine.yaml:4:3: procedure.trils: unknown key. Did you mean 'trials'?"),
        (TOP + "procedure: {trials: 0}\n", "procedure.trials: 0 is too small: 1 or more"),
        (TOP + "procedure: {trials: true}\n", "procedure.trials: True is not a whole number"),
        (TOP + "procedure: {budget: 5 parsecs}\n", "procedure.budget: '5 parsecs' is not a duration: write"),
        (TOP + "procedure: {budget: 0}\n", "procedure.budget: must be more than 0 s"),
        (TOP + "procedure: {budget: .inf}\n", "procedure.budget: inf is not a duration"),
        (TOP + "procedure: {budget: 1s, budget_s: 2}\n", "budget_s is given twice"),
        (TOP + "procedure: {target: 150%}\n", "procedure.target: 1.5 is not between 0 and 1"),
        (TOP + "procedure: {heap: big}\n", "procedure.heap: unknown value 'big'"),
        (TOP + "procedure: {settings: mine}\n", "procedure.settings: unknown value 'mine'"),
        ("task: infre\nmodel: x\n", "mine.yaml:1:1: task: unknown task 'infre'. Did you mean 'infer'?"),
        ("task: infer\n", "mine.yaml:1:1: 'model' is missing; or add --model NAME"),
        ("task: infer\nmodel: 3\n", "mine.yaml:2:1: model: 3 is not a text"),
        ("workloads:\n  - task: infer\n    modle: x\n", "3:5: workloads[0].modle: unknown key. Did you mean 'model'"),
        ("workloads: []\n", "workloads: must be a list of workloads, one at least"),
        ("workloads: [3]\n", "workloads[0]: must be a mapping"),
        ("workloads: [{task: infer, model: x}]\nmodel: y\n", "mine.yaml:2:1: model: unknown key"),
        ("batch_sizes: [1, 0]\nmodel: hf:x\n", "mine.yaml:1:18: workloads[0].axes.batch_size[1]: 0 is too small"),
        ("batch_sizes: [1]\n", "mine.yaml:1:1: has no model: add --model NAME, or `model`"),
        ("mixed_precision: 3\nmodel: x\n", "mine.yaml:1:1: mixed_precision: 3 is not true or false"),
        ("model_families: {a: [1]}\n", "model_families.a[0]: 1 is not the name of a model"),
        ("model: x\ndistributed_configs: [{world_size: 0}]\n", "distributed_configs[0]: axis world_size: 0 is too"),
        ("batch_sizes: [1]\nworkloads: []\n", "batch_sizes: needs `model` or `model_families`, not `workloads`"),
        (TOP + "exclude:\n  - batch_size>=x\n", "mine.yaml:4:5: exclude[0]: axis batch_size: 'x' is not"),
        (TOP + "exclude: 3\n", "mine.yaml:3:1: exclude: must be a text like batch_size>=1024,precision=fp32"),
        (TOP + "exclude: [{}]\n", "exclude[0]: must be a text like"),
        (TOP + "first: {batch_sice: 1}\n", "first.batch_sice: unknown axis 'batch_sice'. Did you mean 'batch_size'?"),
        (TOP + "first: {batch_size: [1, 0]}\n", "mine.yaml:3:9: first.batch_size: 0 is too small"),
        (TOP + "exclude: [{batch_size: {a: 1}}]\n", "exclude[0].batch_size: must be a value, a comparison like"),
        ("model: x\nbenchmark:\n  batch_sizes: [1, 0]\n", "3:20: workloads[0].axes.batch_size[1]: 0 is too small"),
        ("model: x\nbenchmark: {batch_size: 1}\n", "benchmark.batch_size: unknown key. Did you mean"),
        ("model: x\nbenchmark: {test_pin_memory: 3}\n", "mine.yaml:2:13: benchmark.test_pin_memory: 3 is not true or"),
        ("model: x\nbenchmark: [1]\n", "mine.yaml:2:1: benchmark: must be a mapping with batch_sizes"),
        ("model: x\nbenchmark:\n  steps_per_test: 0\n", "mine.yaml:3:3: procedure.iterations: 0 is too small"),
        ("benchmark: {batch_sizes: [1]}\n", "has no model"),
    ],
)  # fmt: skip
def test_every_fault_names_file_line_and_key(tmp_path, text, want):
    assert want in fault(tmp_path, text)


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_the_other_formats_name_the_same(tmp_path, suffix):
    text = {
        "json": '{"task": "infer", "model": "x",\n "axes": {"batch_size": 0}}',
        "toml": 'task="infer"\nmodel="x"\n[axes]\nbatch_size = 0\n',
    }
    line = {"json": "2:11", "toml": "4:1"}[suffix]
    assert fault(tmp_path, text[suffix], suffix).startswith(f"mine.{suffix}:{line}: axes.batch_size: 0 is too small")


def test_the_words_of_other_benchmarks(tmp_path):
    request = asked(tmp_path, json.dumps(SEED), "json")
    assert request.device == "cpu,cuda"
    assert (request.procedure.warmup, request.procedure.iterations) == (5, 50)
    assert [w.model for w in request.workloads] == ["hf:bert-base-uncased", "hf:gpt2", "hf:facebook/opt-125m"]
    assert {w.task for w in request.workloads} == {"train"}
    assert request.workloads[0].axes == {
        "batch_size": (1, 4), "sequence_length": (32, 128), "learning_rate": (1e-5, 5e-5),
        "optimizer": ("adam", "adamw"), "grad_accumulation": (1, 2), "precision": ("fp32", "bf16"),
    }  # fmt: skip


def test_the_words_of_a_finder_of_the_best_settings(tmp_path):
    """S2-07 to S2-11."""
    request = asked(
        tmp_path,
        "model: builtin:denoiser-small\nbenchmark:\n  batch_sizes: [1, 2]\n  num_workers_options: [0, 4]\n"
        "  steps_per_test: 10\n  test_mixed_precision: true\n  test_pin_memory: true\naxes: {batch_size: 8}\n",
    )
    (one,) = request.workloads
    assert (one.task, request.procedure.iterations) == ("train", 10)
    assert one.axes == {
        "feed": ("loader",), "batch_size": (8,), "num_workers": (0, 4), "precision": ("fp32", "bf16"),
        "pin_memory": (False, True),
    }  # fmt: skip
    plain = asked(tmp_path, "model: x\nbenchmark: {test_mixed_precision: false, batch_sizes: [2]}\n").workloads[0]
    assert plain.axes == {"feed": ("loader",), "batch_size": (2,)}


@pytest.mark.parametrize("text", ["benchmark: {batch_sizes: [2]}\n", "task: train\naxes: {batch_size: 2}\n"])
def test_s2_08_a_file_that_names_no_model_takes_that_of_the_command_line(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    (one,) = load_request(path, "builtin:cnn").workloads
    assert (one.task, one.model, one.axes["batch_size"]) == ("train", "builtin:cnn", (2,))


@pytest.mark.parametrize("text", ["model: x\n", "workloads: [{task: infer, model: x}]\n", "model_families: {a: [x]}\n"])
def test_a_file_that_names_models_refuses_another(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"mine.yaml:1:1: [a-z_]+: already names the models: leave"):
        load_request(path, "builtin:cnn")


def test_conditions_in_both_forms(tmp_path):
    request = asked(
        tmp_path,
        TOP + "exclude:\n  - batch_size>=1024,precision=fp32\n  - {batch_size: '>=64', precision: [fp32, tf32]}\n"
        "first: precision=bf16\n",
    )
    assert [str(c) for c in request.exclude] == [
        "batch_size>=1024,precision=fp32",
        "batch_size>=64,precision=fp32|tf32",
    ]
    assert [str(c) for c in request.first] == ["precision=bf16"]


PRESETS = {
    "preset-80gb-small": (4096, 12, 1, 3e-4), "preset-80gb-medium": (1024, 12, 1, 2e-4),
    "preset-80gb-large": (256, 8, 4, 1.5e-4), "preset-40gb-small": (2048, 8, 1, 3e-4 * 0.5**0.5),
    "preset-40gb-medium": (512, 8, 2, 2e-4), "preset-24gb-small": (1024, 6, 1, 3e-4 * 0.25**0.5),
    "preset-24gb-medium": (256, 4, 4, 2e-4),
}  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), PRESETS.items())
def test_presets_hold_the_seeds_settings(name, settings):
    """S2-36 to S2-41: the learning rate goes with the square root of the effective batch."""
    (one,) = load_request(name).workloads
    size, workers, accumulation, rate = settings
    assert (one.task, one.model) == ("train", f"builtin:denoiser-{name.rpartition('-')[2]}")
    assert (one.axes["batch_size"], one.axes["num_workers"]) == ((size,), (workers,))
    assert one.axes["grad_accumulation"] == (accumulation,)
    assert (one.axes["pin_memory"], one.axes["precision"]) == ((True,), ("bf16",))
    assert one.axes["learning_rate"][0] == pytest.approx(rate, rel=0.01)


@pytest.mark.parametrize(("name", "about"), recipe_names())
def test_recipes_are_sound(name, about):
    request = load_request(name)
    assert about == request.about
    assert request.name == name
    assert {axis for w in request.workloads for axis in w.axes} <= set(AXES)


def test_recipes_are_found_by_name():
    assert {"bert", "cnn", "demo", "distilbert", "gesture", "gpt2", "opt", "smoke", "vit"} <= {
        n for n, _ in recipe_names()
    }
    with pytest.raises(UsageError, match=r"unknown recipe 'distilbret'. Did you mean 'distilbert'"):
        load_request("distilbret")
    with pytest.raises(UsageError, match="unknown recipe"):
        load_request("..")
    for word in ("train.py", "models/train.py"):
        with pytest.raises(UsageError, match=f"--task train --model py:{word}:FUNCTION"):
            load_request(word)


def test_durations_and_shares():
    assert [duration_s(t) for t in ("30s", "5m", "1h", "500ms", "1.5 min", 7, "7")] == [30, 300, 3600, 0.5, 90, 7, 7]
    assert (share("1%"), share(0.01), share("0.5")) == (0.01, 0.01, 0.5)
    for bad in ("", "s", "-1s", "1d", True, None, float("nan"), [1], "١s"):
        with pytest.raises(UsageError, match=r"--budget: .* is not a duration"):
            duration_s(bad, "--budget")


def test_a_request_knows_the_text_it_came_from(tmp_path):
    path = tmp_path / "mine.yaml"
    request = asked(tmp_path, "task: infer\nmodel: builtin:cnn\n")
    assert request.source is not None
    assert (request.source.word, request.source.sha256) == (str(path), recipe_digest(path))
    path.write_text("task: infer\nmodel: builtin:cnn\n# edited\n")
    assert recipe_digest(path) != request.source.sha256
    recipe = load_request("smoke").source
    assert recipe is not None
    assert (recipe.word, recipe.sha256) == ("smoke", recipe_digest("smoke"))
    path.unlink()
    with pytest.raises(UsageError, match=r"mine\.yaml: No such file"):
        recipe_digest(path)


def test_cores_of_a_trial_and_pinned_threads_exclude_each_other(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: builtin:mlp\nprocedure: {cpu_affinity: 0-1, pin_threads: true}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="excludes pin_threads: give one of them"):
        read_procedure(read_file(path))


def read(**given):
    return read_fit(ConfigFile("run.yaml", {"fit": given}, {}))


def test_every_word_is_read():
    asked = read(
        epochs=3, data="digits", schedule="cosine", warmup_share="5%", early_stop=2, validation=0.2, augment=False,
        keep="best",
    )  # fmt: skip
    assert (asked.epochs, asked.data) == (3, "digits")
    assert asked.fit == Fit("cosine", 0.05, 2, 0.2, None, augment=False, keep="best")
    assert read(warmup_share=0).fit.warmup_share == 0.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"epoch": 3}, "Did you mean 'epochs'"), ({"epochs": 0}, "from 1 up"), ({"epochs": True}, "from 1 up"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"), ({"validation": 1.5}, "not between 0 and 1"),
        ({"augment": "yes"}, "not true or false"), ({"data": "digts"}, "Did you mean 'digits'"),
        ({"folder": "x"}, "unknown key"), ({"resume": True}, "unknown key"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(given, says):
    with pytest.raises(UsageError, match=r"^run.yaml:1:1: fit.*") as caught:
        read(**given)
    assert says in str(caught.value)


def test_a_fit_is_a_mapping():
    with pytest.raises(UsageError, match="must be a mapping"):
        read_fit(ConfigFile("run.yaml", {"fit": [1]}, {}))
