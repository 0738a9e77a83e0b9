"""--lang: from the flag, the environment, or English; an unknown one is a line that names those that there are."""

import json

import pytest

from torchstone.cli import main


def printed(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("words", [("recommend",), ("history",), ("runs",)])
def test_a_flag_chooses_the_language(words, tmp_path, capsys):
    folder = ("--output-dir", str(tmp_path))
    korean = " ".join(printed(capsys, *words, *folder, "--lang", "ko")[1].split())  # lines break where the path ends
    assert "저장된 것이 없음" in korean or "실행 없음" in korean
    assert not any("가" <= c <= "힣" for c in printed(capsys, *words, *folder)[1])


def test_the_environment_chooses_it_and_a_flag_overrules(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_LANG", "ko")
    folder = ("--output-dir", str(tmp_path))
    assert "저장된 것이 없음" in printed(capsys, "history", *folder)[1]
    assert "nothing is stored" in printed(capsys, "history", *folder, "--lang", "en")[1]


@pytest.mark.parametrize(
    "words", [("runs", "--lang", "kr"), ("machine", "check", "--lang", "kr"), ("machine", "--lang", "kr")]
)
def test_an_unchecked_language_is_one_line(words, capsys):
    code, out, err = printed(capsys, *words)
    assert (code, out) == (2, "")
    assert err == "torchstone: unknown language 'kr'. Did you mean 'ko'? Known: en, ko\n"


def test_json_is_never_translated(tmp_path, capsys):
    folder = ("--output-dir", str(tmp_path))
    english, korean = (printed(capsys, "history", "--json", *folder, "--lang", one)[1] for one in ("en", "ko"))
    assert english == korean
    assert json.loads(korean)
