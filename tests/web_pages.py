"""Documents with what only a page can show (pictures, ratios, files), and a reader of pages that checks their form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import NamedTuple

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.schema.comparison import judge
from torchstone.report.charts.forest_plot import Ratio, ratios_chart
from torchstone.report.document import Attachment, Chart, Column, Document, Role, Section, Table, Text

VOID = frozenset(("meta", "br", "input", "link", "hr", "img"))
CELLS, GROUPS = ("td", "th"), ("thead", "tbody")
# What an element, or the end of one, ends that is open (https://html.spec.whatwg.org/#optional-tags).
ENDED = {
    **dict.fromkeys(CELLS, CELLS), "tr": (*CELLS, "tr"), **dict.fromkeys(GROUPS, (*CELLS, "tr", *GROUPS)),
    "/table": (*CELLS, "tr", *GROUPS),
}  # fmt: skip
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
MARGIN = 0.02


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────


def a_ratio(case: str, low: float | None, high: float | None, figure: str = "step time") -> Ratio:
    """Return a ratio in the middle of its interval, judged by torchstone's rule."""
    verdict, middle = "not_comparable", None
    if low is not None and high is not None:
        verdict, middle = str(judge(low, high, MARGIN, higher_is_better=False)), (low * high) ** 0.5
    return Ratio(case, figure, middle, low, high, verdict)


def pictured() -> Document:
    """Return a page of pictures of every kind of mark, on one device and on several."""
    sizes = tuple(str(2**n) for n in range(7))
    batch = vl.steps("batch", "batch size", sizes)
    rate = [
        {"batch": size, "y": 900.0 * (n + 1) ** 1.4 * by, "low": 850.0 * (n + 1) ** 1.4 * by,
         "high": 950.0 * (n + 1) ** 1.4 * by, "line": device}
        for device, by in (("NVIDIA H200", 4.0), ("Intel Xeon <b>", 1.0)) for n, size in enumerate(sizes[:-1])
    ]  # fmt: skip
    devices = vl.colours("line", ("NVIDIA H200", "Intel Xeon <b>"), ())
    y = vl.number_axis("y", "images/s")
    out_of_memory = vl.failures([{"batch": "64", "word": "out of memory"}])
    rates = vl.panel("train cnn", batch, y, (*out_of_memory, vl.line(), vl.interval_bar()), rate, devices)
    spent = [
        {"batch": size, "phase": phase, "ms": 1.5 * n + place, "place": place}
        for n, size in enumerate(sizes[:-1]) for place, phase in enumerate(("data", "forward", "backward"))
    ]  # fmt: skip
    phases = vl.phase_colours(("data", "forward", "backward"))
    shares = vl.panel("time of a step", batch, vl.number_axis("ms", "ms a step"), (vl.bars(),), spent, phases)
    steps = [{"x": n, "y": 30.0 + 20.0 / (n + 1) + n % 3, "line": "trial 1"} for n in range(400)]
    long, ms = vl.number_axis("x", "step"), vl.number_axis("y", "ms")
    warm = vl.level_lines("from", "to", [{"from": 0, "to": 40, "y": 31.0}])
    samples = vl.panel("samples in the order of time", long, ms, (vl.line(), warm), steps, width=640)
    names = ("cat", "dog", "a class with a long name")
    told = [
        {"is": names[a], "taken for": names[b], "items": 10 * (a == b) + 1, "share": 0.8 if a == b else 0.1}
        for a in range(3) for b in range(3)
    ]  # fmt: skip
    matrix = vl.cells("share", "of the row", "items")
    classes = vl.panel("", vl.name_axis("taken for", "taken for", names), vl.row_axis("is", "is", names), matrix, told)
    points = [{"memory": 2.0**n, "rate": 100.0 * n + 50.0, "line": "front"} for n in range(8)]
    memory, images = vl.number_axis("memory", "memory, GiB"), vl.number_axis("rate", "images/s")
    front = vl.panel("", memory, images, (vl.dots(),), points)
    many = [
        {"batch": size, "y": 100.0 * (n + 1) + 9.0 * device, "line": f"machine {device}"}
        for device in range(12) for n, size in enumerate(sizes)
    ]  # fmt: skip
    lines = vl.colours("line", [f"machine {n}" for n in range(12)], ())
    machines = vl.panel("twelve machines", batch, y, (vl.line(),), many, lines)
    return Document("pictures <of> every kind", (
        Text("Fastest: batch size 32, 44,000 images/s (95 % confidence interval 42,000 to 46,000).", Role.HEADLINE),
        Section("THROUGHPUT", (Chart("throughput", "images/s rise with the batch size on both devices",
                                     Picture("Throughput by batch size", (rates, machines))),)),
        Section("TIME", (Chart("time", "most of the time is in forward", Picture("", (shares, samples))),)),
        Section("QUALITY", (Chart("confusion", "most are right", Picture("accuracy 80 %", (classes,))),)),
        Section("PARETO", (Chart("pareto", "more memory, more images/s", Picture("Pareto front", (front,))),)),
        Section("NOTHING", (Chart("empty", "there is nothing", Picture("", ())),)),
    ))  # fmt: skip


def compared() -> Document:
    """Return a comparison of 16 cases with its forest plot, its table and a file."""
    ends = [(1.032, 1.05), (0.90, 0.93), (0.985, 1.03), (0.3, 2.8), (None, None), (1.2, 9.0)]
    ends += [(0.99 + n / 4000, 1.005 + n / 4000) for n in range(10)]
    rows = tuple(a_ratio(f"train hf:bert, batch_size {2**n}", low, high) for n, (low, high) in enumerate(ends))
    table = Table((
        Column("case", tuple(row.case if n % 2 == 0 else "" for n, row in enumerate(rows)), left=True),
        Column("memory", tuple(f"{900 + 30 * n} {'MiB' if n % 3 else 'GiB'}" for n in range(len(rows))), 2),
        Column("ratio", tuple("–" if row.ratio is None else f"{row.ratio:.3g}{'*' * (row.case[-1] == '2')}"
                              for row in rows)),
        Column("±", tuple("±1.5 %" for _ in rows), 3, of=2),
        Column("verdict", tuple(row.verdict.replace("_", " ") for row in rows), left=True),
    ))  # fmt: skip
    return Document("new against old", (
        Text("2 slower, 1 faster, 10 unchanged, 2 undecided of 15 comparable cases.", Role.HEADLINE),
        *ratios_chart(rows, MARGIN, 0.95), Section("FIGURES", (table,)),
    ), (Attachment("record.jsonl", "application/jsonl", b'{"a": 1}\n' * 400),))  # fmt: skip


# ── a reader of pages ───────────────────────────────────────────────────────────────────────────────────────


class Script(NamedTuple):
    """A script element: its type, "" where it has none, and its text."""

    type: str
    text: str


class Page(HTMLParser):
    """Reads a page, and raises ValueError for tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.scripts: list[Script] = []
        self.styles: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.told: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        self.close()
        if self._open:
            raise ValueError(f"never closed: {self._open}")

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._end(ENDED.get(tag, ()))
        about = {name: value or "" for name, value in attrs}
        if len(about) != len(attrs):
            raise ValueError(f"an attribute twice: {tag} {attrs}")
        self.attributes += [(tag, name, value) for name, value in about.items()]
        if "data-v" in about:
            values, names = about["data-v"].split("; "), self._open[-1][1].get("data-k")
            pairs = zip(names.split("; "), values, strict=True) if names is not None else ()
            self.told.append("; ".join(map(": ".join, pairs)) or about["data-v"])
        self.ids += [value for name, value in about.items() if name == "id"]
        if tag in HEADINGS:
            self.headings.append((int(tag[1]), ""))
        if tag == "script":
            self.scripts.append(Script(about.get("type", ""), ""))
        if tag == "style":
            self.styles.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append((tag, about))

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self._end(ENDED.get(f"/{tag}", ()))
        opened, _ = self._open.pop()
        if opened != tag:
            raise ValueError(f"<{opened}> is closed by </{tag}>")

    def _end(self, ended: Sequence[str]) -> None:
        while self._open and self._open[-1][0] in ended:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        if "script" in tags:
            self.scripts[-1] = self.scripts[-1]._replace(text=self.scripts[-1].text + data)
            return
        if "style" in tags:
            self.styles[-1] += data
            return
        self.words.append(data)
        if any(tag in HEADINGS for tag in tags):
            level, text = self.headings[-1]
            self.headings[-1] = level, text + data
        if "td" in tags or "th" in tags:
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        """All that is read, in one line."""
        return " ".join(" ".join(self.words).split())

    def of(self, name: str) -> Iterator[str]:
        """Yield the values of an attribute."""
        return (value for _, each, value in self.attributes if each == name)
