"""Draws a command as it runs in a terminal: an animated SVG for the README, of one real run.

The command runs in a pseudo terminal; pyte, a terminal emulator, says what its screen shows at each moment. Pauses are
shortened to half a second. The picture is text with SMIL animations, so that it plays where scripts do not run; where
nothing is played, it is the last screen.

    python benchmarks/terminal.py docs/images/run.svg -- torchstone run -- python train.py --batch_size 16
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_COLUMNS, _ROWS = 88, 40
_LONGEST_S, _SHORTEST_S = 0.5, 0.08  # that a screen is shown, but for the last
_LAST_S = 12.0
_KEY_S = 0.04  # to type a letter
_WIDTH, _HEIGHT, _EDGE = 8.0, 18.0, 14.0  # pixels of a letter, of a line, around all
_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

Screen = tuple[str, ...]  # its lines, from the top, without blanks at their ends


def recorded(words: Sequence[str], columns: int = _COLUMNS, rows: int = _ROWS) -> list[tuple[float, Screen]]:
    """Run a command in a terminal of that size; return each screen with its time in seconds since the start.

    Raises CalledProcessError where the command fails.
    """
    import pyte

    screen = pyte.Screen(columns, rows)
    stream, decoder = pyte.Stream(screen), codecs.getincrementaldecoder("utf-8")(errors="replace")
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    own = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(rows)}
    process = subprocess.Popen(words, stdin=follower, stdout=follower, stderr=follower, env=own, close_fds=True)
    os.close(follower)
    began_s, screens = time.monotonic(), list[tuple[float, Screen]]()
    while True:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if ready:
            try:
                written = os.read(leader, 65536)
            except OSError:  # Linux's word for the end of a pseudo terminal
                break
            if not written:
                break
            stream.feed(decoder.decode(written))
            lines = tuple(line.rstrip() for line in screen.display)
            if not screens or screens[-1][1] != lines:
                screens.append((time.monotonic() - began_s, lines))
    os.close(leader)
    if (code := process.wait()) != 0:
        raise subprocess.CalledProcessError(code, words)
    return screens


def paced(screens: Sequence[tuple[float, Screen]]) -> list[tuple[float, Screen]]:
    """Return each screen with the seconds that it is shown; one shown too briefly to be read is left out."""
    shown: list[tuple[float, Screen]] = []
    for number, (at_s, lines) in enumerate(screens):
        is_last = number + 1 == len(screens)
        length_s = _LAST_S if is_last else min(_LONGEST_S, screens[number + 1][0] - at_s)
        if is_last or length_s >= _SHORTEST_S:
            shown.append((length_s, lines))
    return shown


def typed(command: str) -> list[tuple[float, Screen]]:
    """Return the screens of a command that is being typed."""
    return [(_KEY_S, (f"$ {command[:end]}",)) for end in range(len(command) + 1)]


def svg(frames: Sequence[tuple[float, Screen]], title: str) -> str:
    """Return the picture of frames (seconds shown, screen). A line of text is drawn once for as long as it stays."""
    total_s = sum(length_s for length_s, _ in frames)
    rows = max(len("\n".join(lines).rstrip("\n").split("\n")) for _, lines in frames)
    width = max(len(line) for _, lines in frames for line in lines) * _WIDTH + 2 * _EDGE
    height = rows * _HEIGHT + 2 * _EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#10151c"/>',
        f'<g font-family="{_FONTS}" font-size="13" fill="#d6dde6" style="white-space:pre">',
    ]
    for row in range(rows):
        for begin_s, end_s, text in _stays(frames, row):
            parts.append(_line(row, text, begin_s / total_s, end_s / total_s, total_s))
    return "\n".join([*parts, "</g></svg>"]) + "\n"


def _stays(frames: Sequence[tuple[float, Screen]], row: int) -> Iterable[tuple[float, float, str]]:
    """Yield begin, end and text of each stretch of time in which a row shows one text."""
    at_s, begin_s, text = 0.0, 0.0, ""
    for length_s, lines in frames:
        now = lines[row] if row < len(lines) else ""
        if now != text:
            if text:
                yield begin_s, at_s, text
            begin_s, text = at_s, now
        at_s += length_s
    if text:
        yield begin_s, at_s, text


def _line(row: int, text: str, begin: float, end: float, total_s: float) -> str:
    """Return a line of text, seen from `begin` to `end` of the whole (0 to 1)."""
    stays = end > 1.0 - 1e-9
    times, values = ["0", f"{begin:.5f}"], ["hidden", "visible"]
    if not stays:
        times.append(f"{end:.5f}")
        values.append("hidden")
    attributes = "" if stays else ' visibility="hidden"'
    animation = (
        f'<animate attributeName="visibility" calcMode="discrete" repeatCount="indefinite" dur="{total_s:.2f}s" '
        f'keyTimes="{";".join(times)}" values="{";".join(values)}"/>'
    )
    # The width is set: another font of the reader's may have wider letters, and columns would not stand in line.
    place = f'x="{_EDGE:g}" y="{_EDGE + (row + 0.75) * _HEIGHT:g}" textLength="{len(text) * _WIDTH:g}"'
    return f"<text {place}{attributes}>{escape(text)}{animation if begin > 0.0 or not stays else ''}</text>"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="behind --")
    options = parser.parse_args()
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not words:
        parser.error("write the command behind --")
    command = shlex.join(words)
    screens = [(at_s, (f"$ {command}", *lines)) for at_s, lines in recorded(words)]
    options.output.write_text(svg([*typed(command), *paced(screens)], command), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
