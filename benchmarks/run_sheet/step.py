"""A step of the sheet, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from run_sheet.expecting import Expectation

GPUS = ("cuda", "rocm", "xpu")  # with memory of their own, whose work runs behind the host's
H200 = "H200"
MINUTES = "takes minutes"
METAL = "torch.compile for Metal is under construction"


@dataclass(frozen=True)
class Step:
    """What is done, how long it may take, where it makes sense, what it proves, and what is expected of its figures.

    `id` begins with the letter of its part. `do`: "module:function", imported in the step's own process and called with
    a Here. `usual_s`: what it takes on a fast device; `limit_s`: then it is ended. `absent`: kind of device → why the
    step makes no sense there. `not_quick`: why `--quick` leaves it out; None: it does not.
    """

    id: str
    what: str
    usual_s: float
    limit_s: float
    proves: str
    do: str
    expects: tuple[Expectation, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    not_quick: str | None = None

    def most_s(self, device: str) -> float:
        """Return the seconds after which it is ended: on a CPU, which others use too and which is no lease, thrice."""
        return 3.0 * self.limit_s if device == "cpu" else self.limit_s

    @property
    def part(self) -> str:
        """The part of the sheet it belongs to: A, B, C or D."""
        return self.id[0]

    def objection(self, device: str, *, quick: bool) -> str | None:
        """Say why the step is left out on a device, or None: it is taken."""
        return self.absent.get(device) or (self.not_quick if quick else None)
