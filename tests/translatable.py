"""Every text of the source that a Document may bring to a reader, as the msgids of the catalogues.

`python tests/translatable.py` brings the catalogues up to date: what is new has an empty entry, and is printed; what is not
needed any more is marked obsolete; the compiled form is written beside the text.
"""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torchstone
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.metric import FIGURES, MetricGroup
from torchstone.core.schema.trial import Status
from torchstone.report.translation.catalogue import DOMAIN, LOCALE
from torchstone.report.translation.translator import bare
from torchstone.workflows.diagnose.diagnosis import Kind
from torchstone.workflows.machine_check.conditions import Fitness
from torchstone.workflows.memory.answer import Verdict as Fits

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

ROOT = Path(torchstone.__file__).parent
# Where texts of Documents are made, and those of findings and advice, which records keep.
SOURCES = (
    "report/documents/*.py", "report/charts/*.py", "report/*_wording.py", "analysis/advice/*.py", "analysis/compare/*.py",
    "analysis/recommend/*.py", "analysis/roofline/*.py", "plugins/checks/*.py", "workflows/diagnose/**/*.py",
    "workflows/machine_check/*.py", "workflows/memory/*.py", "workflows/tune/*.py", "report/pictures.py",
    "execution/worker/auto_settings.py", "plugins/devices/_cores.py", "core/schema/page_locking.py",
)  # fmt: skip
# What renderers add, and texts of lower layers that Documents have.
BESIDE = (
    "note", "warning", "error", "and {0} more", "hidden (terminal too narrow)",
    "{0} trials differ too much for an interval (wider than ±50 %): --trials {1}", "at least {0}", "at most {0}",
)  # fmt: skip
# Titles and names of facts that the source has as keys, or in loops; and clauses that are joined to others.
_TITLES = (
    "predictions metrics done usual platform processor cores vendor compute driver runtime bus document table folder written weights gradients "
    "activations inputs temporaries workspace reserved loader transfer communication launch memory unknown class counted"
).split()  # fmt: skip
_JOINED = (
    "torch kind", "compute capability", "native precisions", "left out", "try {0}", "then {0}", "or with {0}", "or {0}",
    "run {0}", "{0} heap", "compute {0}", "driver {0}", "runtime {0}", "based on {0}", "measured {0}", "With {0}", "All with {0}",
    "{0} fits (an|a) {1}: its peak is {2}", "{0} may fit, with little to spare, (an|a) {1}: its peak is {2}",
    "{0} does not fit (an|a) {1}: its peak is {2}", "flash ran", "math ran", "efficient ran", "cudnn ran", "host {0}",
    "held-out accuracy {0}", "held-out loss {0}", "in use {0}", "memory at most {0}", "mean temperature {0}", "mean power {0}",
    "{0}/s with {1}", "{0} % with {1}", "fixed heap", "huge heap", "default heap",
    "a step takes {0}", "Highest throughput: {0} at {1}", "less than the usual {0}", "within the usual {0}", "better in {0}",
    "worse in {0}", "unclear in {0}", "same in {0}", "{0} more that changed there, and elsewhere too", "{0} more that changed with it",
    "{0} takes less time than {1}, how much is not known to ±50 % yet: {2}", "{0} % less time", "{0} % more time",
    "{0} takes more time than {1}, how much is not known to ±50 % yet: {2}", "{0} is {1} times as fast as {2}{3}",
    "{0} is as fast, within the noise, as {1}{2}", "image", "sequence", "sample", "text",
    "{0} {1} is labelled the best {2}, but {3} has {4}",
    "a step of the {0} window takes {1}, but all {2} take {3}: only a few steps wait for the device",
)  # fmt: skip
_TEXTS = {"Text", "Column", "Section", "Remedy", "Advice", "Coordinate", "Quantity", "Document", "Picture", "Panel", "Doubt",
          "WhatIf", "Finding", "Bars", "Divider", "Failure", "Cells", "Condition", "_graded", "_untold", "_named", "_section"}  # fmt: skip
_NO_TEXTS = {"get", "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "replace", "split",
             "compile", "sub", "search", "fullmatch", "match", "open", "strftime", "getattr", "hasattr", "setting", "load",
             "struct", "partial", "UsageError", "MissingError", "TorchstoneError", "unknown", "fault", "TypeVar",
             "values", "quantity", "add"}  # fmt: skip
_SILENT = {"_say", "stage", "tell"}  # of progress
_ENDINGS = {"", "s", "es", "is", "are", "was", "were", "has", "have", "its", "their", "it", "them", "does", "do", "an", "a"}
_TYPED = re.compile(r"`[^`]*`|--[\w-]+(?:[= ][\w.:%]+)?|\S*[_=/\\<>]\S*|\b\w+\.\w+\b|\btorchstone \w+( \w+)?\b")
_WORD = re.compile(r"[A-Za-z]{2,}")
_WRITTEN = datetime(2026, 11, 23, tzinfo=UTC)  # the same again from the same texts
_NOT_SHOWN = {  # compared with, or handed on
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "DataLoader worker", "auto", "custom", "default", "gh200 480gb", "mib", "number", "of the loader",
    "random", "reduce-overhead", "resident", "steady", "off", "on", "interrupted", "cpu", "{0} is {1} {2}{3}", "{0} {1} {2}: its peak is {3}", "(an|a) {0}", "{0} {1}s/s, {2} a step",
    "{0} {1}s/s, a step takes {2}", "Highest throughput: {0} {1}s/s at {2}", "{0}s/s per GB", "{0} the usual {1}", "less than", "more than",
    "within", "token", "tune", "value", "word", "less", "more",
}  # fmt: skip
# Words that are the same in every language: units, names, and what is looked for by its name.
UNITS = {"TTFT", "TPOT", "INVALID", "SUSPECT", "VALID", "Train", "Val", "torch", "vs", "pid", "NaN", "OOM", "ms", "GB", "MB", "KB", "GiB", "MiB", "KiB", "TiB", "GHz", "MHz", "kHz", "Hz", "FLOP", "ln", "min", "kJ", "mJ"}


def msgids() -> dict[str, str]:
    """Return every msgid, with where the source writes it."""
    found = dict.fromkeys(BESIDE, "renderers and units")
    for path in sources():
        reader = _Reader()
        reader.visit(ast.parse(path.read_text(encoding="utf-8")))
        for text, line in reader.found:
            for msgid in _msgid(text):
                found.setdefault(msgid, f"{path.relative_to(ROOT)}:{line}")
    return {**found, **{msgid: "tables of metrics and axes" for text in _of_tables() for msgid in _msgid(text)}}


def sources() -> list[Path]:
    """Return the files that are read."""
    return sorted({path for pattern in SOURCES for path in ROOT.glob(pattern)})


def _of_tables() -> Iterator[str]:
    for metric in FIGURES.values():
        yield from (metric.title, metric.meaning)
    yield from (group.heading for group in MetricGroup)
    yield from (name.replace("_", " ") for name in AXES)
    yield from (str(word).replace("_", " ") for words in (Judgement, Severity, Fitness, Fits, Kind, Status) for word in words)
    yield from (*_TITLES, *_JOINED)


def _msgid(text: str) -> Iterator[str]:
    core = bare(text)[1]
    fixed = _TYPED.sub(" ", re.sub(r"\{\d+\}", " ", core))
    if core not in _NOT_SHOWN and any(word not in UNITS for word in _WORD.findall(fixed)):
        yield core


class _Reader(ast.NodeVisitor):
    """Collects texts with their lines. `_words`: whether a single word of small letters counts, as where it is a title."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []
        self._words = False

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        return

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        return

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for one in node.body:
            self.visit(one)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for one in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if one is not None:
                self.visit(one)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(one, ast.Name) and one.id in ("__all__", "FILE", "describes") for one in node.targets):
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        for one in (node.left, *node.comparators):
            if not _is_plain(one):
                self.visit(one)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not _is_plain(node.slice):
            self.visit(node.slice)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "_counted" and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            self.found.append((f"{{0}} {node.args[1].value}(s)", node.lineno))
            return
        if name in _SILENT:
            return
        if name in ("WhatIf", "Finding"):  # their first is a name, or settings
            self._all(node.args[1:], words=name == "WhatIf")
            return
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        arguments = [*node.args, *(one.value for one in node.keywords)]
        if name in _NO_TEXTS:
            also = name in ("get", "replace")  # a text for what is not there, or in a field
            self._all([one for one in arguments if not _is_plain(one) or (also and " " in _text(one))], words=False)
            return
        titles = 2 if name == "Coordinate" else 1
        self._all(arguments[:titles], words=name in _TEXTS)
        self._all(arguments[titles:], words=name in ("Advice", "Quantity", "Doubt"))

    def visit_Dict(self, node: ast.Dict) -> None:
        self._all([one for one in node.keys if one is not None and not _is_plain(one)], words=False)
        self._all(node.values, words=True)

    def visit_Yield(self, node: ast.Yield) -> None:
        if isinstance(node.value, ast.Tuple):
            self._all(node.value.elts[:1], words=True)
            self._all(node.value.elts[1:], words=False)
        elif node.value is not None:
            self.visit(node.value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._all([node.body, node.orelse], words=True)

    def visit_Return(self, node: ast.Return) -> None:
        self._all([node.value] if node.value is not None else [], words=True)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        pieces = _added(node)
        if pieces is not None:
            self._template(pieces, node.lineno)
            return
        self._all([node.left, node.right], words=isinstance(node.op, ast.Mult) or self._words)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._take(node.value, node.lineno)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._template(node.values, node.lineno)

    def _all(self, nodes: list[ast.expr], *, words: bool) -> None:
        before, self._words = self._words, words
        for one in nodes:
            self.visit(one)
        self._words = before

    def _template(self, pieces: list[ast.expr], line: int) -> None:
        text, places = "", 0
        for piece in pieces:
            if isinstance(piece, ast.Constant):
                text += str(piece.value)
            elif isinstance(piece, ast.FormattedValue) and (ending := _ending(piece.value)) is not None:
                text += ending
            else:
                text += f"{{{places}}}"
                places += 1
                self._all([piece.value if isinstance(piece, ast.FormattedValue) else piece], words=True)
        self._take(text, line, whole=True)

    def _take(self, text: str, line: int, *, whole: bool = False) -> None:
        if re.search(r"\{[a-z]\w*\}", text):  # of str.format
            names = list(dict.fromkeys(re.findall(r"\{([a-z]\w*)\}", text)))
            text = re.sub(r"\{([a-z]\w*)\}", lambda name: f"{{{names.index(name[1])}}}", text)
        core = bare(text)[1]
        single = " " not in core
        titled = re.fullmatch(r"[A-Z][a-z]+(-[a-z]+)?|[A-Z]{4,}", core)
        plain_word = re.fullmatch(r"[a-z]+(-[a-z]+)*", core)
        if whole or not single or titled or (self._words and plain_word):
            self.found.append((text, line))


def _text(node: ast.expr) -> str:
    return node.value.strip() if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Tuple | ast.Set | ast.List) and all(map(_is_plain, node.elts))
    )


def _added(node: ast.expr) -> list[ast.expr] | None:
    """Return the pieces of texts that are added up; None where anything else is."""
    if isinstance(node, ast.JoinedStr):
        return node.values
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _added(node.left), _added(node.right)
        return None if left is None or right is None else [*left, *right]
    return None


def _ending(node: ast.expr) -> str | None:
    """Return the notation of an ending that depends on a number: "(s)", "(is|are)"; None for what is said otherwise."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant):
        return f"({node.left.value})" if node.left.value in ("s", "es") else None
    if isinstance(node, ast.IfExp):
        words = [one.value for one in (node.body, node.orelse) if isinstance(one, ast.Constant)]
        if len(words) == 2 and _ENDINGS.issuperset(words):
            return f"({''.join(map(str, words))})" if "" in words else f"({'|'.join(map(str, words))})"
    return None


def update(language: str, given: Mapping[str, str] | None = None) -> list[str]:
    """Write the catalogue of a language and its compiled form; return the msgids that have no translation yet.

    Translations are those of the catalogue, of entries that it once needed (they are kept, marked obsolete), and `given`.
    """
    from babel.messages.catalog import Catalog, Message
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import write_po

    folder = LOCALE / language / "LC_MESSAGES"
    there = read(language)
    known = {message.id: str(message.string) for message in (*there.obsolete.values(), *there)} | dict(given or {})
    wanted = msgids()
    made = Catalog(
        language, header_comment=f"# Texts of torchstone's reports: {language}.", project="torchstone", version=" ",
        copyright_holder=" ", msgid_bugs_address=" ", last_translator=" ", language_team=" ", fuzzy=False,
        creation_date=_WRITTEN, revision_date=_WRITTEN,
    )  # fmt: skip
    for msgid in sorted(wanted):
        made.add(msgid, known.get(msgid, ""), locations=[(wanted[msgid].partition(":")[0], 1)])
    for msgid in sorted(known.keys() - wanted.keys() - {""}):
        if known[msgid]:
            made.obsolete[msgid] = Message(msgid, known[msgid])
    with (folder / f"{DOMAIN}.po").open("wb") as file:
        write_po(file, made, width=0, sort_by_file=True, include_lineno=False)
    with (folder / f"{DOMAIN}.mo").open("wb") as file:
        write_mo(file, made)
    return [msgid for msgid in wanted if not known.get(msgid)]


def read(language: str) -> Catalog:
    """Return the catalogue of a language."""
    from babel.messages.pofile import read_po

    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po").open("rb") as file:
        return read_po(file, language)


def main() -> None:
    """Bring the catalogues of all languages up to date, and print what they lack."""
    for path in sorted(LOCALE.glob(f"*/LC_MESSAGES/{DOMAIN}.po")):
        for msgid in update(path.parts[-3]):
            print(f"{path.parts[-3]}: {msgid}")


if __name__ == "__main__":
    main()
