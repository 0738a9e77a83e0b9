"""The Pareto front, as a line of the blocks says it."""

from torchstone.advice.choices import Chosen
from torchstone.cli._blocks import block_lines
from torchstone.terms.answer import Choice


def test_of_a_front_with_and_without_a_loader_the_one_without_has_no_workers():
    """As in a tune that was cut: probes of the device alone have no loader."""
    with_loader = Choice("a", {"batch_size": 32, "num_workers": 2}, 3, 3000.0, 2e9)
    without = Choice("b", {"batch_size": 16}, 3, 2000.0, 1e9)
    for top in (with_loader, without):
        lines = block_lines(Chosen(top, None, top, (without, with_loader)), "train", "image")
        (front,) = (line for line in lines if line.startswith("Pareto front"))
        assert "16/–: 2,000 in 954 MiB; 32/2: 3,000 in " in front
