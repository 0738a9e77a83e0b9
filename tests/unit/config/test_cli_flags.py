"""What must be typed because the data would decide it otherwise."""

import pytest
from build import a_case

from torchstone.config.cli_flags import of_data
from torchstone.core.schema.case import Placement


@pytest.mark.parametrize(
    ("data", "settings", "device", "named"),
    [
        ("synthetic", {"feed": "resident"}, "cpu", ()),
        ("digits", {"feed": "resident"}, "cpu", ("feed",)),
        ("example", {"feed": "resident"}, "cpu", ("batch_size", "feed")),
        ("example", {"feed": "loader", "num_workers": 0}, "cpu", ("batch_size", "num_workers")),
        (
            "example", {"feed": "loader", "num_workers": 2}, "cuda",
            ("batch_size", "num_workers", "prefetch_factor", "pin_memory"),
        ),
    ],
)  # fmt: skip
def test_what_the_data_would_decide_is_named(data, settings, device, named):
    assert of_data(a_case(settings, data=data, placement=Placement(device))) == named
