"""Results that are no runs: what `--save` keeps of each kind is what the command found, and is shown as it said."""

import json

import pytest
from kinds import VALUES
from over import over

from torchstone.cli import main
from torchstone.core.errors import UsageError
from torchstone.core.schema.codec import encode
from torchstone.report.rendering import formats, rendered_files, renderer
from torchstone.report.results import KINDS, Result, is_result, read_result, save_result

each = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def saved(kind, tmp_path):
    result = Result(kind, VALUES[kind]())
    data, page = save_result(result, tmp_path)
    assert page.read_text(encoding="utf-8").startswith("# ")
    return result, data


@each
def test_what_is_kept_is_what_was_found(saved):
    result, data = saved
    again, document = read_result(data)
    assert again == result
    assert document == result.document()
    assert document.headline


@each
def test_show_and_report_say_what_the_command_said(saved, capfd, tmp_path):
    result, data = saved
    assert main(["show", str(data), "--json"]) == 0
    assert capfd.readouterr().out.encode() == encode(result.json()) + b"\n"
    assert main(["show", str(data)]) == 0
    headline = " ".join((result.document().headline or "").split())
    assert headline in " ".join(capfd.readouterr().out.split())
    assert main(["report", str(data), "--format", "md,json", "--output", str(tmp_path / "there")]) == 0
    parts = json.loads((tmp_path / "there" / f"{result.kind}.json").read_bytes())["parts"]
    assert next(part for part in parts if part.get("role") == "headline")["text"] == result.document().headline


@each
@over("name", [name for name in formats() if name not in ("pdf", "pptx", "png")])
def test_every_format_can_write_it(saved, name):
    files = rendered_files(renderer(name), saved[0].document(), "result")
    assert all(files.values())


def test_what_is_no_result_is_said_in_one_line(tmp_path, capfd):
    data, _ = save_result(Result("memory", VALUES["memory"]()), tmp_path)
    held = json.loads(data.read_bytes())
    for name, broken, says in (
        ("kind", {**held, "kind": "horoscope"}, "unknown kind of result"),
        ("schema", {**held, "schema": 99}, "of schema 99"),
        ("value", {**held, "value": {"rows": 3}}, "does not match the schema"),
    ):
        path = tmp_path / f"{name}.json"
        path.write_bytes(json.dumps(broken, separators=(",", ":")).encode())
        assert is_result(str(path))
        with pytest.raises(UsageError, match=says):
            read_result(path)
        assert main(["show", str(path)]) == 2
        assert "\n" not in capfd.readouterr().err.strip()
    assert not is_result("latest")
    assert main(["show", str(data), "--plot"]) == 2
