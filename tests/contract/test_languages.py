"""What every catalogue owes: an entry for each text of the source, and Documents without a word of English."""

import gettext
import re
from collections import Counter
from collections.abc import Iterator

from over import over
from translatable import msgids, read
from zoo import ZOO

from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.metric import FIGURES
from torchstone.core.units import plain
from torchstone.plugins import registry
from torchstone.report.document import CommandLine, Document, Fields, Part, Section, Table
from torchstone.report.renderers._table import cell_width
from torchstone.report.renderers.html import RENDERER as HTML
from torchstone.report.renderers.terminal import terminal
from torchstone.report.translation.catalogue import DOMAIN, LOCALE, languages, numbered
from torchstone.report.translation.documents import translated
from torchstone.report.translation.translator import translation
from torchstone.report.verification import page_text

OTHERS = languages()[1:]
each_language = over("language", OTHERS)
PLACE = re.compile(r"\{\d+\}")
# Particles whose form depends on the last sound before them, right behind a place or a code.
PARTICLE = re.compile(r"(\{\d+\}|`)(은|는|이|가|을|를|과|와|으로|로)(?=[\s,.;:()]|$)")


@each_language
def test_every_text_of_the_source_has_an_entry_and_no_other_has(language):
    entries = {message.id: message for message in read(language) if message.id}
    wanted = msgids()
    assert len(wanted) > 800
    assert sorted(wanted.keys() - entries.keys()) == [], "python tests/translatable.py prints them"
    assert sorted(entries.keys() - wanted.keys()) == [], "nothing writes these any more"
    assert [m for m in entries.values() if m.fuzzy or not str(m.string).strip()] == []


@each_language
def test_a_translation_has_the_places_of_its_text(language):
    for message in read(language):
        text, translated_text = numbered(str(message.id), str(message.string))
        assert sorted(set(PLACE.findall(translated_text))) == sorted(set(PLACE.findall(text))), message.id


@each_language
def test_every_template_is_found_again(language):
    other = {}
    for message in read(language):
        text, wanted = numbered(str(message.id), str(message.string))
        text = re.sub(r"\((s|es)\)", r"\1", text)
        if text and "}{" not in text and "|" not in text and text not in AMBIGUOUS:
            for number in range(10):
                text, wanted = (one.replace(f"{{{number}}}", str(11 + number)) for one in (text, wanted))
            if translation(text, language) != wanted:
                other[text] = translation(text, language)
    assert other == {}


def test_no_korean_particle_depends_on_what_is_in_a_place():
    assert [m.string for m in read("ko") if PARTICLE.search(str(m.string))] == []


@each_language
def test_the_compiled_catalogue_is_that_of_the_text(language):
    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    entries = [message for message in read(language) if message.id]
    assert [m.id for m in entries if compiled.gettext(str(m.id)) != m.string] == [], "python tests/translatable.py"
    assert len(vars(compiled)["_catalog"]) == len(entries) + 1


# How often, and how many times as much; a label before a fact.
AMBIGUOUS = ("{0} × {1} is not {2}", "{0} times", "{0}: {1} in {2}", "{0}: {1} of {2}", "{0} faster: {1}")
# What stays as it is: verdicts, units, names of libraries, formats, devices and settings, words of a command.
KEPT = (
    "VALID SUSPECT INVALID OOM NaN UTC CPU GPU CUDA RSS KV TTFT TPOT MFU FLOP GB GiB MiB KiB TiB MB kB GHz MHz "
    "kHz ms ns min max mean items tokens samples images sequences vs ok steal triad dense swap Holm Benjamini "
    "Hochberg Welch Student AMP SSD torch Torch PyTorch Python torchstone DataLoader Dataset AdamW adamw sgd adam "
    "fused attention cuDNN oneDNN sdpa flash math cuBLAS hipBLAS glibc jemalloc tcmalloc false true auto off on "
    "fork spawn inline fixed huge mmap loader resident synthetic cpu cuda mps train infer generate load tune run "
    "precision compile optimizer feed mode print item fp bf tf json jsonl md mlp cnn net bert hf Intel Xeon "
    "NVIDIA nvidia SXM Tensor Core RTX embedding vision custom per pid prints "
    "Bonferroni Dvoretzky Kiefer Wolfowitz CITATION cff "
    "PostgreSQL psql EUR kWh UUID mJ kJ GFLOP TFLOP MFLOP PFLOP AMD Instinct Platinum EPYC nvml True False Train Val "
    "ddp nccl strategy backend py spy"
)
# What the zoo brings: names that strangers gave, and texts that are none of ours.
GIVEN = (
    "test desk card old new good broken mine digits trained blue red outputs host small network processor "
    "datasheet library again recorded open system ana"
)
STRANGE = re.compile(
    r"it fell over|it took (?:all|\d+ GiB of 80)|the step became \d+ % slower|others kept 1\.5 cores busy|stop them|"
    r"lost again|\d+ s lost|a longer|\d+ steps in a window|torch would take 8|the device is busy from batch_size 32 on|"
    r"a processor|as it is|this is Linux|torn|first of all|the sparse rates: dense is half|"
    r"a small network|a card|time\.sleep|only \d of \d pairs|no commit in common|there is no such file|"
    r"it is right now|throughput over batch size|"
    r"print\(loss\.item\(\)\)|py-spy|\bpython\b|"
    r"model(?= net\.py)|ZeroDivisionError: division by zero|Slower because: …|"
    r"our own bill|the contract of 2026|the grid's mean of 2025|reports as pdf: PDF needs typst"
)
TYPED = re.compile(
    r"`[^`]*`|--[\w-]+(?:[= ][\w.:,%-]+)?|\b[\w.-]*[_=/\\:@#<>\d][\w.:/=,-]*|\btorchstone(?: \w+)+|\w+\(\)?|https?:\S+"
)
SIDE = re.compile("[A-D][A-Z]|[a-d][a-z]")  # the label of a side, from the 27th on
NAMES = {*KEPT.split(), *GIVEN.split(), *registry.names("checks"), *FIGURES}


def texts_of(value: object) -> Iterator[str]:
    """Every text that a reader sees, but commands, file names and what to type."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from texts_of(one)
    elif not isinstance(value, CommandLine | Picture) and hasattr(value, "__struct_fields__"):
        for name in value.__struct_fields__:
            if name not in ("verdict", "role", "name", "suffix", "severity", "language", "finding"):
                yield from texts_of(getattr(value, name))


# Those of hostile names are full of words that are none of ours; what plug-ins say of themselves (list) is English.
OTHERS_WORDS = re.compile("hostile|wide|long names|broken one|none|^list")
OURS = [(name, make) for name, make in ZOO if not OTHERS_WORDS.search(name)]


@over("make", OURS)
def test_no_english_word_is_left_in_korean(make):
    assert english(texts_of(translated(make(), "ko"))) == {}


def english(texts: Iterator[str]) -> dict[str, list[str]]:
    found = {
        text: [
            w
            for w in re.findall(r"[A-Za-z]{2,}", TYPED.sub(" ", STRANGE.sub(" ", text)))
            if w not in NAMES and not SIDE.fullmatch(w)
        ]
        for text in texts
    }
    return {text: words for text, words in found.items() if words}


PAGES = ("run: a sweep", "history", "diagnosis", "evaluation", "compare", "pictures: a training sweep", "ci: slower")


@over("name", PAGES)
def test_no_english_word_is_left_in_a_korean_page(name):
    page = HTML.render(translated(dict(ZOO)[name](), "ko"))
    assert page.startswith(b'<!doctype html>\n<html lang="ko">')
    drawn = re.findall(r"<text[^>]*>([^<]+)<", page.decode())
    assert english(iter((*(one.text for one in page_text(page)), *drawn))) == {}


each = over("make", ZOO)


def parts_of(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Section):
            yield from parts_of(part.parts)


def copied(document: Document) -> Iterator[str]:
    """What a terminal has to leave whole (test_documents.py)."""
    for part in parts_of(document.parts):
        if isinstance(part, CommandLine):
            yield part.words
        elif isinstance(part, Section | Table):
            yield part.how
        elif isinstance(part, Fields):
            yield from (value for _, value in part.rows if len(plain(value).split()) == 1)


@each
@each_language
@over("width", [40, 80])
def test_no_line_is_wider_than_the_terminal(make, language, width):
    document = translated(make(), language)
    whole = {plain(text).strip() for text in copied(document)}
    wide = [line for line in terminal(document, width, every=True).splitlines() if cell_width(line) > width]
    assert [line for line in wide if line.strip() not in whole and line.split()[-1] not in whole] == []


@each
@each_language
def test_numbers_and_commands_are_those_of_the_english_document(make, language):
    english = make()
    document = translated(english, language)
    assert document.language == language
    commands = [[p.words for p in parts_of(d.parts) if isinstance(p, CommandLine)] for d in (english, document)]
    assert commands[0] == commands[1]
    numbers = [Counter(re.findall(r"\d+(?:[.,]\d+)*", " ".join(texts_of(d.parts)))) for d in (english, document)]
    assert numbers[0] - numbers[1] == Counter()
