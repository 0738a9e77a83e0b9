"""The base class of clusters: all that stands between a plan and the machines of a scheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from torchstone.core.errors import UsageError
from torchstone.core.schema.submission import Job, ShareState, Submission


class HalfSubmitted(UsageError):
    """The shares are handed over as `job_id`; what should follow them was refused."""

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(why)
        self.job_id = job_id


class Node(msgspec.Struct, frozen=True):
    """One machine of an allocation. `command`: what goes before a command that shall run there; it ends with it."""

    name: str
    address: str
    command: tuple[str, ...] = ()


class Cluster(ABC):
    """clusters/<name>.py: has the shares of a plan carried out, each by `torchstone run --plan FILE --share N`.

    `takes`: the names of what it may be asked for (`Submission.wanted`). `spreads`: a share may have several nodes.
    """

    describes: str
    takes: tuple[str, ...]
    spreads: bool

    @abstractmethod
    def allocation(self) -> Sequence[Node]:
        """Return the nodes of the allocation that this process is in, its own first; none where it is in none.

        Raises MissingError where the cluster does not answer.
        """

    @abstractmethod
    def scripts(self, submission: Submission, folder: Path) -> Mapping[str, str]:
        """Return the texts that are handed over, by file name: what --dry-run prints. `folder`: where they will lie."""

    @abstractmethod
    def submit(self, submission: Submission, folder: Path, shares: Sequence[int]) -> str:
        """Have shares carried out by the scripts in `folder`; return the job's name, at once or when all have ended.

        Raises MissingError where there is no such cluster here, UsageError for what it refuses, in its words, and
        HalfSubmitted where the shares are on their way all the same.
        """

    @abstractmethod
    def states(self, job: Job, folder: Path) -> Mapping[int, ShareState]:
        """Return what is known of each share of a job; one that nothing is known of is left out."""
