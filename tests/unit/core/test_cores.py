"""Logical cores as text: the kernel's own form, there and back."""

import pytest

from torchstone.core.cores import affinity_word, cores_of, cores_text
from torchstone.core.errors import UsageError


@pytest.mark.parametrize(("text", "cores"), [("0", (0,)), ("0-3,8", (0, 1, 2, 3, 8)), ("5,4,5", (4, 5))])
def test_there_and_back(text, cores):
    assert cores_of(text) == cores
    assert cores_of(cores_text(cores)) == cores


def test_text_is_short():
    assert cores_text([8, 0, 1, 2, 1]) == "0-2,8"
    assert cores_text([]) == ""


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "99999999", "0,,1", "0-70000"])
def test_what_is_no_list(text):
    with pytest.raises(UsageError):
        cores_of(text)


def test_words_for_the_cores_of_a_trial():
    assert [affinity_word(word) for word in ("device", "node:1", "0, 1,2", 3)] == ["device", "node:1", "0-2", "3"]
    for word in ("gpu", "node:", "node:x", True):
        with pytest.raises(UsageError, match="node:N"):
            affinity_word(word)
