"""What people usually aim at: rules of thumb, told beside what was measured; no choice is made by them."""

from __future__ import annotations

DATA_S = 0.030  # of waiting for data in a step: more is much
UTILIZATION = (0.70, 0.95)  # of the time a device is in use
MEMORY = (0.60, 0.80)  # of a device's memory at the peak


def band(limits: tuple[float, float]) -> str:
    """Return "60 to 80 %"."""
    low, high = limits
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def place_in(limits: tuple[float, float], share: float) -> str:
    """Return where a share lies: "less than the usual 60 to 80 %", "within …", "more than …"."""
    low, high = limits
    word = "less than" if share < low else "more than" if share > high else "within"
    return f"{word} the usual {band(limits)}"


def idle_words(utilization: float | None) -> str | None:
    """Return that a device is in use less than is usual; None where it is not, or where its use is not known."""
    low, _ = UTILIZATION
    if utilization is None or utilization >= low:
        return None
    return f"the device is in use {100 * utilization:.0f} % of the time, less than the usual {100 * low:.0f} %"
