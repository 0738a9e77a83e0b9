"""A submitted run as a Document: what was handed to which cluster, how far its jobs are, what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.core import units
from torchstone.core.schema.submission import Submission
from torchstone.report.document import Column, Command, Document, Facts, Part, Role, Table, Text

if TYPE_CHECKING:
    from torchstone.workflows.submit.submitting import ShareProgress

_MOST_ROWS = 40


def submitted_document(submission: Submission, job_id: str, folder: Path, resume: Sequence[int] = ()) -> Document:
    """Return what was handed over, and what to type next. `resume`: the shares, where only they were."""
    run_id = submission.head.run_id
    chosen = [submission.shares[share] for share in resume] or list(submission.shares)
    cases = sum(map(len, chosen))
    jobs = len(chosen)
    said = f"{cases} case{'s' * (cases != 1)} in {jobs} job{'s' * (jobs != 1)} submitted to {submission.cluster}."
    rows = (("run", run_id), ("job", job_id), ("scripts, logs", str(folder)))
    return Document(
        submission.head.name,
        (Text(said, Role.HEADLINE), Facts(rows), Text("Wait for the jobs and show the results:"),
         Command(f"torchstone submit --merge {run_id} --follow")),
    )  # fmt: skip


def standing_parts(
    submission: Submission, standings: Sequence[ShareProgress], twice: int, node_hours: tuple[float | None, bool]
) -> Iterator[Part]:
    """Yield how far the jobs are: a sentence; a row for each that is not complete; what to type next.

    `node_hours`: of the run, and whether it may be more.
    """
    have, planned = (sum(one.trials[place] for one in standings) for place in (0, 1))
    left = [one for one in standings if not one.complete]
    if left:
        running = sum(one.open for one in left)
        yield Text(f"{have} of {planned} planned trials are recorded.", Role.HEADLINE)
        counts = (("jobs waiting or running", running), ("jobs ended without all trials", len(left) - running))
        yield Facts(tuple((name, str(count)) for name, count in counts))
        yield Table(tuple(_columns(submission, left[:_MOST_ROWS])))
        if len(left) > _MOST_ROWS:
            yield Text(f"{len(left) - _MOST_ROWS} more jobs are not shown.")
        if running < len(left):
            yield Text("Submit the missing trials again:")
            yield Command(f"torchstone resume {submission.head.run_id}")
    hours, more = node_hours
    if hours is not None:
        told = units.significant(hours, 3)
        yield Facts((("node hours", f"at least {told}, by the records" if more else told),))
    if twice:
        yield Text(f"Of trials that two jobs measured ({twice}), the one of the job that began first counts.")


def _columns(submission: Submission, left: Sequence[ShareProgress]) -> Iterator[Column]:
    words = [("–", "not submitted") if one.state is None else (one.state.job, one.state.word) for one in left]
    shares = [submission.shares[one.share] for one in left]
    yield Column("job", tuple(job for job, _ in words), left=True)
    yield Column("state", tuple(word for _, word in words), left=True)
    yield Column("cases", tuple(_places(share) for share in shares), 1, left=True)
    yield Column("trials", tuple(f"{one.trials[0]}/{one.trials[1]}" for one in left))
    if any(one.why for one in left):
        yield Column("why", tuple(one.why or "–" for one in left), 2, left=True, shorten=True)


def _places(share: Sequence[int]) -> str:
    return str(share[0]) if len(share) == 1 else f"{share[0]}-{share[-1]}"
