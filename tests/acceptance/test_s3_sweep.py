"""Seed S3: one sweep of trainings, and what its analyses say, against ratios computed by hand."""

import json
import re

import pytest

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sweep(desk):
    return desk.claimed("S3-42").document


@pytest.fixture(scope="module")
def sizes(desk):
    """Two models of a family at two lengths of their texts, from a file in the document's words."""
    desk.write("lengths.json", json.dumps({
        "model_families": {"embedding": ["bert-tiny", "distilbert-tiny"]}, "sequence_lengths": [8, 16],
        "batch_sizes": [4], "learning_rates": [5e-5], "training_iterations": 4, "warmup_iterations": 1,
    }))  # fmt: skip
    return desk.claimed("S3-56").document


@pytest.fixture(scope="module")
def shown(desk, sweep):
    return desk.type("torchstone show sweep --full").out


def case_of(run, case_id):
    return next(case for case in run["cases"] if case["case_id"] == case_id)


def value(case, figure):
    return case["estimates"][figure]["value"]


def analyses(run, by):
    found = [one for one in run["performance_analysis"] if one["by"] == by]
    assert found, f"no analysis by {by}"
    return found


def test_s3_42_by_batch_size(sweep, shown):
    for one in analyses(sweep, "batch_size"):
        first, last = one["lines"]
        assert (first["value"], last["value"]) == (4, 16)
        cases = [case_of(sweep, line["case_id"]) for line in (first, last)]
        rates = [value(case, "throughput") for case in cases]
        assert [line["time_per_item_s"] for line in (first, last)] == pytest.approx([1 / rate for rate in rates])
        assert last["throughput_ratio"] == pytest.approx(rates[1] / rates[0])
        assert last["efficiency"] == pytest.approx(rates[1] / rates[0] / (16 / 4))
        held = [value(case, "peak_rss_bytes") for case in cases]
        assert last["memory_ratio"] == pytest.approx(held[1] / held[0])
    block = shown[shown.index("[BY BATCH SIZE]") :]
    for column in ("time an item", "memory", "scaling"):
        assert column in block
    assert "from batch size 4 to 16" in block


def test_s3_43_the_best_learning_rate_is_the_lowest_loss(sweep, shown):
    (group, *_) = [one for one in sweep["convergence"] if one["batch_size"] == 4]
    assert (group["model"], group["device"]) == ("builtin:cnn", "cpu")
    for rates in group["learning_rates"]:
        alike = [one for one in group["trainings"] if rates["where"].items() <= one["point"].items()]
        ends = {one["point"]["learning_rate"]: one["loss_end"]["value"] for one in alike if one["loss_end"]}
        if rates["best"] is not None:
            assert rates["best"] == min(ends, key=ends.__getitem__)
        told = {*rates["as_good"], *rates["cannot_tell"], *rates["unsteady"]}
        assert told <= set(rates["tried"]) - {rates["best"]}
    assert re.search(r"learning rate with optimizer adam, precision fp32: ", " ".join(shown.split()))


def test_s3_59_a_loss_that_does_not_fall_says_what_to_try(desk):
    text = " ".join(desk.claimed("S3-59").out.split())
    assert "none of 1e-09, 1e-08 lowers the loss beyond its noise in 160 images; try 1e-07, another optimizer" in text


def test_s3_44_by_optimizer_speed_memory_and_loss(sweep, shown):
    for one in analyses(sweep, "optimizer"):
        assert {line["value"] for line in one["lines"]} == {"adam", "sgd"}
        for line in one["lines"]:
            case = case_of(sweep, line["case_id"])
            assert line["throughput"] == value(case, "throughput")
            assert line["memory_bytes"] == value(case, "peak_rss_bytes")
    assert "[BY OPTIMIZER] train builtin:cnn on cpu" in shown
    standings = [one for group in sweep["convergence"] for one in group["optimizers"]]
    assert standings
    for one in standings:
        ends = [standing["loss_end"]["value"] for standing in one["standings"]]
        assert ends == sorted(ends), "the lowest loss first"
        assert {standing["optimizer"] for standing in one["standings"]} == {"adam", "sgd"}


def test_s3_45_mixed_precision_speed_memory_and_effect_on_the_loss(sweep, shown):
    effects = [effect for group in sweep["convergence"] for effect in group["precisions"]]
    assert effects
    for effect in effects:
        mixed, full = case_of(sweep, effect["case_id"]), case_of(sweep, effect["reference_id"])
        assert (mixed["configuration"]["precision"], full["configuration"]["precision"]) == ("bf16", "fp32")
        ratio = value(mixed, "throughput") / value(full, "throughput")
        assert effect["speed_ratio"]["value"] == pytest.approx(ratio, rel=0.2), "means of rounds and of cases"
        assert effect["memory_ratio"] == pytest.approx(value(mixed, "peak_rss_bytes") / value(full, "peak_rss_bytes"))
        assert effect["verdict"] in ("equivalent", "different", "unclear")
    assert "[MIXED PRECISION] train builtin:cnn on cpu" in shown
    assert "precision bf16 against fp32" in " ".join(shown.split())


def test_s3_47_parameters_are_recommended_from_what_is_stored(desk, sweep):
    found = next(one for one in desk.claimed("S3-47").document["settings"] if one["model"] == "builtin:cnn")
    assert found["task"] == "train"
    names = {offer["point"]["batch_size"] for offer in found["offers"]}
    assert names == {4, 16}
    if found["recommended"] is not None:
        assert {"batch_size", "precision", "optimizer"} <= set(found["recommended"]["point"])
    assert found["learning"]["tried"] == [0.001, 0.01]


def test_s3_23_and_56_lengths_of_texts_and_sizes_of_models(desk, sizes):
    points = {(case["workload"]["model"], case["configuration"]["sequence_length"]) for case in sizes["cases"]}
    assert points == {(f"hf:{model}", length) for model in ("bert-tiny", "distilbert-tiny") for length in (8, 16)}
    for case in sizes["cases"]:
        for trial in case["trials"]:
            assert trial["outcome"]["status"] == "ok"
    shapes = {
        (case["configuration"]["sequence_length"], case["workload"]["model"]): value(case, "flops_per_step")
        for case in sizes["cases"]
    }
    assert all(shapes[16, model] > 1.5 * shapes[8, model] for _, model in shapes), "twice the text, twice the work"
    for one in analyses(sizes, "model"):
        small, large = one["lines"]
        counts = [case_of(sizes, line["case_id"])["trials"][0]["facts"]["parameters"] for line in (small, large)]
        assert [small["parameters"], large["parameters"]] == counts == sorted(counts)
        rates = [value(case_of(sizes, line["case_id"]), "throughput") for line in (small, large)]
        assert large["throughput_ratio"] == pytest.approx(rates[1] / rates[0])
    assert "[BY MODEL SIZE]" in desk.type("torchstone show lengths --full").out
