"""The page as text: template, styles and scripts in one, under a policy that lets nothing else load or run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from torchstone.core import units
from torchstone.core.units import plain
from torchstone.report.attached import attachment_tags
from torchstone.report.document import Attachment, Document
from torchstone.report.renderers.html.layout import laid_out
from torchstone.report.translation.language import localized

_HERE = Path(__file__).parent
_SCRIPTS = ("page.js", "tables.js", "charts.js")
SAID = re.compile(r'\bsay\("((?:[^"\\]|\\.)*)"')  # texts of our own in the scripts and templates
_CODE = re.compile(r"`([^`]+)`")


class _Carried(NamedTuple):
    """What the page says of a file that it carries."""

    name: str
    media_type: str
    size: str
    sha256: str


def page(document: Document) -> str:
    """Return the text of the file. Every text of the Document is escaped, and what is not printable replaced."""
    laid = laid_out(document)
    style = asset("page.css") + of_columns(laid.columns)
    script = "\n".join(asset(name) for name in _SCRIPTS)
    template = templates_of().get_template("page.html")
    return template.render(
        title=document.title,
        language=document.language,
        laid=laid,
        policy=_policy(script, style),
        style=ours(style),
        script=ours(script),
        units=ours(json.dumps(units.factors())),
        words=ours(_words(script)),
        carried=[_carried(one) for one in document.attachments],
        attachments=ours(attachment_tags(document.attachments)),
    )


def ours(text: str) -> Markup:
    """Return what is put into the page as it is: nothing of it is a stranger's, or it is escaped already."""
    return Markup(text)  # noqa: S704  # see above


def _words(script: str) -> str:
    """Return, as JSON for a script element, what the scripts say in the language that is spoken; "" in English."""
    told = {text: words for text in SAID.findall(script) if (words := localized(text)) != text}
    return json.dumps(told).replace("<", "\\u003c") if told else ""


def _carried(one: Attachment) -> _Carried:
    size = units.quantity(len(one.content), "bytes")
    return _Carried(one.name, one.media_type, size, hashlib.sha256(one.content).hexdigest())


@cache
def templates_of(folder: Path = _HERE, shown: Callable[[object], object] | None = None) -> Environment:
    """Return the templates of a folder. Whatever they are filled with is escaped; `shown`: what is shown of it."""
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=shown or _shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["say"] = localized
    made.filters["code"] = with_code
    return made


def with_code(text: str) -> Markup:
    """Return a text, escaped, in which what stands between backticks is set as code."""
    return ours(_CODE.sub(r"<code>\1</code>", str(escape(_shown(text)))))


def _shown(value: object) -> object:
    """Return what a place of the template is filled with: markup of ours as it is, all else as one printable line."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    return text if text.isprintable() else plain(" ".join(text.split()))


@cache
def asset(name: str) -> str:
    """Return the text of a file beside this one."""
    return (_HERE / name).read_text(encoding="utf-8")


def of_columns(count: int, within: str = "") -> str:
    """Return the rules that align a column to the left (l1, l2, …), and that hide one (h1, h2, …).

    `within`: what each rule begins with.
    """
    return "".join(
        f"{within}.l{n}>*>tr>:nth-child({n}){{text-align:left}}{within}.h{n}>*>tr>:nth-child({n}){{display:none}}\n"
        for n in range(1, count + 1)
    )


def _policy(script: str, style: str) -> str:
    """Return the Content-Security-Policy: this script, these styles, nothing from anywhere."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
