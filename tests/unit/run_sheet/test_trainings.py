import json

import pytest
from fake_steps import here
from run_sheet import trainings
from run_sheet.here import Done


def trained(epochs, loss, device="cuda", outcome="ok"):
    told = {"outcome": outcome, "final_val_accuracy": 0.9, "epochs": [{"train_loss": loss}] * epochs}
    return {"cases": [{"placement": {"device": device, "index": 0}}], "answer": {"metrics": told}}


def stepping(*documents):
    waiting = iter(documents)
    asked = []

    def torchstone(*words, **_):
        asked.append(words)
        return Done(words, 0, json.dumps(next(waiting)), "", 1.0)

    return here(device="cuda", quick=False, torchstone=torchstone, asked=asked)


def test_a_resumed_training_ends_where_a_whole_one_does():
    judged = {"accuracy": 0.95, "items": 360}
    step = stepping(trained(3, 0.50), trained(2, 0.60), trained(3, 0.51), judged)
    trainings.resumed(step)
    assert step.told["losses_apart"] == pytest.approx(0.02)
    assert (step.told["epochs_after_resume"], step.told["accuracy"]) == (3, 0.95)
    assert (step.told["device_whole"], step.told["device_resumed"], step.told["outcome_resumed"]) == (
        "cuda:0",
        "cuda:0",
        "ok",
    )
    assert [words[0] for words in step.asked] == ["train", "train", "train", "evaluate"]


def test_a_state_that_came_back_to_the_cpu_is_seen():
    step = stepping(trained(3, 0.5), trained(2, 0.6), trained(3, 0.5, device="cpu"), {"accuracy": 0.9})
    trainings.resumed(step)
    assert step.told["device_resumed"] == "cpu:0"


def test_without_scikit_learn_the_trainings_own_word_is_taken(monkeypatch):
    monkeypatch.setattr(trainings, "find_spec", lambda _: None)
    step = stepping(trained(3, 0.5), trained(2, 0.6), trained(3, 0.5))
    trainings.resumed(step)
    assert step.told["accuracy"] == 0.9
    assert "exit_evaluate" not in step.told
