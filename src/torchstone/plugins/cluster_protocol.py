"""The Protocol of clusters: all that stands between a plan and the machines of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from torchstone.core.schema.submission import Job, ShareState, Submission


class Cluster(Protocol):
    """clusters/<name>.py: has the shares of a plan carried out, each by `torchstone run --plan FILE --share N`.

    `takes`: the names of what it may be asked for (`Submission.wanted`).
    """

    describes: str
    takes: tuple[str, ...]

    def scripts(self, submission: Submission, folder: Path) -> Mapping[str, str]:
        """Return the texts that are handed over, by file name: what --dry-run prints. `folder`: where they will lie."""

    def submit(self, submission: Submission, folder: Path, shares: Sequence[int]) -> str:
        """Have shares carried out by the scripts in `folder`; return the job's name, at once or when all have ended.

        Raises MissingError where there is no such cluster here, UsageError for what it refuses, in its words.
        """

    def states(self, job: Job, folder: Path) -> Mapping[int, ShareState]:
        """Return what is known of each share of a job; one that nothing is known of is left out."""
