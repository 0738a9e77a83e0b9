"""`run --live` on a terminal: the tables grow on the whole screen, and the terminal is given back as it was."""

import os
import signal
import subprocess
import threading
import time

import pytest
from warm_templates import TORCHSTONE

pty = pytest.importorskip("pty", reason="terminals of one's own are there on Linux and macOS")

TAKES, GIVES_BACK = "\x1b[?1049h", "\x1b[?1049l"
WORDS = ["run", "--model", "builtin:mlp", "--axis", "batch_size=1,2", "--budget", "100ms", "--warmup", "1", "--live"]


class OnTerminal:
    """A command whose stderr is a terminal of 24 lines and 100 columns. `seen`: all that was written there."""

    def __init__(self, *words: str) -> None:
        ours, its = pty.openpty()
        environment = {**os.environ, "COLUMNS": "100", "LINES": "24", "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [*TORCHSTONE, *WORDS, *words],
            stdout=subprocess.PIPE, stderr=its, text=True, env=environment,
        )  # fmt: skip
        os.close(its)
        self._terminal, self._bytes = ours, bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._terminal, 65536)
            except OSError:  # Linux's answer once the other end is closed
                return
            if not some:
                return
            self._bytes += some

    @property
    def seen(self) -> str:
        return bytes(self._bytes).decode(errors="replace")

    def ended(self) -> tuple[int, str]:
        """The exit code, and what stands on stdout."""
        told, _ = self.process.communicate(timeout=120)
        self._reader.join(timeout=10)
        os.close(self._terminal)
        return self.process.returncode, told


def test_the_tables_grow_and_the_answer_follows(outputs):
    command = OnTerminal("--trials", "2")
    code, told = command.ended()
    seen = command.seen
    assert code == 0, seen
    assert seen.index(TAKES) < seen.index("no trial has ended yet") < seen.index("1 trial so far")
    assert "4 trials so far" in seen
    assert "not taken" in seen[seen.index("1 trial so far") : seen.index("2 trials so far")]
    assert seen.rindex("trials so far") < seen.index(GIVES_BACK)
    assert "2 cases, 4 trials" in seen[seen.index(GIVES_BACK) :], "what was said stays when the screen is gone"
    assert "throughput" in told
    assert TAKES not in told


def test_ctrl_c_gives_the_terminal_back(outputs):
    command = OnTerminal("--trials", "50")
    until = time.monotonic() + 60
    while "1 trial so far" not in command.seen and time.monotonic() < until:
        time.sleep(0.05)
    command.process.send_signal(signal.SIGINT)
    code, _ = command.ended()
    assert code == 130, command.seen
    after = command.seen[command.seen.index(GIVES_BACK) :]
    assert "interrupted" in after


@pytest.mark.parametrize(("words", "why"), [((), "stderr is none"), (("--quiet",), "--quiet shows no progress")])
def test_where_it_cannot_be_drawn_is_told_in_one_line(refused, words, why):
    said = refused("run", "--model", "builtin:mlp", "--live", *words)
    assert why in said
