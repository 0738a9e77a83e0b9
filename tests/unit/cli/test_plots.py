"""`--plots DIR`: every picture of a Document as files, told where the answer cannot be mistaken for them."""

import sys

import pytest
from results import a_diagnosis

from torchstone.cli._reports import check_writable, require_drawing, write_and_list_plots, write_file
from torchstone.core.errors import MissingError, UsageError
from torchstone.report.document import Document
from torchstone.report.documents.diagnosis import diagnosis_document


def test_the_remedies_of_a_diagnosis_are_a_picture_and_stdout_has_the_answer_alone(capsys, tmp_path):
    pytest.importorskip("vl_convert")
    write_and_list_plots(diagnosis_document(a_diagnosis()), tmp_path / "plots")
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"remedies.svg", "remedies.png"}
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [str(tmp_path / "plots" / f"remedies.{suffix}") for suffix in ("svg", "png")]


def test_nothing_to_draw_is_told(capsys, tmp_path):
    write_and_list_plots(Document("empty", ()), tmp_path / "plots")
    assert "nothing to draw" in capsys.readouterr().err
    assert not (tmp_path / "plots").exists()


def test_what_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match=r"cannot write into .*taken"):
        write_file(tmp_path / "taken" / "x.svg", b"", tmp_path / "taken")


def test_a_folder_that_cannot_be_is_refused_before_anything_is_drawn(tmp_path):
    (tmp_path / "taken").write_text("")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(UsageError, match=r"taken is a file$"):
            check_writable(folder)
    check_writable(tmp_path / "not" / "there" / "yet")
    assert not (tmp_path / "not").exists()


def test_a_library_that_is_missing_is_told_before_anything_is_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingError, match=r"torchstone\[charts\]"):
        require_drawing()
