"""Seed S2's presets: printed as YAML, printed by the product, and taken as they are printed."""

import re

import pytest
from acceptance.feature_rows import row_of
from ruamel.yaml import YAML
from seed2_files import PRINTED, laid_out

from torchstone.config.recipe_files import load_request

SIZES = {"80gb": ("small", "medium", "large"), "40gb": ("small", "medium"), "24gb": ("small", "medium")}
NAMES = [f"{card}-{size}" for card, sizes in SIZES.items() for size in sizes]
# What the seed expects of them: samples/s, GB, share of the card, utilization, an epoch.
EXPECTED = {
    "80gb-small": ("4,000 samples/s", "28 GB (35 %)", "93 %", "45 s"),
    "80gb-medium": ("1,500 samples/s", "45 GB (57 %)", "88 %", "2 min"),
    "80gb-large": ("400 samples/s", "65 GB (82 %)", "85 %", "7 min"),
}


@pytest.fixture(scope="module")
def bench(desk):
    laid_out(desk.folder)
    return desk


def parsed(text):
    return YAML(typ="safe", pure=True).load(text)


def printed(name):
    return parsed((PRINTED / f"s2_preset_{name.replace('-', '_')}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_s2_36_to_39_a_preset_is_printed_as_yaml_with_the_seeds_values(bench, name):
    text = bench.type(f"torchstone list recipes preset-{name}").out
    axes = parsed(text)["axes"]
    seeds = {**printed(name)["data"], **printed(name)["training"]}
    assert seeds.pop("use_amp") is True
    assert axes["precision"] == "bf16"
    assert axes["grad_accumulation"] == seeds.pop("gradient_accumulation_steps", 1)
    for key, value in seeds.items():
        assert axes[key] == value, key
    assert {"batch_size", "num_workers", "pin_memory", "learning_rate"} <= set(axes)


@pytest.mark.parametrize(("small", "large"), [("40gb-small", "80gb-small"), ("24gb-small", "80gb-small")])
def test_s2_40_a_smaller_batch_has_the_learning_rate_of_the_square_root_rule(bench, small, large):
    one, other = (parsed(bench.type(f"torchstone list recipes preset-{name}").out)["axes"] for name in (small, large))
    assert other["learning_rate"] == 0.0003, "as the seed prints it"
    assert one["learning_rate"] == pytest.approx(0.0003 * (one["batch_size"] / other["batch_size"]) ** 0.5, rel=0.01)


def test_s2_41_the_effective_batch_stays_1024(bench):
    for name in ("80gb-medium", "80gb-large", "40gb-medium", "24gb-medium"):
        axes = parsed(bench.type(f"torchstone list recipes preset-{name}").out)["axes"]
        assert axes["batch_size"] * axes["grad_accumulation"] == 1024, name


@pytest.mark.parametrize(("name", "told"), EXPECTED.items())
def test_s2_42_what_the_seed_expects_is_told_and_whose_word_it_is(bench, name, told):
    listed = {one["name"]: one["meaning"] for one in bench.claimed("S2-42").document["recipes"]}
    entry = listed[f"preset-{name}"]
    assert "untested here; its author expects" in entry
    for figure in told:
        assert figure in entry, figure


@pytest.mark.parametrize("name", NAMES)
def test_s2_39_the_printed_yaml_is_taken_as_it_is(name):
    (one,) = load_request(PRINTED / f"s2_preset_{name.replace('-', '_')}.yaml", "builtin:denoiser-small").workloads
    (theirs,) = load_request(f"preset-{name}").workloads
    assert one.axes == {axis: values for axis, values in theirs.axes.items() if axis in one.axes}
    assert {"batch_size", "num_workers", "precision"} <= set(one.axes)


@pytest.mark.long
def test_s2_51_one_epoch_with_the_config_and_how_long_it_was_said_to_take(bench):
    told = " ".join(bench.claimed("S2-51").out.split())
    assert "pin_memory=true has no effect on cpu" in told, "the printed file is meant for a card, and is taken as it is"
    run = bench.type(row_of("S2-51").typed[0])
    (case,) = run.document["cases"]
    assert case["configuration"]["pin_memory"] is False
    assert case["configuration"]["batch_size"] == 4, "the flag"
    assert case["configuration"]["learning_rate"] == 0.00015, "of configs/default.yaml"
    assert case["configuration"]["grad_accumulation"] == 4
    said = re.search(
        r"predicted ([\d.]+) (m?s) (?:\[[^]]*\] )?an epoch of 160 items by run (\S+); item for item and without the "
        r"first step it took ([\d.]+) times that",
        told,
    )
    assert said, told
    assert said[3] == run.document["run_id"]
    rate = case["estimates"]["throughput"]["value"]
    assert float(said[1]) * {"s": 1.0, "ms": 1e-3}[said[2]] == pytest.approx(160 / rate, rel=0.01)
    trained = bench.type("torchstone show latest --json").document["cases"][0]["estimates"]
    assert float(said[4]) == pytest.approx(rate / trained["throughput"]["value"], rel=0.01)
    metrics = (bench.folder / "trained" / "training_metrics.json").read_text(encoding="utf-8")
    assert '"epoch":1' in metrics.replace(" ", "")
