"""A Document in Korean: every kind of part, and what is left alone in it."""

import pytest
from marks import names_of, rows, title_of

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import UsageError
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers.md import markdown
from torchstone.report.renderers.terminal import terminal
from torchstone.report.translation.documents import in_spoken_language, translated
from torchstone.report.translation.language import current_language, in_language, localized


def one(part: Part) -> Part:
    """The part in Korean."""
    return translated(Document("check", (part,)), "ko").parts[0]


def test_english_is_the_document_itself():
    document = Document("check", (Text("nothing is stored"),))
    assert translated(document, "en") is document


def test_an_unchecked_language_is_refused():
    with pytest.raises(UsageError, match="unknown language 'xx'"):
        translated(Document("check", ()), "xx")


def test_texts_titles_and_what_to_type():
    assert one(Text("nothing is stored", Role.HEADLINE)) == Text("저장된 것이 없음", Role.HEADLINE)
    assert one(CommandLine("torchstone run throughput")) == CommandLine("torchstone run throughput")
    section = Section("each run", (Text("each run"),), folded=True, how="--full, or name a case or a model")
    assert one(section) == Section(
        "모든 실행", (Text("모든 실행"),), folded=True, how="--full, 또는 케이스나 모델 지정"
    )
    doubt = Doubt(Severity.WARNING, "drift: run", "it runs out of memory", "measure longer")
    assert one(doubt) == Doubt(Severity.WARNING, "drift: 실행", "메모리 부족", "더 길게 측정하세요")


def test_facts_and_cells_that_are_names_stay():
    assert one(Fields((("name", "training"), ("gain", "training")))) == Fields((("이름", "training"), ("이득", "학습")))
    table = Table(
        (Column("run", ("training",)), Column("verdict", ("training",)), Column("x", ("training",), shorten=True))
    )
    assert one(table) == Table(
        (Column("실행", ("training",)), Column("판정", ("학습",)), Column("x", ("training",), shorten=True))
    )


def test_a_picture_has_its_titles_and_the_names_of_its_legend():
    batch, y = vl.steps("batch", "batch size", ("8",)), vl.number_axis("value", "loss")
    values = ({"batch": "8", "value": 1.0, "counted": "left out", "other": "left out"},)
    lost = [{"batch": "8", "word": "out of memory"}]
    marks = (*vl.failures(lost), vl.line(), *vl.dividers([{"batch": "8", "word": "2×: torch 1 → 2"}]))
    shades = vl.colours("counted", ("counted", "left out"), ())
    panel = vl.panel("throughput", batch, y, marks, values, shades, group="run")
    chart = one(Chart("loss", "Trainings", Picture("Trainings", (panel,), "nothing is stored")))
    assert isinstance(chart, Chart)
    assert (chart.name, chart.says, chart.picture.title, chart.picture.subtitle) == (
        "loss",
        "학습",
        "학습",
        "저장된 것이 없음",
    )
    drawn = chart.picture.panels[0]
    assert (drawn.title, title_of(drawn, "x"), drawn.group) == ("처리량", "배치 크기", "실행")
    assert names_of(drawn) == ("포함", "제외")
    assert drawn.values == [{"batch": "8", "value": 1.0, "counted": "제외", "other": "left out"}]
    assert rows(drawn, "failure") == [{"batch": "8", "word": "메모리 부족"}]


def test_renderers_say_their_own_words_in_the_document_s_language():
    rows = Table((Column("gain", ("1",) * 9), Column("x", ("1" * 60,) * 9, rank=1)), most=2)
    parts = (Text("nothing is stored", Role.NOTE), Doubt(Severity.ERROR, "run", "no", "measure longer"), rows)
    shown = terminal(translated(Document("check", parts), "ko"), 40)
    assert "참고: 저장된 것이 없음" in shown
    assert "오류 실행: 아니요; 더 길게 측정하세요" in shown
    assert "외 7개: --full" in shown
    assert "더 넓은 터미널" in shown
    page = markdown(translated(Document("check", parts), "ko"))
    assert "참고: 저장된 것이 없음" in page
    assert "**오류** 실행" in page
    assert current_language() == "en"


def test_the_spoken_language_ends_with_its_block():
    with in_language("ko"):
        assert localized("warning") == "경고"
        assert in_spoken_language(Document("check", ())) == Document("검사", (), language="ko")
    assert localized("warning") == "warning"
    with pytest.raises(UsageError, match="Known: en, ko"), in_language("xx"):
        pass
