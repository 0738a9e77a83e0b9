import itertools

import pytest

from torchstone.config.source import read_file
from torchstone.core.errors import UsageError

TWINS = {
    "yaml": 'name: x\nworkloads:\n  - task: infer\n    axes: {rate: 1e-5, "b": [1, 2]}\n',
    "json": '{"name": "x",\n "workloads": [\n  {"task": "infer",\n   "axes": {"rate": 1e-5, "b": [1, 2]}}]}',
    "toml": 'name = "x"\n\n[[workloads]]\ntask = "infer"\n[workloads.axes]\nrate = 1e-5\nb = [1, 2]\n',
}

BILLION = "".join(f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in itertools.pairwise("abcdefghij"))


def given(tmp_path, suffix, text):
    path = tmp_path / f"f.{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fault(path) -> str:
    with pytest.raises(UsageError) as found:
        read_file(path)
    assert "\n" not in str(found.value)
    assert str(path) in str(found.value)
    return str(found.value).replace(str(path), "f")


@pytest.mark.parametrize("suffix", TWINS)
def test_three_formats_give_the_same_data(tmp_path, suffix):
    source = read_file(given(tmp_path, suffix, TWINS[suffix]))
    assert source.data == {"name": "x", "workloads": [{"task": "infer", "axes": {"rate": 1e-5, "b": [1, 2]}}]}
    assert isinstance(source.data["workloads"][0]["axes"]["rate"], float)


def test_positions_are_those_of_the_keys(tmp_path):
    paths = (("name",), ("workloads", 0, "task"), ("workloads", 0, "axes", "rate"), ("workloads", 0, "axes", "b"))
    want = {
        "yaml": ["1:1", "3:5", "4:12", "4:24"],
        "json": ["1:2", "3:4", "4:13", "4:27"],
        "toml": ["1:1", "4:1", "6:1", "7:1"],
    }
    for suffix, places in want.items():
        source = read_file(given(tmp_path, suffix, TWINS[suffix]))
        assert [source.at(path).removeprefix(source.name + ":") for path in paths] == places
    assert read_file(given(tmp_path, "yaml", TWINS["yaml"])).at(("workloads", 0, "axes", "b", 1)).endswith(":4:33")
    assert read_file(given(tmp_path, "json", TWINS["json"])).at(("workloads", 0, "axes", "b", 1)).endswith(":4:36")


@pytest.mark.parametrize(
    ("suffix", "text", "want"),
    [
        ("yaml", "a: 1\nb:\n  c: 1\n  c: 2\n", "f:4:3: b.c: duplicate key"),
        ("json", '{"a": 1,\n "b": {"c": 1,\n  "c": 2}}', "f:3:3: b.c: duplicate key"),
        ("toml", "a = 1\nc = 1\nc = 2\n", "f:3:6: c: duplicate key"),
        ("toml", "[a]\nb=1\n[a]\n", "f:3:3: a: duplicate key"),
    ],
)
def test_a_key_that_is_there_twice(tmp_path, suffix, text, want):
    assert fault(given(tmp_path, suffix, text)) == want


@pytest.mark.parametrize(
    ("suffix", "text", "want"),
    [
        ("yaml", "a: [1\nb: 2", "f:2:2: not YAML"),
        ("yaml", "a: 1\n\tb: 2", "f:2:1: not YAML"),
        ("yaml", "a: !!python/object/apply:os.system [id]", "not YAML: could not determine a constructor"),
        ("yaml", "a: 1\n---\nb: 1", "not YAML"),
        ("yaml", "a: \0", "not YAML"),
        ("yaml", "a: &x [*x]", "too many values or too deep"),
        ("yaml", "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + BILLION, "too many values"),
        ("yaml", "[" * 5000, "nested too deeply"),
        ("yaml", "- 1", "f:1:1: a run file must be a mapping"),
        ("yaml", "", "a run file must be a mapping"),
        ("yaml", "? [1]\n: 2", "a key must be a word"),
        ("yaml", "1: 2", "not a word: put it in quotes"),
        ("yaml", "a: !!binary aGk=", "a: a bytes is not a plain value"),
        ("yaml", "a: 2020-13-45", "not YAML"),
        ("yaml", b"a: 1\nb: \xff", "f:2:1: not UTF-8 text (byte 0xff)"),
        ("json", '{"a": 1,\n "b" 2}', "f:2:6: not JSON: Expecting ':' delimiter"),
        ("json", '{"a": NaN}', "not JSON: NaN"),
        ("json", '{"a":' * 50_000, "nested too deeply"),
        ("json", "", "f:1:1: not JSON"),
        ("toml", "a =\n", "f:1:4: not TOML: Invalid value"),
        ("toml", "a = 'x", "f:1:1: not TOML"),
        ("txt", "a: 1", "unknown kind of file '.txt'"),
        ("yaml", b"a" * (2**20 + 1), "too large for a run file"),
    ],
)  # fmt: skip
def test_what_is_not_sound_is_one_line_with_its_place(tmp_path, suffix, text, want):
    path = given(tmp_path, suffix, text)
    if suffix == "txt":
        with pytest.raises(UsageError, match="unknown kind of file"):
            read_file(path)
        return
    assert want in fault(path)


def test_files_that_are_not_there(tmp_path):
    assert "no such file" in fault(tmp_path / "none.yaml")
    (tmp_path / "folder.yaml").mkdir()
    assert "is not a file" in fault(tmp_path / "folder.yaml")


def test_words_stay_words(tmp_path):
    data = read_file(given(tmp_path, "yaml", "a: off\nb: 12:30\nc: 2020-01-01\nd: ~\ne: yes\n")).data
    assert data == {"a": "off", "b": "12:30", "c": "2020-01-01", "d": None, "e": "yes"}


def test_places_inside_of_one_line_are_their_own(tmp_path):
    source = read_file(given(tmp_path, "toml", "a = 1\naxes = { batch_size = [8, 16], b.c = 2 }\nd.e = 3\n"))
    places = {path: source.at(path).removeprefix(source.name + ":") for path in (
        ("axes",), ("axes", "batch_size"), ("axes", "batch_size", 1), ("axes", "b", "c"), ("d",), ("d", "e"),
    )}  # fmt: skip
    assert list(places.values()) == ["2:1", "2:10", "2:27", "2:32", "3:1", "3:1"]


def test_what_comes_by_an_alias_is_told_where_it_is_used(tmp_path):
    source = read_file(given(tmp_path, "yaml", "a: &a {x: 1}\nb: *a\n"))
    assert source.data["b"] == {"x": 1}
    assert source.at(("b", "x")).endswith(":2:1")


@pytest.mark.parametrize(("suffix", "text"), [("yaml", "a: " + "[" * 60 + "]" * 60), ("json", "[" * 60 + "]" * 60)])
def test_deeper_than_any_configuration(tmp_path, suffix, text):
    assert "nested too deeply" in fault(given(tmp_path, suffix, text))


def test_an_anchor_that_is_there_twice_cannot_hold_itself(tmp_path):
    assert "too many values or too deep" in fault(given(tmp_path, "yaml", "a: &x 1\nb: &x [*x]\n"))
