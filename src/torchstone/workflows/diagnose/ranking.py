"""All causes of one Case, what explains most of the step first; and again once what-ifs were tried."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.core.schema.diagnosis import Cause, Tried
from torchstone.workflows.diagnose.causes.batch import small_batch
from torchstone.workflows.diagnose.causes.computing import computing, precision
from torchstone.workflows.diagnose.causes.loader import loader
from torchstone.workflows.diagnose.causes.memory import short_memory, thrashing
from torchstone.workflows.diagnose.causes.neighbours import neighbours
from torchstone.workflows.diagnose.causes.optimizer import optimizer
from torchstone.workflows.diagnose.causes.own_code import python_loop, waits
from torchstone.workflows.diagnose.causes.threads import threads
from torchstone.workflows.diagnose.causes.transfer import transfer
from torchstone.workflows.diagnose.evidence import Evidence

_DIRECT = (loader, transfer, threads, neighbours, waits, python_loop, optimizer, thrashing, short_memory)
_REFUTED = 0.02  # of the step
_RESIDUAL = (small_batch, precision, computing)  # of what the others leave


def causes_of(e: Evidence) -> tuple[Cause, ...]:
    """Return the causes, the largest share of the step first. Of a step that is sound: what it consists of, last."""
    found = [cause for look in _DIRECT if (cause := look(e)) is not None]
    for look in _RESIDUAL:
        if (cause := look(e, found)) is not None:
            found.append(cause)
    return tuple(_possible(cause, e) for cause in sorted(found, key=lambda cause: (cause.sound, -cause.share)))


def _possible(cause: Cause, e: Evidence) -> Cause:
    """Return a cause without what-ifs that the user's own batches rule out."""
    what_ifs = tuple(one for one in cause.what_ifs if not any(map(e.fixes, one.settings)))
    return msgspec.structs.replace(cause, what_ifs=what_ifs)


def ranked(causes: Sequence[Cause], tried: Sequence[Tried]) -> tuple[Cause, ...]:
    """Return the causes again, with what was measured: one whose remedy gains less explains less than it seemed.

    Those that are refuted come last, even after a step that is sound.
    """
    return tuple(sorted(causes, key=lambda cause: (refuted(cause, tried), cause.sound, -believed(cause, tried))))


def refuted(cause: Cause, tried: Sequence[Tried]) -> bool:
    """Say whether what would help, if this were the cause, was tried and does not."""
    return not cause.sound and believed(cause, tried) < _REFUTED


def believed(cause: Cause, tried: Sequence[Tried]) -> float:
    """Return the share of the step that a cause explains, as far as its remedies bear it out."""
    own = [one for one in tried if one.cause == cause.id]
    gains = [one.gain.value if one.gain is not None else one.first_look for one in own]
    known = [gain for gain in gains if gain]
    return min(cause.share, max(0.0, 1.0 - 1.0 / max(known))) if known else cause.share
