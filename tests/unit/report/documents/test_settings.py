"""The settings that no axis decided: what was set and why, once where all Cases agree, each way where they do not."""

from pathlib import Path

import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.analysis.summary import summarize
from torchstone.core.schema.facts import SettingFact
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.report.document import Document
from torchstone.report.documents.run import setting_parts
from torchstone.report.renderers.terminal import terminal
from torchstone.storage.query import entry_of

HERE = a_machine(devices=(DeviceInfo("cpu", "cpu", "AMD", 0, "a processor", precisions=("fp32", "bf16")),))
FEWER = SettingFact("4", "fewer", {"why": "the physical cores of 8 logical ones", "default": 8})
ORDER = SettingFact("auto", "order", {"kernels": ("flash", "math")})
THREADS = {"settings": {"threads": FEWER}}

LONG = "a reason that goes on and on \x1b[31m and on" + " and on" * 20


def drawn(facts, width=100, **changes):
    cases = [a_case({"batch_size": size, "precision": "fp32"}) for size in range(1, len(facts) + 1)]
    trials = [a_trial(case_id=case.case_id, facts=told) for case, told in zip(cases, facts, strict=True)]
    run = a_run(trials, cases=cases, machine=HERE, **changes)
    return terminal(Document("", tuple(setting_parts(summarize(entry_of(run, Path("x")))))), width).splitlines()


def test_cases_that_agree_are_told_once():
    told = {"settings": {"threads": FEWER, "sdpa": ORDER}}
    assert drawn([told, told]) == [
        "settings: tuned for the device; --settings torch leaves them to PyTorch",
        "  threads   4: the physical cores of 8 logical ones; PyTorch's default is 8",
        "  sdpa      auto: PyTorch's order among flash, math",
        "  precision fp32; native on a processor: fp32, bf16",
    ]


def test_cases_that_differ_are_told_by_what_was_set():
    on, off = (
        {"settings": {"channels_last": SettingFact(*how)}}
        for how in (("on", "device", {"why": "oneDNN"}), ("off", "no_convolutions"))
    )
    lines = drawn([off, on, off])
    assert lines[1:3] == [
        "  channels_last off: the model has no convolutions (2 of 3 cases)",
        "  channels_last on: oneDNN (1 of 3 cases)",
    ]


def test_it_fits_the_terminal_and_nothing_steers_it():
    lines = drawn([{"settings": {"threads": SettingFact("4", "device", {"why": LONG})}}], 60)
    assert max(map(len, lines)) <= 60
    assert lines[3].startswith(" " * 12)
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("policy", "said"), [("torch", "PyTorch's own"), (None, "PyTorch's own")])
def test_what_was_left_to_torch_says_so(policy, said):
    assert said in drawn([THREADS], procedure=Procedure(settings=policy))[0]


def test_records_without_settings_have_no_block():
    assert drawn([{}]) == []


def test_the_attention_that_ran_stands_beside_what_it_was_chosen_from():
    allowed = {"settings": {"sdpa": ORDER}}
    lines = drawn([{**allowed, "attention_kernel": "flash"}])
    assert "  sdpa      auto: PyTorch's order among flash, math; flash ran" in lines
    assert drawn([{"attention_kernel": "flash"}]) == [], "without settings there is no block"


def test_how_a_precision_is_carried_out_is_said_once():
    told = {**THREADS, "precision_in_effect": "tf32_on"}
    assert drawn([told, told])[-2:] == [
        "  precision fp32: products and cuDNN's convolutions take fp32 numbers as TF32",
        "  precision fp32; native on a processor: fp32, bf16",
    ]
