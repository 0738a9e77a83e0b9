"""The texts in a source that may reach a reader: f-strings as templates with numbered places, and plain texts.

A syntax tree does not tell a text from a name, so there are rules: what has a blank or a capital is a text; a word of
small letters is one where it is a title, a value, or what is returned. Docstrings, exceptions, progress, and what is
compared or looked up are none.
"""

from __future__ import annotations

import ast
import re

from torchstone.report.translation.joints import bare

_TEXTS = {
    "Text", "Column", "Section", "Quantity", "Document", "Picture", "panel",
    "Doubt", "Finding", "_named",
    "_section",
}  # fmt: skip
# Of vega_lite: column and title.
_AXES = {"steps", "name_axis", "row_axis", "number_axis", "count_axis", "doubled", "share_axis", "cells"}
# Functions whose plain arguments are names, and those whose texts no Document has.
_NO_TEXTS = {
    "get", "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "replace", "split",
    "compile", "sub", "search", "fullmatch", "match", "open", "strftime", "getattr", "hasattr", "setting", "load",
    "struct", "partial", "UsageError", "MissingError", "TorchstoneError", "unknown", "fault", "TypeVar", "values",
    "quantity", "add",
}  # fmt: skip
_SILENT = {"_say", "stage", "tell", "CommandLine"}  # of progress, and what is typed
_FORMS = "s es is are was were has have its their it them does do an a"
_ENDINGS = {"", *_FORMS.split()}


def texts_of(source: str) -> list[tuple[str, int]]:
    """Return each text of a module with its line."""
    reader = _Reader()
    reader.visit(ast.parse(source))
    return reader.found


def said_of(source: str) -> list[tuple[str, int]]:
    """Return each text that a module says itself, with its line: through `localized`, or on a page of a message."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    reader = _Reader(words=True)
    for call in calls:
        if (getattr(call.func, "attr", None) or getattr(call.func, "id", None)) in ("localized", "message", "Refusal"):
            for one in call.args:
                if not isinstance(one, ast.Dict):  # headers
                    reader.visit(one)
    return reader.found


class _Reader(ast.NodeVisitor):
    """Collects texts with their lines. `_words`: whether a single word of small letters counts."""

    def __init__(self, *, words: bool = False) -> None:
        self.found: list[tuple[str, int]] = []
        self._words = words

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
        if name in ("_counted", "count_of") and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            self.found.append((f"{{0}} {_text(node.args[1])}(s)", node.lineno))
            return
        if name in _SILENT:
            return
        if name == "Finding":  # its first is a name
            self._all(node.args[1:], words=False)
            return
        if name in ("Statement", "Remedy", "Check"):  # ids: their texts are messages
            return
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        arguments = [*node.args, *(one.value for one in node.keywords)]
        if name in _NO_TEXTS:
            also = name in ("get", "replace")  # a text for what is not there, or in a field
            self._all([one for one in arguments if not _is_plain(one) or (also and " " in _text(one))], words=False)
            return
        axis = name in _AXES and getattr(getattr(node.func, "value", None), "id", "") == "vl"
        titles = 2 if axis else 1
        self._all(arguments[:titles], words=axis or name in _TEXTS)
        self._all(arguments[titles:], words=name in ("Quantity", "Doubt"))

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
        text = re.sub(r"\{\w+:plural\}", "(s)", text)
        named = re.compile(r"\{([a-z]\w*)(?::[^{}]*)?\}")  # of str.format
        names = list(dict.fromkeys(named.findall(text)))
        text = named.sub(lambda name: f"{{{names.index(name[1])}}}", text)
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
