import platform
import sys
import zipfile

import pytest
from run_sheet import wheels

MINOR = sys.version_info[1]
MACHINE = platform.machine()
ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="tags of Linux wheels")


def wheel(folder, file, content="value = 1\n"):
    path = folder / file
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{file.partition('-')[0]}/__init__.py", content)
    return path


@ONLY_LINUX
@pytest.mark.parametrize(
    ("tags", "good"),
    [
        ("py3-none-any", True), ("py2.py3-none-any", True), (f"cp3{MINOR}-cp3{MINOR}-manylinux_2_17_{MACHINE}", True),
        (f"cp3{MINOR}-cp3{MINOR}-manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}", True),
        (f"cp38-abi3-manylinux_2_28_{MACHINE}", True), (f"cp3{MINOR + 1}-abi3-manylinux_2_28_{MACHINE}", False),
        (f"cp3{MINOR + 1}-cp3{MINOR + 1}-manylinux_2_17_{MACHINE}", False), ("py2-none-any", False),
        (f"cp3{MINOR}-cp3{MINOR}-manylinux_2_17_riscv64", False), (f"cp3{MINOR}-cp3{MINOR}-win_amd64", False),
        (f"cp38-cp38-manylinux_2_17_{MACHINE}", False), (f"cp3{MINOR}-cp3{MINOR}t-manylinux_2_17_{MACHINE}", False),
    ],
)  # fmt: skip
def test_a_wheel_fits_by_its_tags(tags, good):
    assert wheels.fits(f"thing-1.0-{tags}.whl") is good


def test_only_what_is_lacking_is_unpacked(tmp_path):
    wheel(tmp_path, "never_heard_of_it-1.0-py3-none-any.whl", "value = 42\n")
    wheel(tmp_path, "pytest-1.0-py3-none-any.whl")
    assert wheels.unpack(tmp_path, tmp_path / "into") == ["never-heard-of-it"]
    assert (tmp_path / "into" / "never_heard_of_it" / "__init__.py").read_text() == "value = 42\n"
    assert not (tmp_path / "into" / "pytest").exists()


def test_of_several_wheels_of_a_name_the_one_that_fits_is_taken(tmp_path):
    wheel(tmp_path, "nowhere-1.0-cp27-cp27m-win_amd64.whl", "value = 'wrong'\n")
    wheel(tmp_path, "nowhere-1.0-py3-none-any.whl", "value = 'right'\n")
    wheels.unpack(tmp_path, tmp_path / "into")
    assert "right" in (tmp_path / "into" / "nowhere" / "__init__.py").read_text()


def test_what_is_lacking_and_there_for_others_only_is_an_error(tmp_path):
    wheel(tmp_path, "nowhere-1.0-cp27-cp27m-win_amd64.whl")
    with pytest.raises(wheels.Unreadable, match="nowhere is not installed"):
        wheels.unpack(tmp_path, tmp_path / "into")


def test_a_wheel_that_is_no_archive_is_an_error(tmp_path):
    (tmp_path / "nowhere-1.0-py3-none-any.whl").write_text("no archive")
    with pytest.raises(wheels.Unreadable, match="cannot be unpacked"):
        wheels.unpack(tmp_path, tmp_path / "into")


@pytest.mark.parametrize("name", ["ruamel-yaml", "ruamel.yaml", "msgspec"])
def test_a_name_is_found_however_its_file_spells_it(name):
    assert wheels.is_installed(name)
