"""The codes with which commands end: one place in the code, one page, and the help agree."""

import re
from pathlib import Path

import pytest
from build import a_case, a_run, a_trial
from stored import store

from torchstone.analysis.summary import RunSummary, summarize
from torchstone.cli import COMMANDS, main
from torchstone.cli._measuring import exit_code_of
from torchstone.core.errors import ExitCode, MissingError, TorchstoneError, UsageError
from torchstone.core.schema.run import End, Run
from torchstone.core.schema.trial import Status
from torchstone.storage.query import find

PAGE = (Path(__file__).parents[3] / "docs" / "exit-codes.md").read_text(encoding="utf-8")


def test_the_page_and_the_help_name_them_all(capsys):
    rows = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| ([^|]+) \|", PAGE, re.MULTILINE)}
    assert rows == {code.value: code.meaning.replace("--strict", "`--strict`") for code in ExitCode}
    assert main(["--help-all"]) == ExitCode.DONE
    help_ = capsys.readouterr().out
    for code in ExitCode:
        assert re.search(rf"^  {code.value} +{re.escape(code.meaning)}$", help_, re.MULTILINE)


def test_the_page_knows_the_commands():
    named = {
        word.split()[0] for row in re.findall(r"^\| (`[^|]+) \| ", PAGE, re.MULTILINE) for word in row.split("`")[1::2]
    }
    assert named <= set(COMMANDS)
    assert {"run", "resume", "tune", "diagnose", "ab", "train", "compare", "check"} <= named


def test_errors_have_theirs():
    assert [error.exit_code for error in (TorchstoneError, UsageError, MissingError)] == [1, 2, 3]


def summary_of(run: Run, outputs: Path) -> RunSummary:
    store(outputs, [run])
    return summarize(find(outputs, run.head.run_id))


@pytest.mark.parametrize(
    ("ends", "status", "code", "strict"),
    [
        ((Status.OK, Status.OK), "done", 0, 0),
        ((Status.OK, Status.CRASHED), "done", 0, 1),
        ((Status.CRASHED, Status.OUT_OF_MEMORY), "done", 1, 1),
        ((Status.SKIPPED, Status.UNSUPPORTED), "done", 1, 1),
        ((), "out of time", 1, 1),
        ((Status.OK,), "interrupted", 130, 130),
        ((Status.INTERRUPTED,), "interrupted", 130, 130),
    ],
)
def test_where_nothing_was_measured_it_is_1(outputs, capsys, ends, status, code, strict):
    trials = [a_trial(status=end, trial_id=f"t{n}", number=n) for n, end in enumerate(ends)]
    run = a_run(trials, cases=[a_case()], end=End("2026-11-22T10:00:00+00:00", status))
    summary = summary_of(run, outputs)
    assert exit_code_of(summary, strict=False) == code
    said = capsys.readouterr().err
    assert ("nothing was measured" in said) == (code == ExitCode.NO)
    assert exit_code_of(summary, strict=True) == strict
