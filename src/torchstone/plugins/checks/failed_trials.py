"""Some trials of a Case failed: the others are a biased selection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.core.schema.trial import Status
from torchstone.plugins.checks._cases import again, sound, taken
from torchstone.plugins.protocols import Check

_ADVICE = {
    Status.CRASHED: "see where in its message",
    Status.UNSUPPORTED: "see why in its message",
    Status.SKIPPED: "see why in its message",
}
# An interrupted trial says that somebody pressed a key, and nothing of the Case.
_NO_FAILURE = (Status.OK, Status.INTERRUPTED)


class FailedTrials:
    """Fires where a Case has trials that ended well and trials that failed. All failed is plain to see."""

    describes = "a case with failed trials"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning a Case, naming how the others ended."""
        well = {case_id: len(trials) for case_id, _, trials in sound(run)}
        for case_id, _, trials in taken(run):
            failed = Counter(t.outcome.status for t in trials if t.outcome.status not in _NO_FAILURE)
            if failed and case_id in well:
                endings = ", ".join(f"{count} {status}" for status, count in failed.items())
                message = f"{well[case_id]} trials succeeded, {failed.total()} did not: {endings}"
                advice = "; ".join(_advice(status, run) for status in failed)
                yield Finding("failed_trials", Severity.WARNING, message, advice, case_id)


def _advice(status: Status, run: Run) -> str:
    if status == Status.TIMED_OUT:
        timeout_s = run.head.procedure.timeout_s
        return f"if slow rather than stuck, measure again with --timeout {2 * timeout_s:g}s (it was {timeout_s:g}s)"
    if status == Status.OUT_OF_MEMORY:
        return f"{status}: a smaller {again(run, '--axis batch_size', 'batch')} leaves memory to spare"
    # What another tool wrote may not be stored, and its file is at hand.
    return f"{status}: {_ADVICE[status]}{again(run, f' (`torchstone show {run.head.run_id}`)', '')}"


PLUGIN: Check = FailedTrials()
