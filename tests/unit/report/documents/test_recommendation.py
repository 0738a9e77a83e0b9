"""A recommendation as a Document: answers first, marks and doubts beside the values, the rest folded, and as files."""

import json

import pytest
from build import a_finding
from priced import prices_of
from stored import a_stored_run, case, machine, store

from torchstone.analysis.recommend.recommend import RecommendRequest, recommend
from torchstone.core.errors import UsageError
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import Column, CommandLine, Document, Role, Section, Table, Text
from torchstone.report.documents.recommendation import recommendation_document
from torchstone.report.renderers.terminal import terminal
from torchstone.report.results import Result, save_result

SIZES = (8, 16, 32)
WHAT = "settings by speed for train hf:bert on Intel Xeon, data synthetic"


def sweep(rates, kind="cpu", sizes=SIZES, **about):
    return [(case(kind, batch_size=size, **about), rate) for size, rate in zip(sizes, rates, strict=True)]


@pytest.fixture
def document(outputs):
    """Store these runs; return what is recommended as a Document."""

    def call(*runs, **asked) -> Document:
        store(outputs, runs)
        return recommendation_document(recommend(outputs, RecommendRequest(**asked)))

    return call


def tables(told):
    return [part for part in told.parts if isinstance(part, Table)]


def column(table, title) -> Column:
    (found,) = [one for one in table.columns if one.title == title]
    return found


def test_settings_with_their_lead_the_answer_first(document):
    told = document(a_stored_run(1, sweep((100, 150, 200)), machine()))
    answers = [part.text for part in told.parts if isinstance(part, Text) and part.role == Role.HEADLINE]
    assert answers[0].startswith("No recommendation of hardware by speed for embedding, training: one device alone ran")
    assert answers[1].startswith(f"Recommended {WHAT}: batch_size 32, precision fp32; ")
    assert told.headline == answers[0]
    (table,) = tables(told)
    assert column(table, "batch size").cells == ("32", "16", "8")
    marked = [cell.endswith("*") for cell in column(table, "images/s").cells]
    assert marked == [True, False, False]
    assert not any(one.title == "verdict" for one in table.columns)


def test_settings_that_are_not_significantly_different_are_marked(document):
    told = document(a_stored_run(1, sweep((100, 199, 200)), machine(), noise=0.02))
    (table,) = tables(told)
    rates = dict(zip(column(table, "batch size").cells, column(table, "images/s").cells, strict=True))
    assert {size: cell.lstrip("0123456789.,") for size, cell in rates.items()} == {"16": "*", "32": "=", "8": ""}
    choice = "batch_size 16, precision fp32 (*), not significantly different from the other one (=)."
    assert f"Recommended {WHAT}: {choice}" in terminal(told, 300)


def test_what_is_suspect_is_said_beside_its_figures(document):
    cases = sweep((100, 150, 200))
    doubts = [a_finding("neighbours", Severity.WARNING, "busy", "wait", one.case_id) for one, _ in cases]
    (table,) = tables(document(a_stored_run(1, cases, machine(), findings=doubts)))
    assert column(table, "verdict").cells == ("SUSPECT",) * 3


def test_one_setting_alone_has_its_table_and_what_to_type(document):
    told = document(a_stored_run(1, sweep((100,), sizes=(8,)), machine()))
    assert f"No recommendation of {WHAT}: one setting alone was measured.\n" in terminal(told, 300)
    assert tables(told)
    assert any(isinstance(part, CommandLine) and part.words.startswith("torchstone run") for part in told.parts)


def test_trials_that_differ_too_much_say_what_to_type_instead_of_a_recommendation(document):
    text = terminal(document(a_stored_run(1, sweep((100, 150, 200)), machine(), noise=0.6)), 300)
    assert f"No recommendation of {WHAT}: " in text
    assert "3 trials differ too much for an interval (wider than ±50 %): --trials 10" in text


def test_hardware_by_price_has_the_prices_and_speed_has_none(document):
    runs = (
        a_stored_run(1, sweep((100, 150, 200)), machine(host="desk")),
        a_stored_run(2, sweep((1000, 2000, 3000), "cuda"), machine("cuda", host="gpubox")),
    )
    hardware = tables(document(*runs, by="price", prices=prices_of("EUR", {"H200": 4.0, "Xeon": 0.1})))[0]
    assert set(column(hardware, "price an hour").cells) == {"0.1", "4"}
    assert column(hardware, "device").cells[0] == "Intel Xeon"
    told = document(*runs)
    assert "price an hour" not in [one.title for one in tables(told)[0].columns]
    assert told.headline is not None
    assert told.headline.startswith("Recommended hardware by speed for embedding, training: NVIDIA H200, ")


def test_what_is_long_is_folded_and_what_to_type_for_it_said(document):
    sizes = tuple(2**place for place in range(8))
    runs = [
        a_stored_run(n, sweep([100.0 + size for size in sizes], sizes=sizes, model=f"hf:m{n}"), machine())
        for n in range(5)
    ]
    told = document(*runs)
    text, whole = terminal(told, 160), terminal(told, 160, every=True)
    assert "everything else: --full, or --model and --task to choose\n" in text
    assert text.count("and 2 more: --full\n") == 1, "one table"
    assert text.count("Recommended settings") == 4
    assert "--full" not in whole
    (rest,) = [part for part in told.parts if isinstance(part, Section)]
    assert len([part for part in rest.parts if isinstance(part, Section)]) == 5


def test_an_empty_store_says_what_to_type(document):
    told = document()
    assert told.parts == (
        Text("not enough stored: nothing is stored. Measure:", Role.HEADLINE), CommandLine("torchstone run demo"),
    )  # fmt: skip
    assert terminal(told, 80) == "not enough stored: nothing is stored. Measure:\n  torchstone run demo\n"


def test_as_files_for_programs_and_for_people(outputs):
    store(outputs, [a_stored_run(1, sweep((100, 150, 200), model="py:a|b`c.py:load"), machine())])
    told = recommend(outputs, RecommendRequest())
    data, page = save_result(Result("recommendation", told), outputs)
    assert (data, page) == (outputs / "analysis" / "recommendation.json", outputs / "analysis" / "recommendation.md")
    assert json.loads(data.read_bytes())["value"]["by"] == "speed"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Recommended, by speed\n\n**No recommendation of hardware by speed for ")
    assert "\n| batch size | precision | images/s |" in text
    assert "py:a\\|b\\`c.py:load" in text, "a name in a record is nothing but text"


def test_files_that_cannot_be_written_are_a_mistake_of_one_line(outputs):
    store(outputs, [a_stored_run(1, sweep((100, 150, 200)), machine())])
    (outputs / "analysis").write_text("a file")
    with pytest.raises(UsageError, match="cannot write into "):
        save_result(Result("recommendation", recommend(outputs, RecommendRequest())), outputs)
