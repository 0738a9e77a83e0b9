"""The folder of a submitted run: `submitted/<run id>` in an output folder, which its jobs may share over a network.

Nothing in it is written by two processes, so that it needs no locks: each attempt at a share has a record of its own
(`parts/`), and writes its exit status beside it (`ended/`).
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterator
from pathlib import Path

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.own_files import refuse_links
from torchstone.core.schema.codec import check_stamp, decode, encode
from torchstone.core.schema.run import Run
from torchstone.core.schema.submission import Job, Submission
from torchstone.storage.record_reader import MOST_LINE_BYTES, checked_id, read_bounded, read_record

_FOLDERS = ("parts", "ended", "log", "jobs")
_ATTEMPT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAN = "plan.json"
_LAST_BYTES = 4096
_GIVEN_UP_S = 60.0


def submission_folder(output: Path, run_id: str) -> Path:
    """Return where the files of a submitted run lie."""
    return output / "submitted" / checked_id(run_id)


def find_submission(output: Path, word: str) -> Path | None:
    """Return the folder of the submitted run that a word means: an id, a unique prefix of one, a name (its newest run).

    `latest`: the newest. None where there is none. Raises UsageError if a prefix fits several.
    """
    folders = sorted((output / "submitted").glob(f"*/{_PLAN}"), reverse=True)
    ids = [plan.parent.name for plan in folders]
    if word in ids or (word == "latest" and ids):
        return output / "submitted" / (ids[0] if word == "latest" else word)
    for plan in folders:
        if read_plan(plan).head.name == word:
            return plan.parent
    starting = [one for one in ids if word and one.startswith(word)]
    if len(starting) > 1:
        raise UsageError(f"'{word}' matches several submitted runs: {', '.join(starting[:8])}")
    return output / "submitted" / starting[0] if starting else None


def write_submission(folder: Path, submission: Submission, scripts: dict[str, str]) -> None:
    """Write the plan and the scripts of a new submission. Raises MissingError where they cannot be written."""
    refuse_links(folder, folder.parent.parent)
    try:
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / _PLAN).write_bytes(encode(submission) + b"\n")
        for name, text in scripts.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)
    except OSError as fault:
        raise MissingError(f"cannot write {folder}: {fault.strerror}") from fault


def read_plan(path: Path) -> Submission:
    """Return the submission in a plan.json. Raises UsageError if it is none."""
    with read_bounded(path) as file:
        data = file.read(MOST_LINE_BYTES + 1)
    try:
        if len(data) > MOST_LINE_BYTES:
            raise UsageError(f"more than {MOST_LINE_BYTES} bytes")
        check_stamp(data, "submission", "plan of `torchstone submit`")
        submission: Submission = decode(data, Submission)
    except UsageError as fault:
        raise UsageError(f"{path}: {fault}") from None
    checked_id(submission.head.run_id)
    places = [place for share in submission.shares for place in share]
    if sorted(places) != list(range(len(submission.head.plan.cases))):
        raise UsageError(f"{path}: its shares are not its cases, each once")
    return submission


# ── what jobs leave ─────────────────────────────────────────────────────────────────────────────────────────


def part_path(folder: Path, share: int, attempt: str) -> Path:
    """Return where an attempt at a share records. Raises UsageError for an attempt that is no file name."""
    if not _ATTEMPT.fullmatch(attempt):
        raise UsageError(f"--attempt {attempt[:80]!r}: only letters, digits, _ and - are allowed, 64 at most")
    return folder / "parts" / f"{share}.{attempt}.part"  # no .jsonl, which `import` would take for a run of its own


def attempt_records(folder: Path, share: int | None = None) -> Iterator[tuple[int, Run]]:
    """Yield what attempts have recorded so far, each with the number of its share (or of one share alone).

    Raises UsageError for a file that is no record.
    """
    for path in sorted((folder / "parts").glob(f"{'*' if share is None else share}.*.part")):
        number = path.name.partition(".")[0]
        if number.isdigit() and _has_begun(path):
            yield int(number), read_record(path)


def _has_begun(path: Path) -> bool:
    """Say whether a record has its head. One that was killed before has measured nothing."""
    with read_bounded(path) as file:
        return file.readline(MOST_LINE_BYTES).endswith(b"\n")


def exit_status(folder: Path, share: int, job: str) -> int | None:
    """Return the exit status that the newest attempt of a job at a share left; None where it left none."""
    words = [path.name.rpartition("-")[2] for path in (folder / "ended").glob(f"{share}.{job}-*")]
    restarts = [word for word in words if word.isdigit()]
    newest = folder / "ended" / (f"{share}.{job}-{max(restarts, key=int)}" if restarts else f"{share}.{job}")
    word = newest.read_text(encoding="utf-8", errors="replace").strip()[:8] if newest.exists() else ""
    return int(word) if word.isdigit() else None


def last_words(folder: Path, name: str) -> str | None:
    """Return the last line of a job's output that torchstone wrote; None where there is none."""
    path = folder / "log" / name
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST_BYTES))
            lines = file.read(_LAST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next(
        (line.removeprefix("torchstone: ") for line in reversed(lines) if line.startswith("torchstone: ")), None
    )


def claim_publishing(folder: Path) -> bool:
    """Say whether the caller is the one to write document and table: not where another process does so just now."""
    claim = folder / "published"
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        age_s = time.time() - claim.stat().st_mtime
        return age_s > _GIVEN_UP_S  # it was killed, or its disk was full
    return True


# ── what was handed over ────────────────────────────────────────────────────────────────────────────────────


def note_job(folder: Path, job_id: str, shares: tuple[int, ...]) -> None:
    """Note that these shares were handed over. Each note is a file of its own."""
    now = datetime.datetime.now(datetime.UTC)
    path = folder / "jobs" / f"{now:%Y%m%d-%H%M%S-%f}.json"
    path.write_bytes(encode(Job(job_id, shares, now.isoformat(timespec="seconds"))) + b"\n")


def jobs(folder: Path) -> list[Job]:
    """Return what was handed over, oldest first."""
    found: list[Job] = []
    for path in sorted((folder / "jobs").glob("*.json")):
        with read_bounded(path) as file:
            found.append(decode(file.read(MOST_LINE_BYTES), Job))
    return found
