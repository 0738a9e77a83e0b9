"""The block of settings: what was set and why, once where all Cases agree, each way where they do not."""

from pathlib import Path

import pytest
from build import a_case, a_machine, a_run, a_trial

from torchstone.analysis.summary import summarize
from torchstone.cli._settings_block import print_settings
from torchstone.core.schema.machine import DeviceInfo
from torchstone.core.schema.procedure import Procedure
from torchstone.storage.query import entry_of

HERE = a_machine(devices=(DeviceInfo("cpu", "cpu", "AMD", 0, "a processor", precisions=("fp32", "bf16")),))
THREADS = {"setting_threads": "4: the physical cores of 8 logical ones; torch would take 8"}


def printed(capsys, facts, width=100, **changes):
    cases = [a_case({"batch_size": size, "precision": "fp32"}) for size in range(1, len(facts) + 1)]
    trials = [a_trial(case_id=case.case_id, facts=told) for case, told in zip(cases, facts, strict=True)]
    run = a_run(trials, cases=cases, machine=HERE, **changes)
    print_settings(summarize(entry_of(run, Path("x"))), width)
    return capsys.readouterr().out.splitlines()


def test_cases_that_agree_are_told_once(capsys):
    told = {**THREADS, "setting_sdpa": "auto: PyTorch's order among flash, math"}
    assert printed(capsys, [told, told]) == [
        "",
        "settings: as the device likes them; --settings torch leaves them to torch",
        "  threads    4: the physical cores of 8 logical ones; torch would take 8",
        "  sdpa       auto: PyTorch's order among flash, math",
        "  precision  fp32; native on a processor: fp32, bf16",
    ]


def test_cases_that_differ_are_told_by_what_was_set(capsys):
    on, off = {"setting_channels_last": "on: oneDNN"}, {"setting_channels_last": "off: the model has no convolutions"}
    lines = printed(capsys, [off, on, off])
    assert lines[2:4] == [
        "  channels_last  off: the model has no convolutions (2 of 3 cases)",
        "  channels_last  on: oneDNN (1 of 3 cases)",
    ]


def test_it_fits_the_terminal_and_nothing_steers_it(capsys):
    lines = printed(
        capsys, [{"setting_threads": "4: a reason that goes on and on \x1b[31m and on" + " and on" * 20}], 60
    )
    assert max(map(len, lines[2:])) <= 60
    assert lines[3].startswith(" " * 13)
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("policy", "said"), [("torch", "as torch has them"), (None, "as torch has them")])
def test_what_was_left_to_torch_says_so(capsys, policy, said):
    assert said in printed(capsys, [THREADS], procedure=Procedure(settings=policy))[1]


def test_records_without_settings_have_no_block(capsys):
    assert printed(capsys, [{}]) == []


def test_the_attention_that_ran_stands_beside_what_it_was_chosen_from(capsys):
    allowed = {"setting_sdpa": "auto: PyTorch's order among flash, math"}
    lines = printed(capsys, [{**allowed, "attention_kernel": "flash"}])
    assert "  sdpa       auto: PyTorch's order among flash, math; flash ran" in lines
    assert printed(capsys, [{"attention_kernel": "flash"}]) == [], "without settings there is no block"


def test_how_a_precision_is_carried_out_is_said_once(capsys):
    told = {**THREADS, "precision_in_effect": "fp32: TF32 is off"}
    assert printed(capsys, [told, told])[-2:] == [
        "  precision  fp32: TF32 is off",
        "  precision  fp32; native on a processor: fp32, bf16",
    ]
