"""With which code each command ends (docs/exit-codes.md), through the real command line."""

import pytest

from torchstone.cli import main

pytestmark = pytest.mark.xdist_group("exit_codes")  # one measurement serves all its tests

FALLS = """import torch
from torch import nn

class Falls(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(4, 3), 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 2:  # a rehearsal is one call
            raise RuntimeError("later on")
        return self.layer(x)

def load():
    return Falls(), (torch.randn(4, 4), torch.randint(0, 3, (4,))), nn.functional.cross_entropy
"""
SHORT = ("--trials", "1", "--iterations", "3", "--warmup", "1", "--isolation", "fork")


@pytest.fixture(scope="module")
def falls(tmp_path_factory):
    file = tmp_path_factory.mktemp("falls") / "falls.py"
    file.write_text(FALLS)
    return f"py:{file}:load"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--task", "infer", *SHORT), "nothing was measured: 1 crashed"),
        (("tune", "--task", "train", "--axis", "batch_size=2,4", "--axis", "precision=fp32"), "could be measured"),
        (("diagnose", "--task", "train", "--budget", "0"), "nothing to diagnose"),
        (("ab", "--task", "train", "--a", "batch_size=2", "--b", "batch_size=4", "--within", "30s"), ""),
        (("train", "--steps", "9"), "nothing was measured"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_measures_ends_with_1_where_nothing_could_be_measured(falls, capfd, words, said):
    code = main([words[0], "--model", falls, *words[1:], "--quiet"])
    assert code == 1
    told = capfd.readouterr()
    assert said in told.err
    assert "Traceback" not in told.err
    assert "later on at falls.py:12 in forward" in " ".join((told.out + told.err).split())


def test_a_stored_run_in_which_nothing_was_measured(falls, capfd):
    assert main(["run", "--task", "infer", "--model", falls, *SHORT, "--quiet"]) == 1
    for words, code in (
        (["show"], 0), (["runs"], 0), (["list"], 0), (["resume"], 2), (["check"], 0), (["check", "--strict"], 1),
        (["compare", "latest"], 2), (["export", "nothing"], 2), (["show", "nothing"], 2),
        (["history", "latest"], 0), (["report"], 0), (["report", "nothing"], 2), (["reprot"], 2),
    ):  # fmt: skip
        capfd.readouterr()
        assert (words, main(words)) == (words, code), capfd.readouterr().err
