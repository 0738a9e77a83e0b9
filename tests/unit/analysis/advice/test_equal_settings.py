"""Each device at its fastest settings: which differ is told, and the ratio where both ran the same."""

import re
from pathlib import Path

import pytest
from stored import a_stored_run, case, machine

from torchstone.analysis.advice.devices import contrasts_with_cpu
from torchstone.analysis.advice.insights import readings
from torchstone.analysis.summary import RunSummary, summarize
from torchstone.core.schema.advice import Remedy
from torchstone.report.diagnosis_messages import seen_text
from torchstone.report.documents.run import device_parts
from torchstone.storage.query import entry_of

BOTH = {
    ("cpu", 8, "fp32"): 100.0, ("cpu", 8, "bf16"): 50.0, ("cuda", 8, "fp32"): 300.0, ("cuda", 8, "bf16"): 900.0,
    ("cpu", 32, "fp32"): 120.0, ("cpu", 32, "bf16"): 60.0, ("cuda", 32, "fp32"): 600.0, ("cuda", 32, "bf16"): 2400.0,
}  # fmt: skip
ASIDE = "cuda:0 and the CPU are compared at the fastest settings of each, which differ: "


def measured(rates, noise=0.0, **axes) -> RunSummary:
    """A run with these items/s, by device, batch size and precision."""
    cases = [
        (case(kind, batch_size=size, precision=precision, **axes), rate)
        for (kind, size, precision), rate in rates.items()
    ]  # fmt: skip
    return summarize(entry_of(a_stored_run(0, cases, machine("cuda"), noise=noise), Path()))


def test_what_differs_is_told_and_the_ratio_at_equal_settings():
    first, second = contrasts_with_cpu(measured(BOTH, noise=0.001).cases)
    assert seen_text(first.advice).startswith("cuda:0 beside the CPU: ")
    differ, _, equal = seen_text(second.advice).removeprefix(ASIDE).partition("; at equal settings: ")
    assert differ == "precision bf16, on the CPU fp32 (batch_size 8, 32)"
    words = r"([\d.]+) \[([\d.]+), ([\d.]+)\] times as fast at batch_size (\d+) with (precision \w+)"
    found = {told[3:]: tuple(map(float, told[:3])) for told in re.findall(words, equal)}
    rates = {(str(size), f"precision {precision}"): (size, precision) for _, size, precision in BOTH}
    assert set(found) == set(rates), "at the settings of either device's fastest"
    for told, (value, low, high) in found.items():
        assert value == pytest.approx(BOTH["cuda", *rates[told]] / BOTH["cpu", *rates[told]], rel=0.01)
        assert low <= value <= high
    assert second.advice.remedies == ()
    assert second.case.configuration["batch_size"] == 32


def test_where_nothing_differs_nothing_more_is_said():
    same = {key: rate for key, rate in BOTH.items() if key[2] == "fp32"}
    (one,) = contrasts_with_cpu(measured(same).cases)
    assert seen_text(one.advice).startswith("cuda:0 beside the CPU: 3.00 ")


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_where_none_is_equal_what_would_measure_it_is_to_be_typed(noise):
    alone = {("cpu", 8, "fp32"): 100.0, ("cuda", 8, "bf16"): 900.0}
    _, second = contrasts_with_cpu(measured(alone, noise).cases)
    assert seen_text(second.advice) == (
        f"{ASIDE}precision bf16, on the CPU fp32 (batch_size 8); no equal settings were measured on both"
    )
    assert second.advice.remedies == (Remedy("both_devices", {"flags": "--axis precision=bf16,fp32"}),)


def test_where_neither_ran_the_others_settings_what_both_ran_is_compared():
    rates = {
        ("cpu", 8, "fp32"): 100.0, ("cuda", 8, "bf16"): 900.0, ("cpu", 8, "tf32"): 80.0, ("cuda", 8, "tf32"): 400.0,
        ("cpu", 8, "fp16"): 70.0, ("cuda", 8, "fp16"): 140.0,
    }  # fmt: skip
    _, second = contrasts_with_cpu(measured(rates).cases)
    assert seen_text(second.advice).endswith("times as fast at batch_size 8 with precision tf32"), (
        "the fastest of these"
    )
    assert "fp16" not in seen_text(second.advice)


def test_several_settings_and_sizes_are_told_apart():
    cases = [
        (case("cpu", batch_size=8, compile="off", num_workers=0), 100.0),
        (case("cuda", batch_size=8, compile="default", num_workers=4), 400.0),
        (case("cpu", batch_size=32, compile="off", num_workers=0), 100.0),
        (case("cuda", batch_size=32, compile="off", num_workers=4), 500.0),
    ]
    run = summarize(entry_of(a_stored_run(0, cases, machine("cuda"), noise=0.0), Path()))
    _, second = contrasts_with_cpu(run.cases)
    assert seen_text(second.advice).removeprefix(ASIDE) == (
        "compile default, on the CPU off, num_workers 4, on the CPU 0 (batch_size 8); "
        "num_workers 4, on the CPU 0 (batch_size 32); no equal settings were measured on both"
    )
    assert second.advice.remedies == (Remedy("both_devices", {"flags": "--axis num_workers=4,0"}),)


def test_page_locked_memory_is_no_setting_of_a_cpu():
    cases = [
        (case("cpu", batch_size=8, pin_memory=False), 100.0), (case("cuda", batch_size=8, pin_memory=True), 400.0),
    ]  # fmt: skip
    (one,) = contrasts_with_cpu(summarize(entry_of(a_stored_run(0, cases, machine("cuda")), Path())).cases)
    assert seen_text(one.advice).startswith("cuda:0 beside the CPU: ")
    unlike = [(case("cuda", batch_size=8, pin_memory=pinned, precision="bf16"), 800.0) for pinned in (False, True)]
    slower = (case("cuda", batch_size=8, pin_memory=False), 200.0)
    run = a_stored_run(0, [*cases, *unlike, slower], machine("cuda"), noise=0.0)
    _, second = contrasts_with_cpu(summarize(entry_of(run, Path())).cases)
    assert "pin_memory" not in seen_text(second.advice)
    assert "at equal settings: 4.00 [4.00, 4.00] times as fast at batch_size 8 with precision fp32" in seen_text(
        second.advice
    )


def test_it_is_a_line_below_the_tables_and_in_the_json():
    run = measured(BOTH, task="infer")  # no losses to compare
    assert any(
        note.text.startswith(f"infer bert: {ASIDE}precision bf16, on the CPU fp32") for note in device_parts(run)
    )
    said = [one for one in readings(run).advice if one.about == "device"]
    assert [one.seen[0].id for one in said] == ["beside_the_cpu", "settings_differ"]
