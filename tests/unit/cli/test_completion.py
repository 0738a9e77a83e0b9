"""What a shell is offered: commands, options, recipes, runs of the store, axes; of all commands one is loaded."""

import os
import subprocess
import sys

import pytest
from stored import a_stored_run, case, machine, store

pytest.importorskip("argcomplete")


def offered(line, folder):
    """What the shell gets for a line whose cursor is at its end."""
    answer = folder / "answer"
    asks = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}  # fmt: skip
    subprocess.run([sys.executable, "-m", "torchstone"], env={**os.environ, **asks}, check=True, cwd=folder)
    return {word.strip() for word in answer.read_text().split("\n")}


def test_the_words_that_a_line_may_go_on_with(tmp_path):
    run = a_stored_run(1, [(case(), 100.0)], machine())
    store(tmp_path / "outputs", [run])
    assert offered("torchstone di", tmp_path) == {"diagnose"}
    assert offered("torchstone run dis", tmp_path) == {"distilbert"}
    assert offered("torchstone run --axis batch", tmp_path) == {"batch_size="}
    assert offered(f"torchstone show {run.head.run_id[:6]}", tmp_path) == {run.head.run_id}
    assert "--within" in offered("torchstone tune --w", tmp_path)
