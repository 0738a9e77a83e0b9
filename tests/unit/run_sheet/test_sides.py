"""The live comparisons of the sheet, on what `ab` prints, and the models that they compare."""

import json
from types import SimpleNamespace

import pytest
import torch
from fake_steps import here
from run_sheet import planted_device, sides
from run_sheet.here import Done, Refused


def compared(verdict="same", ratio=1.001, low=0.99, high=1.01, pairs=12):
    ends = {"value": ratio, "low": low, "high": high} if ratio is not None else None
    comparison = {"verdict": verdict, "ratio": ends, "why": "side B failed"}
    return {"answer": {"comparison": comparison, "course": {"pairs": pairs}}}


def stepping(folder, *answers, device="cuda", quick=False):
    waiting = iter(answers)

    def torchstone(*words, **_):
        told = next(waiting)
        return told if isinstance(told, Done) else Done(words, 0, json.dumps(told), "", 60.0)

    def write(name, content):
        (folder / name).write_text(json.dumps(content))
        return folder / name

    return here(device=device, on_cpu=device == "cpu", quick=quick, folder=folder, isolation=None, write=write,
                torchstone=torchstone)  # fmt: skip


def test_each_comparison_of_equal_code_is_told(tmp_path):
    step = stepping(tmp_path, compared(), compared("unclear", None), compared("worse", 1.04, 1.03, 1.05))
    sides.equal_code(step)
    assert (step.told["called_different"], step.told["compared"]) == (1, 3)
    assert (step.told["verdict_distilbert"], step.told["ratio_resnet"], step.told["low_gpt2"]) == ("same", None, 1.03)
    files = [json.loads((tmp_path / f"gpt2_{side}.json").read_text()) for side in "ab"]
    assert files[0] == files[1]


def test_where_no_pair_was_taken_nothing_was_compared(tmp_path):
    step = stepping(tmp_path, compared(), compared("unclear", None, pairs=0), compared())
    sides.equal_code(step)
    assert (step.told["called_different"], step.told["compared"]) == (0, 2)


def test_a_side_that_failed_is_no_comparison(tmp_path):
    step = stepping(tmp_path, compared(), compared("not_comparable", None), compared())
    with pytest.raises(Refused, match="resnet: nothing was compared: side B failed"):
        sides.equal_code(step)
    assert (step.told["compared"], step.told["verdict_gpt2"]) == (2, "same")


def test_what_turns_of_two_lengths_tell_is_held_against_the_truth(tmp_path, monkeypatch):
    logs = {0.01: [0.015, 0.015], 0.2: [0.0295, 0.0296]}
    monkeypatch.setattr(sides, "_by_turns", lambda _here, _side, turn_s, pairs: logs[turn_s])
    step = stepping(tmp_path, compared("worse", 1.029, 1.028, 1.031))
    sides.planted(step)
    assert step.told["ratio_10ms"] == pytest.approx(1.0151, abs=1e-4)
    assert step.told["ratio_200ms"] == pytest.approx(1.03, abs=1e-4)
    assert (step.told["ab_low"], step.told["ab_high"]) == (1.028, 1.031)


def test_two_sides_that_do_not_fit_are_refused_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sides, "Bench", lambda _: SimpleNamespace(total_bytes=lambda: 140 << 30))
    line = "torchstone: side B needs 80 GiB of device memory, and 60 are free\n"
    alone = {"cases": [{"trials": [{"outcome": {"status": "ok"}}]}]}
    step = stepping(tmp_path, Done((), 3, "", line, 5.0), alone)
    sides.both_too_large(step)
    assert (step.told["exit_code"], step.told["has_traceback"], step.told["names_memory"]) == (3, False, True)
    assert step.told["status_alone"] == "ok"
    held = json.loads((tmp_path / "a.json").read_text())["workloads"][0]["options"]["hold_bytes"]
    assert 0.5 * (140 << 30) < held < 0.6 * (140 << 30)


def test_more_products_are_more_work_and_change_no_size():
    torch.manual_seed(0)
    module, example, loss = planted_device.products(count=30, side=16)
    out = module(example["x"])
    assert out.shape == (16, 16)
    assert out.norm().item() == pytest.approx(example["x"].norm().item(), rel=1e-3)
    loss(module, example).backward()


def test_what_holds_memory_holds_it_from_its_first_step():
    module, example, _ = planted_device.holding(hold_bytes=12345)
    assert isinstance(module, planted_device.Holding)
    held = [module.held]
    module(example["x"])
    held.append(module.held)
    assert [None if one is None else one.numel() for one in held] == [None, 12345]
