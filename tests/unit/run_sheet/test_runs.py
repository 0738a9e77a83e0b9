"""The steps that are runs, on documents as torchstone prints them."""

import json

import pytest
from fake_steps import here
from run_sheet import documents, runs
from run_sheet.here import Done, Refused


def case(
    case_id, task="train", model="hf:bert", status="ok", message=None, device="cuda", figures=None, **configuration
):
    estimates = {name: {"value": value} for name, value in (figures or {}).items()}
    return {
        "case_id": case_id, "workload": {"task": task, "model": model}, "configuration": configuration,
        "placement": {"device": device, "index": 0}, "estimates": estimates,
        "trials": [{"trial_id": f"t{case_id}", "outcome": {"status": status, "message": message}}],
    }  # fmt: skip


def record(folder, **values):
    """values: case_id → {metric: values} of its one trial."""
    lines = [{"record": "head"}] + [
        {"record": "trial", "case_id": case_id, "outcome": {"status": "ok"},
         "measurements": [{"metric": m, "stage": "steady", "values": v} for m, v in told.items()]}
        for case_id, told in values.items()
    ]  # fmt: skip
    path = folder / "record.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return str(path)


def stepping(folder, *documents, quick=False, device="cuda"):
    answers = iter(documents)

    def write(name, content):
        (folder / name).write_text(json.dumps(content))
        return folder / name

    def torchstone(*words, **_):
        told = next(answers)
        return told if isinstance(told, Done) else Done(words, 0, json.dumps(told), "", 1.0)

    return here(
        device=device,
        quick=quick,
        on_cpu=device == "cpu",
        isolation=None,
        folder=folder,
        write=write,
        torchstone=torchstone,
    )


def test_fork_and_spawn_on_the_same_device(tmp_path):
    step = stepping(
        tmp_path,
        {"cases": [case("a", figures={"step_time_p50": 0.010})]},
        {"cases": [case("a", figures={"step_time_p50": 0.0101})]},
    )
    runs.fork_and_spawn(step)
    assert (step.told["device_fork"], step.told["status_spawn"]) == ("cuda:0", "ok")
    assert step.told["spawn_over_fork"] == pytest.approx(1.01)


def test_a_silent_fall_to_the_cpu_is_seen(tmp_path):
    step = stepping(
        tmp_path, {"cases": [case("a", device="cpu", figures={"step_time_p50": 1.0})]}, {"cases": [case("a")]}
    )
    runs.fork_and_spawn(step)
    assert step.told["device_fork"] == "cpu:0"
    assert step.told["spawn_over_fork"] is None


def test_number_formats_that_compute_the_same_are_found(tmp_path):
    cases = [
        case("a", precision="fp32", figures={"step_time_p50": 2.0}),
        case("b", precision="bf16", figures={"step_time_p50": 1.0}),
    ]
    for values, apart, off in (([2.0], False, 0.0), ([2.1], True, 0.05)):
        document = {"cases": cases, "record": record(tmp_path, a={"fingerprint": [2.0]}, b={"fingerprint": values})}
        step = stepping(tmp_path, document)
        runs.precisions(step)
        assert step.told["fingerprints_apart"] is apart
        assert step.told["most_off_fp32"] == pytest.approx(off)
    assert (step.told["cases"], step.told["ok"], step.told["not_ok"]) == (2, 2, "none")
    assert step.told["step_bert_train_bf16_s"] == 1.0


def test_a_format_that_crashed_is_named_and_one_that_is_refused_is_not(tmp_path):
    cases = [
        case("a", precision="fp32"), case("b", precision="tf32", status="unsupported"),
        case("c", precision="fp16", status="crashed"),
    ]  # fmt: skip
    step = stepping(tmp_path, {"cases": cases, "record": record(tmp_path, a={"fingerprint": [2.0]})})
    runs.precisions(step)
    assert (step.told["ok"], step.told["unsupported"], step.told["not_ok"]) == (1, 1, "bert_train_fp16")
    assert step.told["fingerprints_apart"] is None


def test_each_way_to_compile_is_told_and_losses_are_held_against_each_other(tmp_path):
    first = {
        "cases": [case("a", compile="off", figures={"step_time_p50": 2.0}), case("b", compile="default"),
                  case("c", compile="reduce-overhead", status="crashed", message="overwritten")],
        "record": record(tmp_path, a={"loss": [0.7, 0.6]}, b={"loss": [0.707]}),
    }  # fmt: skip
    second = {"cases": [case("d", compile="reduce-overhead", status="unsupported")], "record": first["record"]}
    third = {"cases": [case("e", compile="max-autotune", status="timed_out")], "record": first["record"]}
    step = stepping(tmp_path, first, second, third)
    runs.compile_modes(step)
    told = {name: value for name, value in step.told.items() if name.startswith("status_")}
    assert told == {
        "status_off": "ok", "status_default": "ok", "status_reduce_overhead": "crashed",
        "status_reduce_overhead_accumulating": "unsupported", "status_max_autotune": "timed_out",
    }  # fmt: skip
    assert step.told["why_reduce_overhead"] == "overwritten"
    assert step.told["most_loss_off"] == pytest.approx(0.01)


def test_memory_that_ends_is_told_and_what_comes_after_it(tmp_path):
    ends = {8: "ok", 64: "ok", 512: "ok", 2048: "out_of_memory", 4096: "skipped", 8192: "skipped"}
    cases = [
        case(
            str(b),
            batch_size=b,
            status=end,
            message="ran out" if end != "ok" else None,
            figures={"step_time_p50": 0.1 * b},
        )
        for b, end in ends.items()
    ]
    again = [
        case("y", batch_size=8, figures={"step_time_p50": 0.88}),
        case("z", batch_size=64, figures={"step_time_p50": 6.4}),
    ]
    step = stepping(tmp_path, {"cases": cases}, {"cases": again})
    runs.out_of_memory(step)
    assert (step.told["memory_ended"], step.told["foreseen"], step.told["other_ends"]) == (True, True, "none")
    assert step.told["why_2048"] == "ran out"
    assert step.told["again_over_before_8"] == pytest.approx(1.1)
    assert step.told["again_over_before_64"] == pytest.approx(1.0)


def test_pinned_and_pageable_are_told_apart(tmp_path):
    cases = [
        case("a", pin_memory=False, figures={"phase_transfer_s": 2e-3}),
        case("b", pin_memory=True, figures={"phase_transfer_s": 1e-3}),
    ]
    step = stepping(tmp_path, {"cases": cases})
    runs.pinned_batches(step)
    assert (step.told["transfer_pageable_s"], step.told["transfer_pinned_s"]) == (2e-3, 1e-3)


def test_a_tune_without_an_answer_says_why(tmp_path):
    step = stepping(tmp_path, Done((), 1, "", "torchstone: no configuration could be measured", 1.0))
    runs.tuned(step)
    assert (step.told["exit_code"], step.told.get("has_answer")) == (1, None)
    assert "no configuration could be measured" in step.told["why"]


def test_a_command_that_prints_no_document_is_refused_with_its_last_line():
    with pytest.raises(Refused, match="run x printed no document and ended with 2: second"):
        Done(("run", "x"), 2, "", "first\nsecond\n", 1.0).document()


def test_the_worst_end_of_a_case_is_its_status():
    two = case("a")
    two["trials"].append({"outcome": {"status": "crashed", "message": "why"}})
    assert (documents.status(two), documents.message(two)) == ("crashed", "why")
    two["trials"] = []
    assert documents.status(two) == "not taken"


def test_no_case_or_several_with_a_setting_is_an_error():
    with pytest.raises(LookupError, match="0 cases"):
        documents.case_where({"cases": [case("a", batch_size=8)]}, batch_size=9)
