"""What to choose among measured Cases, where they do not all have the same axes."""

from torchstone.analysis.advice.choices import Chosen
from torchstone.core.schema.answer import Choice
from torchstone.report.documents.case_table import chosen_parts


def test_of_a_front_with_and_without_a_loader_the_one_without_has_no_workers():
    """As in a tune that was cut: probes of the device alone have no loader."""
    with_loader = Choice("a", {"batch_size": 32, "num_workers": 2}, 3, 3000.0, 2e9)
    without = Choice("b", {"batch_size": 16}, 3, 2000.0, 1e9)
    for top in (with_loader, without):
        parts = chosen_parts(Chosen(top, None, top, (without, with_loader)), "train", "image")
        (front,) = (part.text for part in parts if part.text.startswith("Pareto front"))
        assert front.startswith("Pareto front, batch_size/num_workers: 16/–: 2,000 in 954 MiB; 32/2: 3,000 in ")
