"""Changes of single values in a text, and keys added beside others: every other character stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from torchstone.config.positions import KeyPath, Layout, Place
from torchstone.core.schema.axis import Scalar

YAML = (".yaml", ".yml")
Edit = tuple[int, int, str]  # from, to, what stands there instead
_PLAIN = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_TRUTHS = {"true", "false", "yes", "no", "on", "off"}
_TAKEN = {*_TRUTHS, "null", "y", "n"}  # no words in one version of YAML or another
_BEFORE_COMMA = re.compile(r"(?:\s|#[^\n]*\n)*,")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits made; those at one place in their order."""
    result, done = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        result += [text[done:start], new]
        done = max(done, end)
    return "".join((*result, text[done:]))


def spelled(value: Scalar, suffix: str, old: str = "") -> str:
    """Return a value as the format writes it, in the quotes or capitals of the text it replaces."""
    quote = old[:1] if old[:1] in ("'", '"') else ""
    if isinstance(value, bool) or (suffix in YAML and old.lower() in _TRUTHS and str(value) in _TRUTHS):
        text = str(value).lower()
        return quote + (text.upper() if old.isupper() else text.title() if old.istitle() else text) + quote
    if isinstance(value, float):
        # With a dot even before an exponent: PyYAML takes 5e-05 for a word.
        mantissa, e, exponent = repr(value).partition("e")
        return f"{quote}{mantissa}{'.0' if e and '.' not in mantissa else ''}{e}{exponent}{quote}"
    if isinstance(value, int) or quote:
        return f"{quote}{value}{quote}"
    plain = suffix in YAML and _PLAIN.fullmatch(str(value)) and str(value).lower() not in _TAKEN
    return str(value) if plain else json.dumps(str(value))


def replaced(text: str, place: Place, value: Scalar, suffix: str) -> tuple[list[Edit], Scalar | list[Scalar]]:
    """Return the edits that put `value` in a place, and what then is there: a list with comments stays a list."""
    if place.kind == "scalar":
        new = spelled(value, suffix, text[place.start : place.end])
        apart = " " if place.start == place.end and not text[place.start - 1].isspace() else ""
        return [(place.start, place.end, apart + new)], value
    new = spelled(value, suffix)
    begin = place.start
    if text[begin] != "[":  # a block of YAML: all behind the colon goes
        begin = text.index(":", place.key_end) + 1
        new = f" {new}"
    if place.items and "#" in text[begin : place.end]:
        return list(_emptied(text, place, new.strip())), [value]
    return [(begin, place.end, new)], value


def _emptied(text: str, place: Place, new: str) -> Iterator[Edit]:
    """Put the value in the place of a list's first item and take the others out, but no comment."""
    yield (*place.items[0], new)
    behind = place.items[0][1]
    for start, end in place.items[1:]:
        if text[place.start] == "[":
            comma = _BEFORE_COMMA.match(text, behind)
            if comma is not None:
                yield comma.end() - 1, comma.end(), ""
            yield start, end, ""
        else:
            dash = text.rfind("-", behind, start)
            begin, close = text.rfind("\n", 0, dash) + 1, text.find("\n", end) + 1 or len(text)
            alone = not text[begin:dash].strip() and not text[end:close].strip()
            rest = end + len(text[end:close]) - len(text[end:close].lstrip(" "))  # up to the comment behind it
            yield (begin, close, "") if alone else (dash, rest, "")
        behind = end


def added(text: str, layout: Layout, mapping: KeyPath, pairs: Mapping[str, str], suffix: str) -> Iterator[Edit]:
    """Yield the edits that add keys with values (both as the format writes them) to a mapping that has some already."""
    children = [place for path, place in layout.items() if path and path[:-1] == mapping]
    beside = [place for place in children if _ends_where_its_text_does(text, place)]
    if mapping in layout and layout[mapping].kind == "table":
        beside.append(layout[mapping])  # the header
    within = [place for path, place in layout.items() if path[: len(mapping)] == mapping and path != mapping]
    for name, value in pairs.items():
        if beside:
            at, new = _after(text, max(beside, key=lambda place: place.end), name, value, suffix)
        else:
            at, new = _before(text, min(within, key=lambda place: place.key_start), name, value, suffix)
        yield at, at, new


def inline(pairs: Mapping[str, str], suffix: str) -> str:
    """Return a mapping on one line."""
    colon = " = " if suffix == ".toml" else ": "
    quote = '"' if suffix == ".json" else ""
    return "{" + ", ".join(f"{quote}{name}{quote}{colon}{value}" for name, value in pairs.items()) + "}"


def _ends_where_its_text_does(text: str, place: Place) -> bool:
    """Tell whether another key can follow: behind a block of YAML its comments may."""
    return place.kind in ("scalar", "list") or (place.kind == "mapping" and text[place.start] == "{")


def _after(text: str, place: Place, name: str, value: str, suffix: str) -> tuple[int, str]:
    """Return where a key is added behind another, and the text of it."""
    key = _key(text, place, name)
    if place.braced or suffix == ".json":
        before = text[: place.key_start]
        blank = before[len(before.rstrip()) :]
        space = blank if "\n" in blank else " "  # a line of its own, or the same line
        between = text[place.key_end : place.start]
        colon = between if between.strip() in (":", "=") and "\n" not in between else ": "
        return place.end, f",{space}{key}{colon}{value}"
    begin, line_end = text.rfind("\n", 0, place.key_start) + 1, text.find("\n", place.end)
    line_end = len(text) if line_end < 0 else line_end - text[:line_end].endswith("\r")
    newline = _newline(text)
    if suffix == ".toml":
        whole = text[place.key_start : place.key_end]
        dotted = whole[: whole.rfind(".") + 1] if place.kind != "table" else ""
        return line_end, f"{newline}{text[begin : place.key_start]}{dotted}{name} = {value}"
    return line_end, f"{newline}{' ' * (place.key_start - begin)}{key}: {value}"


def _before(text: str, place: Place, name: str, value: str, suffix: str) -> tuple[int, str]:
    """Return where a key is added in front of another, and the text of it."""
    if place.braced or suffix == ".json":
        return place.key_start, f"{_key(text, place, name)}: {value}, "
    if suffix == ".toml":
        return place.key_start, f"{name} = {value}{_newline(text)}"
    indent = " " * (place.key_start - text.rfind("\n", 0, place.key_start) - 1)
    return place.key_start, f"{_key(text, place, name)}: {value}{_newline(text)}{indent}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _key(text: str, beside: Place, name: str) -> str:
    """Return a key in the quotes of the one beside it."""
    quote = text[beside.key_start : beside.key_start + 1]
    return f"{quote}{name}{quote}" if quote in ("'", '"') else name
