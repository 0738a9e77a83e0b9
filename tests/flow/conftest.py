"""What the flow tests share."""

import pytest

from torchstone.cli import main


@pytest.fixture
def refused(capfd, outputs):
    """Run a command that must be refused; return its line (and, for the user's own code, the lines below it)."""

    def check(*words: str, lines: int = 1) -> str:
        before = sorted(outputs.rglob("*"))
        capfd.readouterr()  # what was printed before is not its answer
        code = main(list(words))
        said = capfd.readouterr()
        assert code == 2, said
        assert said.out == ""
        assert said.err.startswith("torchstone: ")
        assert len(said.err.splitlines()) <= lines, said.err
        assert sorted(outputs.rglob("*")) == before
        return said.err

    return check
