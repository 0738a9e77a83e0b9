"""YAML 1.2 and where everything in it stands. `1e-5` is a number, `off` is a word, a duplicate key is an error."""

from __future__ import annotations

import re
from typing import Any

from torchstone.config.positions import Layout, LayoutBuilder
from torchstone.core.errors import UsageError

_MOST_NODES = 100_000
_PROPERTIES = re.compile(r"(?:[&!]\S*\s*)*")  # an anchor and a tag, before the value they belong to


def read_yaml(text: str, name: str) -> tuple[Any, Layout]:
    """Return the data of a YAML text and its Layout. Raises UsageError, one line, with its position."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        layout = _Events(text, name).layout()
        return YAML(typ="safe", pure=True).load(text), layout
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        at = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
        raise UsageError(f"{at}: not YAML: {fault.problem or fault.context}") from None
    except YAMLError as fault:
        raise UsageError(f"{name}:1:1: not YAML: {' '.join(str(fault).split())[:200]}") from None
    except ValueError as fault:  # a value with the form of a number or date that is none: 2026-13-45
        raise UsageError(f"{name}:1:1: not YAML: {fault}") from None


class _Events:
    """Builds a Layout of the events of a text, and counts its values with what aliases stand for."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._build = LayoutBuilder()
        self._key_end = 0
        self._count = 0
        self._sizes: dict[str, int] = {}  # of what an anchor names; a few lines can stand for a billion values
        self._open: list[tuple[str | None, int]] = []  # the anchors of what is not closed yet, and the count before

    def layout(self) -> Layout:
        from ruamel.yaml import YAML
        from ruamel.yaml.events import (
            AliasEvent,
            DocumentEndEvent,
            MappingEndEvent,
            MappingStartEvent,
            ScalarEvent,
            SequenceEndEvent,
            SequenceStartEvent,
        )

        for event in YAML(typ="safe", pure=True).parse(self._text):
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                self._enter(event, mapping=isinstance(event, MappingStartEvent))
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self._leave(event)
            elif isinstance(event, AliasEvent):
                self._counted(self._size_of(event.anchor), event)
                self._scalar(event, event.start_mark.index)
            elif isinstance(event, ScalarEvent):
                self._counted(1, event)
                if event.anchor:
                    self._sizes[event.anchor] = 1
                self._scalar(event, self._begin(event))
            elif isinstance(event, DocumentEndEvent):
                break  # the reading of it refuses a second one
        return self._build.places

    def _begin(self, event: Any) -> int:
        """Return where a value begins, behind its anchor and its tag."""
        start, end = event.start_mark.index, event.end_mark.index
        properties = _PROPERTIES.match(self._text, start, end) if event.anchor or event.tag else None
        return properties.end() if properties else start

    def _enter(self, event: Any, *, mapping: bool) -> None:
        if self._build.wants_key:
            raise UsageError(f"{self._at(event)}: a key must be a word, not a list or a mapping")
        self._open.append((event.anchor, self._count))
        self._counted(1, event)
        self._build.enter(self._begin(event), mapping=mapping, flow=bool(event.flow_style))

    def _leave(self, event: Any) -> None:
        anchor, before = self._open.pop()
        if anchor:
            self._sizes[anchor] = self._count - before
        self._build.leave(event.end_mark.index)

    def _scalar(self, event: Any, start: int) -> None:
        end, style = event.end_mark.index, getattr(event, "style", None)
        if self._build.wants_key:
            self._build.key(str(getattr(event, "value", None) or self._text[start:end]), start, end)
            self._key_end = end
            return
        if start == end and not event.anchor:
            start = end = self._text.find(":", self._key_end) + 1  # nothing there: what comes belongs behind the colon
        self._build.value(start, end, "folded" if style in ("|", ">") else "scalar")

    def _size_of(self, anchor: str) -> int:
        """Return how many values an anchor names: endless, where it is not closed yet."""
        return _MOST_NODES if any(anchor == one for one, _ in self._open) else self._sizes.get(anchor, 1)

    def _counted(self, values: int, event: Any) -> None:
        self._count += values
        if self._count > _MOST_NODES:
            raise UsageError(f"{self._at(event)}: too many values or too deep, aliases followed")

    def _at(self, event: Any) -> str:
        return f"{self._name}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
