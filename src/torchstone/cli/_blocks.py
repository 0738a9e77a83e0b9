"""What to choose among Cases, as lines, for `tune`: report/documents/choices.py has it. To go with `_answer.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchstone.analysis.advice.choices import Chosen
from torchstone.report.document import Role
from torchstone.report.documents.choices import chosen_parts


def block_lines(
    chosen: Chosen, task: str, item: str, doubts: Mapping[str, str] | None = None, *, accelerator: bool = False
) -> Iterator[str]:
    """Yield the three choices and the front, what belongs to one of them indented."""
    for text in chosen_parts(chosen, task, item, doubts, accelerator=accelerator):
        yield f"  {text.text}" if text.role == Role.DETAIL else text.text
