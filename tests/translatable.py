"""Every text of the source that a Document may bring to a reader, as the msgids of the catalogues.

`python tests/translatable.py` brings the catalogues up to date: what is new gets an empty entry, and is printed; what
is not needed any more is marked obsolete; the compiled form is written beside the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from source_texts import said_of, texts_of

import torchstone
from torchstone.analysis.ci import ChangeVerdict as Change
from torchstone.analysis.memory_fit import FitVerdict as Fits
from torchstone.core.messages import DISTURBED, MESSAGES, NOT_COMPARED, OUTCOMES, OWN_DATA, REMEDIES
from torchstone.core.schema.axis import AXES
from torchstone.core.schema.comparison import Judgement
from torchstone.core.schema.diagnosis import CauseKind
from torchstone.core.schema.estimate import Severity
from torchstone.core.schema.metric import FIGURES, MetricGroup
from torchstone.core.schema.trial import Status
from torchstone.plugins.checking import FAILED
from torchstone.report.renderers.html.page import SAID
from torchstone.report.translation.catalogue import DOMAIN, LOCALE
from torchstone.report.translation.joints import bare
from torchstone.workflows.machine_check.conditions import Fitness

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

ROOT = Path(torchstone.__file__).parent
# Where texts of Documents are made, and those of findings and advice, which records keep.
SOURCES = (
    "report/documents/*.py", "report/charts/*.py", "report/diagnosis_messages.py", "analysis/advice/*.py",
    "analysis/compare/*.py", "analysis/recommend/*.py", "analysis/roofline.py",
    "workflows/machine_check/*.py", "workflows/memory.py", "workflows/tune/*.py",
    "report/pictures.py", "core/cores.py",
    "report/carried.py", "report/verification.py", "report/bundle.py", "analysis/ci.py",
    "storage/manifest.py",
)  # fmt: skip
# Where renderers say texts of their own, and what they say through a name; and texts of lower layers.
RENDERERS = ("report/renderers/**/*", "report/pages/**/*")
BESIDE = (
    "warning", "error", "record", "All results", "trial {0}", "{0} (ceiling)", "linear", "logarithmic x",
    "logarithmic y", "logarithmic x and y",
    "The report continues: torchstone report --format md",
    "More is left out here; all of it: torchstone report --format html",
    "Not on these pages: {0}. The CSV beside them has the tables, torchstone report --format html all of it",
    "pictures need vl-convert-python: pip install 'torchstone[charts]'",
    "{0} trials differ too much for an interval (wider than ±50 %): --trials {1}",
    "probes alone differ too much for an interval (wider than ±50 %)", "at least {0}", "at most {0}",
    "more columns in a wider terminal",
)  # fmt: skip
# Columns of values of pictures, as tables of pages name them.
_COLUMNS = (
    "low", "high", "row", "word", "kind", "place", "line", "share", "curve", "piece", "phase", "number", "roof",
    "trial", "from", "x low", "x high", "y low", "y high",
)  # fmt: skip
# Titles and names of facts that the source has as keys, or in loops.
_TITLES = (
    "predictions metrics done usual platform processor cores vendor compute driver runtime bus document table "
    "folder written reports weights gradients activations inputs temporaries workspace reserved loader transfer "
    "communication hours electricity launch memory unknown class counted image sequence sample text bottleneck "
    "allocated exposed overlap weak strong governor disk turbo throttling"
)
# Figures as `compare` calls them.
_COMPARED = (
    "latency per batch p50", "latency per batch p95", "latency per batch p99", "latency per item", "dataset time",
    "time to first token p50", "time per output token p50", "time to first prediction", "first step time",
    "model load time", "peak reserved", "peak allocated", "peak rss", "kv cache", "average power",
    "cost per million items",
)  # fmt: skip
# Texts that the source puts together of pieces which say nothing, or something else, by themselves.
_JOINED = (
    "Train accuracy", "Val accuracy",
    "by {0}", "{0} bounds {1}", "{0} bounds {1} of {2} cases", "{0} slower", "{0} faster",
    "torch kind", "compute capability", "native precisions", "left out", "try {0}", "then {0}", "or with {0}",
    "or {0}", "run {0}", "{0} heap", "fixed heap", "huge heap", "default heap", "compute {0}", "driver {0}",
    "runtime {0}", "based on {0}", "measured {0}", "With {0}", "All with {0}", "host {0}", "in use {0}",
    "memory at most {0}", "mean temperature {0}", "mean power {0}", "held-out accuracy {0}", "held-out loss {0}",
    "{0}/s with {1}", "{0} % with {1}", "{0} fits (an|a) {1}: its peak is {2}",
    "{0} may fit, with little to spare, (an|a) {1}: its peak is {2}", "{0} does not fit (an|a) {1}: its peak is {2}",
    "flash ran", "math ran", "efficient ran", "cudnn ran", "a step takes {0}", "Highest throughput: {0} at {1}",
    "less than the usual {0}", "within the usual {0}", "better in {0}", "worse in {0}", "unclear in {0}",
    "same in {0}",
    "{0} is {1} times as fast as {2}{3}",
    "{0} is as fast, within the noise, as {1}{2}", "{0} {1} is labelled the best {2}, but {3} has {4}",
    "1 benchmark is slower by more than {0}: {1}", "{0} benchmarks are slower by more than {1}: most of all {2}",
    "1 benchmark is faster: {0}", "{0} benchmarks are faster: most of all {1}", "{0} time [{1}, {2}]",
    "No slowdown above {0} is proven", "No change above {0}", "No slowdown above {0}",
    "measured here", "NUMA node", "cores beside it", "products", "to device",
    "head", "{0} unchanged", "{0} undecided", "records", "results", "claims",
    "{0} slower, {1} faster, {2} unchanged, {3} undecided",
    "written by torchstone {0}, verified by {1}", "case {0}", "claimed {0}", "base {0} (merge base)",
    "Training and inference of {0}", "Training of {0}", "Inference of {0}", "Generation of {0}", "Data loading of {0}",
    "Training and inference", "Inference and training of {0}", "Inference and training",
    "title “{0}”", "heading “{0}”", "table cell “{0}”", "table heading “{0}”", "caption “{0}”", "summary “{0}”",
    "command “{0}”", "button “{0}”", "text “{0}”",
)  # fmt: skip
_TYPED = re.compile(r"`[^`]*`|--[\w-]+(?:[= ][\w.:%]+)?|\S*[_=/\\<>]\S*|\b\w+\.\w+\b|\btorchstone \w+( \w+)?\b")
_WORD = re.compile(r"[A-Za-z]{2,}")
_WRITTEN = datetime(2026, 11, 23, tzinfo=UTC)  # the same again from the same texts
_NOT_SHOWN = {  # compared with, or handed on; and pieces, for which _JOINED has the whole
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "DataLoader worker", "auto", "custom", "default", "gh200 480gb", "mib", "number",
    "random", "reduce-overhead", "resident", "steady", "off", "on", "interrupted", "cpu", "token",
    "tune", "value", "word", "less", "more", "less than", "more than", "within", "{0} is {1} {2}{3}",
    "{0} {1} {2}: its peak is {3}", "(an|a) {0}", "{0} {1}s/s, {2} a step", "{0} {1}s/s, a step takes {2}",
    "Highest throughput: {0} {1}s/s at {2}", "{0}s/s per GB", "{0} the usual {1}", "piece", "gib", "row", "share",
    "at", "torchstone", "drift", "{0}/{1}.jsonl", "{0}/{1}.json", "run{0}", "{0}.jsonl",
    "{0} of {1}{2}",
}  # fmt: skip
# Words that are the same in every language: units, names, and what is looked for by its name.
_KEPT = (
    "TTFT TPOT INVALID SUSPECT VALID Train Val torch vs pid NaN OOM ms GB MB KB GiB MiB KiB TiB GHz MHz kHz Hz FLOP ln "
    "min kJ mJ"
)


def msgids() -> dict[str, str]:
    """Return every msgid, with where the source writes it."""
    found = dict.fromkeys((*BESIDE, *_COLUMNS), "renderers and units")
    for path in sources():
        for text, line in texts_of(path.read_text(encoding="utf-8")):
            for msgid in _msgid(text):
                found.setdefault(msgid, f"{path.relative_to(ROOT)}:{line}")
    for path in sorted(path for pattern in RENDERERS for path in ROOT.glob(pattern)):
        for text in _said(path):
            found.setdefault(bare(text)[1], f"{path.relative_to(ROOT)}:1")
    found |= {text: "core/messages.py" for text in _of_findings() if any(_msgid(text))}
    return {**found, **{msgid: "tables of metrics and axes" for text in _of_tables() for msgid in _msgid(text)}}


def _said(path: Path) -> list[str]:
    if path.suffix == ".py":
        return [text for text, _ in said_of(path.read_text(encoding="utf-8"))]
    if path.suffix in (".js", ".html"):
        return [text for text in SAID.findall(path.read_text(encoding="utf-8")) if text not in _NOT_SHOWN]
    return []


def sources() -> list[Path]:
    """Return the files that are read."""
    return sorted({path for pattern in SOURCES for path in ROOT.glob(pattern)})


def _of_tables() -> Iterator[str]:
    for metric in FIGURES.values():
        yield from (metric.title, metric.meaning)
    yield from (group.heading for group in MetricGroup)
    yield from (name.replace("_", " ") for name in AXES)
    yield from (
        str(word).replace("_", " ")
        for words in (Judgement, Severity, Fitness, Fits, CauseKind, Status, Change)
        for word in words
    )
    yield from (*_TITLES.split(), *_COMPARED, *_JOINED)
    conditions = (ROOT / "workflows" / "machine_check" / "conditions.py").read_text(encoding="utf-8")
    yield from re.findall(r'_(?:condition|graded|unreported)\("([^"]+)"', conditions)


def _of_findings() -> Iterator[str]:
    for words in (*MESSAGES.values(), FAILED):
        yield from (words.message, words.advice)
    yield from (*REMEDIES.values(), *DISTURBED.values(), *NOT_COMPARED.values(), *OUTCOMES.values(), *OWN_DATA.values())


def _msgid(text: str) -> Iterator[str]:
    kept = _KEPT.split()
    core = bare(text)[1]
    fixed = _TYPED.sub(" ", re.sub(r"\{[^}]*\}", " ", core))
    if core not in _NOT_SHOWN and any(word not in kept for word in _WORD.findall(fixed)):
        yield core


def update(language: str, given: Mapping[str, str] | None = None) -> list[str]:
    """Write the catalogue of a language and its compiled form; return the msgids that have no translation yet.

    Translations are those of the catalogue, of entries that it once needed (kept as obsolete), and `given`.
    """
    from babel.messages.catalog import Catalog, Message
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import write_po

    folder = LOCALE / language / "LC_MESSAGES"
    there = read(language)
    known = {str(message.id): str(message.string) for message in (*there.obsolete.values(), *there)}
    known |= dict(given or {})
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
