import tarfile

from run_sheet import copying


def filled(folder):
    (folder / "steps" / "A0" / "outputs").mkdir(parents=True)
    (folder / "steps" / "A0" / "log.txt").write_text("log")
    (folder / "steps" / "A0" / "outputs" / "record.jsonl").write_text("{}")
    (folder / "steps" / "A0" / "state.pt").write_bytes(bytes(copying.MOST_BYTES + 1))
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "thing.py").touch()
    (folder / "sheet.json").write_text("{}")
    return folder


def test_three_files_hold_what_was_measured(tmp_path):
    folder, into = filled(tmp_path / "results"), tmp_path / "copy"
    into.mkdir()
    (folder / "sheet.md").write_text("# table")
    copying.tables(folder, into)
    copying.steps(folder, into)
    assert {path.name for path in into.iterdir()} == {"sheet.json", "sheet.md", "steps.tar.gz"}
    assert (into / "sheet.md").read_text() == "# table"


def test_a_trainings_state_and_unpacked_wheels_stay_behind(tmp_path):
    folder = filled(tmp_path)
    copying.steps(folder, tmp_path)
    with tarfile.open(tmp_path / "steps.tar.gz") as archive:
        assert set(archive.getnames()) == {"steps/A0/log.txt", "steps/A0/outputs/record.jsonl"}


def test_a_table_that_is_not_there_yet_is_none(tmp_path):
    into = tmp_path / "copy"
    into.mkdir()
    copying.tables(filled(tmp_path / "results"), into)
    assert [path.name for path in into.iterdir()] == ["sheet.json"]
