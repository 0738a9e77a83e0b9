"""The answers of earlier tunes, newest first."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from torchstone.core.schema.answer import Answer, TuneResult
from torchstone.core.schema.codec import decode
from torchstone.core.schema.run import Head
from torchstone.storage.index import current
from torchstone.storage.place import Place


class Answered(msgspec.Struct, frozen=True):
    """A tune that found something, without its trials."""

    head: Head
    answer: TuneResult


def answers(place: Place) -> Iterator[Answered]:
    """Yield every tune of a store that has an answer, newest first."""
    with current(place) as (connection, _):
        rows = connection.execute(
            "SELECT head, answer FROM runs WHERE answer IS NOT NULL ORDER BY started_utc DESC, run_id DESC"
        )
        for head, answer in rows:
            found: Answer = decode(answer.encode(), Answer)
            if isinstance(found, TuneResult):
                yield Answered(decode(head.encode(), Head), found)
