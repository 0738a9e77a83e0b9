"""Seed S3: one sweep of trainings, and what its losses and its stored figures say."""

import json
import re

import pytest

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sweep(desk):
    return desk.claimed("S3-44").document


@pytest.fixture(scope="module")
def sizes(desk):
    """Two models of a family at two lengths of their texts, from a file in the document's words."""
    desk.write("lengths.json", json.dumps({
        "model_families": {"embedding": ["bert-tiny", "distilbert-tiny"]}, "sequence_lengths": [8, 16],
        "batch_sizes": [4], "learning_rates": [5e-5], "training_iterations": 4, "warmup_iterations": 1,
    }))  # fmt: skip
    return desk.claimed("S3-23").document


@pytest.fixture(scope="module")
def shown(desk, sweep):
    return desk.type("torchstone show sweep --full").out


def case_of(run, case_id):
    return next(case for case in run["cases"] if case["case_id"] == case_id)


def value(case, figure):
    return case["estimates"][figure]["value"]


def test_s3_43_the_best_learning_rate_is_the_lowest_loss(sweep, shown):
    (group, *_) = [one for one in sweep["convergence"] if one["batch_size"] == 4]
    assert (group["model"], group["device"]) == ("builtin:cnn", "cpu")
    assert group["learning_rates"]
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
    said = r"none of 1e-09, 1e-08 lowers the loss beyond its noise in \d+ images; try 1e-07, another optimizer, or more"
    assert re.search(said, text), text


def test_s3_44_optimizers_stand_by_the_loss_they_reach(sweep):
    standings = [one for group in sweep["convergence"] for one in group["optimizers"]]
    assert standings
    for one in standings:
        ends = [standing["loss_end"]["value"] for standing in one["standings"]]
        assert ends == sorted(ends), "the lowest loss first"
        assert {standing["optimizer"] for standing in one["standings"]} == {"adam", "sgd"}
        for standing in one["standings"]:
            case = case_of(sweep, standing["case_id"])
            assert standing["throughput"] == value(case, "throughput")
            assert standing["memory_bytes"] == value(case, "peak_rss_bytes")


def test_s3_45_mixed_precision_is_judged_by_its_loss_too(sweep, shown):
    effects = [effect for group in sweep["convergence"] for effect in group["precisions"]]
    assert effects
    for effect in effects:
        mixed, full = case_of(sweep, effect["case_id"]), case_of(sweep, effect["reference_id"])
        assert (mixed["configuration"]["precision"], full["configuration"]["precision"]) == ("bf16", "fp32")
        assert effect["memory_ratio"] == pytest.approx(value(mixed, "peak_rss_bytes") / value(full, "peak_rss_bytes"))
        assert effect["verdict"] in ("equivalent", "different", "unclear")
    assert "precision bf16 against fp32" in " ".join(shown.split())


def test_s3_47_parameters_are_recommended_from_what_is_stored(desk, sweep):
    found = next(one for one in desk.claimed("S3-47").document["settings"] if one["model"] == "builtin:cnn")
    assert found["task"] == "train"
    sizes = {offer["point"]["batch_size"] for offer in found["offers"]}
    assert sizes <= {4, 16}
    assert sizes or found["left_out"], "on a busy machine some differ too much to be offered"
    if found["recommended"] is not None:
        assert {"batch_size", "precision", "optimizer"} <= set(found["recommended"]["point"])
    assert found["learning"]["tried"] == [0.001, 0.01]


def test_s3_23_lengths_of_texts(sizes):
    points = {(case["workload"]["model"], case["configuration"]["sequence_length"]) for case in sizes["cases"]}
    assert points == {(f"hf:{model}", length) for model in ("bert-tiny", "distilbert-tiny") for length in (8, 16)}
    work = {
        (case["configuration"]["sequence_length"], case["workload"]["model"]): value(case, "flops_per_step")
        for case in sizes["cases"]
    }
    assert all(work[16, model] > 1.5 * work[8, model] for _, model in work), "twice the text, twice the work"
