"""Three walks of a value through the code, found in the source (walks.py), grow no longer."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

_SPEC = spec_from_file_location("walks", Path(__file__).with_name("walks.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
walks = module_from_spec(_SPEC)
_SPEC.loader.exec_module(walks)

MOST = {  # files, representations, files around it; asked of the first two: 20 files, of the second 6 representations
    "batch_size → training step": (20, 8, 40),
    "measurement → compare → HTML": (20, 9, 72),
    "finding → terminal": (20, 6, 50),
}


@pytest.fixture(scope="module")
def code():
    return walks.Code(walks.HERE)


@pytest.mark.parametrize("title", walks.WALKS)
def test_a_walk_grows_no_longer(title, code):
    roots, ends = walks.WALKS[title]
    found = code.walk(roots, ends)
    files, held, around = MOST[title]
    assert len(found.files) <= files, found.files
    assert len(found.held) <= held, found.held
    assert len({one.module for one in code.around(found, roots)}) <= around


def test_a_walk_goes_over_calls_up_and_then_down(tmp_path):
    """`one` makes a Value, `two` calls it and hands it to `three`, and `aside` calls `helped`, too."""
    for name, text in {
        "value": "from typing import NamedTuple\nclass Value(NamedTuple):\n    number: int\n",
        "one": "from torchstone.value import Value\ndef make() -> Value:\n    return Value(1)\n",
        "two": "from torchstone.one import make\nfrom torchstone.three import Shown\n"
        "def work() -> str:\n    shown = Shown()\n    return shown.draw(make())\n",
        "three": "from torchstone.value import Value\nclass Shown:\n    def draw(self, value: Value) -> str:\n"
        "        return helped(value)\ndef helped(value: Value) -> str:\n    return ''\n",
        "aside": "from torchstone.three import helped\ndef aside() -> str:\n    return helped(None)\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    code = walks.Code(tmp_path)
    found = code.walk(("Value",), ("one:make", "three:helped"))
    assert [one.name for one in found.functions] == ["make", "work", "Shown.draw", "helped"]
    assert [one.name for one in found.held] == ["Value"]
    assert found.files == ("one", "two", "three", "value")
    with pytest.raises(LookupError):
        code.walk(("Value",), ("one:make", "aside:aside"))
