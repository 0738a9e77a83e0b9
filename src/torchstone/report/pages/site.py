"""What every page needs: the store, the templates, Documents that were made before, and how an answer looks."""

from __future__ import annotations

import itertools
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from torchstone.core import units
from torchstone.core.units import cut, plain
from torchstone.report.document import Column, Document, Role
from torchstone.report.pages.store import Store, TeamPages
from torchstone.report.renderers._table import important_first
from torchstone.report.translation.language import current_language, in_language, localized
from torchstone.storage.progress import Following

if TYPE_CHECKING:
    from jinja2 import Environment

    from torchstone.analysis.summary import RunSummary

_HERE = Path(__file__).parent
STATIC = _HERE / "static"
_MOST_KEPT, _MOST_FOLLOWED = 64, 16
_RUN_COLUMNS = ("run", "from run")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CASE_ID = re.compile(r"[0-9a-f]{12}")

T = TypeVar("T")


class Reply(msgspec.Struct, frozen=True):
    """What a browser gets."""

    body: bytes
    status: int = 200
    media_type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = {}


def redirect(address: str) -> Reply:
    """Return a reply that sends the browser on."""
    return Reply(b"", 303, headers={"location": address})


class DocumentOf(Protocol):
    """Makes the Document of a stored run."""

    def __call__(self, summary: RunSummary, *, every: bool, reported: tuple[int, int] | None = None) -> Document:
        """Return it. `every`: with every figure of every case, or of those from the first place up to the second."""
        ...


class Site:
    """What views share. Several threads use one."""

    def __init__(self, store: Store | TeamPages, document_of: DocumentOf) -> None:
        self.store, self.document_of = store, document_of
        self.language = current_language()  # of all pages
        self._templates = _environment()
        for name in self._templates.list_templates():  # read now: the first page is as soon there as the others
            self._templates.get_template(name)
        self._lock = threading.Lock()
        self._kept: OrderedDict[object, Any] = OrderedDict()
        self._followed: OrderedDict[Path, Following] = OrderedDict()

    def show(self, template: str, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any) -> Reply:
        """Return the page that a template makes of these values."""
        about = {"store": self.store, "numbers": itertools.count(1), "language": self.language, **context}
        with in_language(self.language):
            text = self._templates.get_template(template).render(about)
        return Reply(text.encode("utf-8", "replace"), status, headers=headers or {})

    def message(self, title: str, text: str, status: int, headers: Mapping[str, str] | None = None) -> Reply:
        """Return a page that says one thing, which is in English."""
        with in_language(self.language):
            return self.show("message.html", status, headers, title=localized(title), text=localized(text), here="")

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """Return what was made for this key before, or make it. The key names the state of the record, too."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: T = self._kept[key]
                return found
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def following(self, path: Path) -> Following:
        """Return what follows a record, the same as before where it is followed already."""
        with self._lock:
            found = self._followed.setdefault(path, Following(path))
            self._followed.move_to_end(path)
            while len(self._followed) > _MOST_FOLLOWED:
                self._followed.popitem(last=False)
            return found


def _environment() -> Environment:
    from torchstone.report.renderers.html.page import templates_of

    found = templates_of(_HERE / "templates", _printable)
    found.filters.update(
        kind=lambda part: part.__struct_config__.tag,
        moment=_moment,
        cut=cut,
        rate=_rate,
        around=_around,
        columns=_columns,
        linked=_linked,
        next=next,
        seconds=lambda value: units.quantity(value, "s"),
    )
    found.globals.update(headline=Role.HEADLINE, note=Role.NOTE, detail=Role.DETAIL)
    return found


def _printable(value: object) -> object:
    """Return what a template shows: of a text what has no effect on its surroundings, such as marks that turn it round.

    Jinja escapes it afterwards. Markup comes from our own templates.
    """
    if value is None:
        return units.MISSING
    if isinstance(value, str) and not hasattr(value, "__html__") and not value.isprintable():
        return "".join(" " if c.isspace() else plain(c) for c in value)
    return value


def _moment(utc: str) -> str:
    """Return "2026-11-23 08:30" of a moment as records have it."""
    return utc[:16].replace("T", " ")


def _rate(value: float | None, item: str) -> str:
    return units.MISSING if value is None else f"{units.significant(value, 3)} {item}s/s"


def _around(value: float | None, low: float | None, high: float | None) -> str:
    """Return "±1.2 %", or why there is none."""
    if value is None:
        return ""
    return units.spread(value, low, high) or localized("one trial: no interval")


def _columns(columns: tuple[Column, ...]) -> list[Column]:
    """Return the columns that say something, the important ones first."""
    ordered = important_first(columns)
    return [one for one in ordered if one.rank == 0 or any(cell not in ("", units.MISSING) for cell in one.cells)]


def _linked(cell: str, title: str) -> str | None:
    """Return the page of what a cell names; None where it names nothing that has one."""
    if title in (*_RUN_COLUMNS, localized("run"), localized("from run")) and _RUN_ID.fullmatch(cell):
        return f"/runs/{cell}"
    if title in ("case", localized("case")) and _CASE_ID.fullmatch(cell):
        return f"/history/{cell}"
    return None
