"""The shipped typeface has the characters that we write, is measured as its tables say, and lies with its licence."""

import pytest
from translatable import read

from torchstone.core.charts.hangul_font import HANGUL_BOLD, HANGUL_REGULAR
from torchstone.report.renderers._typeface import BOLD, FOLDER, REGULAR, read_typeface, shortened, typeface

OURS = "±×÷–—…µ²³→≤≥≈°·σΔ√∞“”‘’éüñçøß\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("file", [REGULAR, BOLD])
def test_it_has_the_signs_that_reports_have(file):
    assert not typeface(file).lacks(OURS)
    assert all(character in typeface(file).widths for character in map(chr, range(0x20, 0x7F)))


@pytest.mark.parametrize("file", [REGULAR, BOLD])
def test_it_has_every_character_of_the_korean_catalogue(file):
    written = {character for message in read("ko") for character in str(message.string)}
    assert len(written) > 400
    assert [one for one in sorted(written - set("\u2068\u2069\n")) if typeface(file).lacks(one)] == []


def test_korean_syllables_are_as_wide_as_their_own_font_says():
    assert typeface().width("가나다", 10.0) == pytest.approx(27.6)  # hmtx: 920 of 1,000 each
    own = read_typeface(HANGUL_REGULAR.read_bytes())
    assert 0.0 < own.width("i", 1.0) < own.width("m", 1.0) < 1.0
    assert "힣" in own.widths
    assert "模" not in own.widths


def test_widths_are_those_of_its_tables():
    regular = typeface()
    assert regular.width("i", 10.0) < regular.width("m", 10.0) < 10.0
    assert regular.width("00", 8.0) == pytest.approx(2 * 8.0 * 1172 / 2048, rel=0.02)  # DejaVu's figures, 9/10 as wide
    assert regular.width("", 8.0) == 0.0
    assert typeface(BOLD).width("throughput", 8.0) > regular.width("throughput", 8.0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cnn ±2 %", "cnn ±2 %"),
        ("模型", "\\u6a21\\u578b"),
        ("a🔥", "a\\U0001f525"),
        ("שלום", "\\u05e9\\u05dc\\u05d5\\u05dd"),
        ("a\x1b\u202eb", "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"),
    ],
)
def test_what_it_lacks_is_written_as_its_code(text, shown):
    assert typeface().shown(text) == shown


def test_a_long_text_ends_with_an_ellipsis():
    assert typeface().shown("x" * 10_000, 5) == "xxxx…"
    assert shortened("four", 4) == "four"
    assert shortened("four", None) == "four"


def test_a_font_without_a_map_of_all_planes_is_refused():
    content = bytearray((FOLDER / REGULAR).read_bytes())
    cmap = content.index(b"cmap", 12)
    start = int.from_bytes(content[cmap + 8 : cmap + 12], "big")
    content[start + 2 : start + 4] = b"\0\0"  # no map at all
    with pytest.raises(ValueError, match="character map"):
        read_typeface(bytes(content))


def test_the_licence_lies_beside_the_files():
    told = (FOLDER / "LICENSE").read_text()
    assert "Bitstream Vera" in told
    assert "Tavmjong Bah" in told
    assert {path.name for path in FOLDER.iterdir()} == {REGULAR, BOLD, "LICENSE"}
    assert "SIL OPEN FONT LICENSE" in (HANGUL_REGULAR.parent / "LICENSE").read_text()
    assert {*HANGUL_REGULAR.parent.iterdir()} == {HANGUL_REGULAR, HANGUL_BOLD, HANGUL_REGULAR.with_name("LICENSE")}
