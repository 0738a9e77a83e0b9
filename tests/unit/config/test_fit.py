"""The part `fit:` of a run file."""

import pytest

from torchstone.config.fit import read_fit
from torchstone.config.source import Source
from torchstone.core.errors import UsageError
from torchstone.core.schema.fit import Fit


def read(**given):
    return read_fit(Source("run.yaml", {"fit": given}, {}))


def test_every_word_is_read():
    asked = read(
        epochs=3, data="digits", schedule="cosine", warmup_share="5%", early_stop=2, validation=0.2, augment=False,
        keep="best",
    )  # fmt: skip
    assert (asked.epochs, asked.data) == (3, "digits")
    assert asked.fit == Fit("cosine", 0.05, 2, 0.2, None, augment=False, keep="best")
    assert read(warmup_share=0).fit.warmup_share == 0.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"epoch": 3}, "Did you mean 'epochs'"), ({"epochs": 0}, "from 1 up"), ({"epochs": True}, "from 1 up"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"), ({"validation": 1.5}, "not between 0 and 1"),
        ({"augment": "yes"}, "not true or false"), ({"data": "digts"}, "Did you mean 'digits'"),
        ({"folder": "x"}, "unknown key"), ({"resume": True}, "unknown key"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(given, says):
    with pytest.raises(UsageError, match=r"^run.yaml:1:1: fit.*") as caught:
        read(**given)
    assert says in str(caught.value)


def test_a_fit_is_a_mapping():
    with pytest.raises(UsageError, match="must be a mapping"):
        read_fit(Source("run.yaml", {"fit": [1]}, {}))
