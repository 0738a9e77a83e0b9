"""loss_diverged and loss_spikes: what they say of a training, and what they advise that is not done already."""

import math
from typing import Any

import pytest
from build import a_run, a_trial
from learning import falling, of_losses, rising

from torchstone.core.schema.estimate import Severity
from torchstone.plugins import registry


def look(check, run):
    return list(registry.load("checks", check).look(run))


def spiked(at=(50,)):
    return [loss * (10.0 if step in at else 1.0) for step, loss in enumerate(falling())]


def test_a_loss_that_diverged_is_doubtful_and_says_how_far_it_went():
    (found,) = look("loss_diverged", of_losses([({}, rising())]))
    assert found.severity == Severity.WARNING
    assert "diverged in 3 of 3 trials" in found.message
    assert found.message.endswith("minimum 1.32, last 37.5")
    assert not look("loss_spikes", of_losses([({}, rising())]))


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([math.nan] * 20, "it never was a number: check the inputs for NaN"),
        ([2.0] * 10 + [math.nan] * 10, "measure again with --axis learning_rate=0.0001 (it was 0.001)"),
    ],
    ids=["from the first step", "later"],
)
def test_a_loss_that_never_was_a_number_is_not_blamed_on_the_learning_rate(losses, says):
    (found,) = look("nan_loss", of_losses([({}, losses)]))
    assert found.advice.startswith(says)


def test_spikes_are_a_remark():
    (found,) = look("loss_spikes", of_losses([({}, spiked((40, 70)))]))
    assert found.severity == Severity.INFO
    assert found.message == "the loss spiked 2 times in 100 steps, first in step 41"


@pytest.mark.parametrize("losses", [falling(), falling(slope=0.0), falling(slope=0.0, noise=0.5), falling(12), [2.0]])
def test_a_sound_training_and_random_labels_are_left_alone(losses):
    run = of_losses([({}, losses)])
    assert not look("loss_diverged", run)
    assert not look("loss_spikes", run)


def test_one_trial_of_three_is_no_rule():
    run = of_losses([({}, falling())], trials=2)
    (other,) = of_losses([({}, rising())], trials=1).trials
    assert not look("loss_diverged", a_run([*run.trials, other], cases=run.head.plan.cases))


@pytest.mark.parametrize(
    ("configuration", "advised", "not_advised"),
    [
        ({}, ["learning_rate=0.0001 (it was 0.001)", "grad_clip=1", "warm-up"], "precision"),
        ({"grad_clip": 1.0}, ["grad_clip=0.25 (it was 1)"], "grad_clip=1 "),
        ({"precision": "fp16"}, ["precision=bf16"], "precision=fp16"),
        ({"learning_rate": 0.0}, ["grad_clip=1"], "learning_rate"),
    ],
)
def test_what_is_done_already_is_not_advised(configuration, advised, not_advised):
    for check, losses in (("loss_diverged", rising()), ("loss_spikes", spiked())):
        (found,) = look(check, of_losses([(configuration, losses)]))
        assert all(word in found.advice for word in advised)
        assert not_advised not in found.advice


def test_a_lower_learning_rate_that_was_steady_here_is_named():
    tried = [({"learning_rate": rate}, falling() if rate < 0.1 else rising()) for rate in (1e-4, 1e-2, 0.1, 1.0)]
    found = look("loss_diverged", of_losses(tried))
    assert len(found) == 2
    assert all("learning_rate=0.01, which was stable here" in one.advice for one in found)
    sgd: dict[str, Any] = {"learning_rate": 1e-2, "optimizer": "sgd"}
    other = [(sgd, falling()), ({"learning_rate": 1.0}, rising())]
    assert "was stable here" not in look("loss_diverged", of_losses(other))[0].advice, "another optimizer's is another"


def test_a_training_without_any_setting_is_told_to_begin_slowly():
    (found,) = look("loss_diverged", a_run([a_trial([0.01] * 99, steady={"loss": rising()})]))
    assert found.advice == "use a learning-rate warm-up"
