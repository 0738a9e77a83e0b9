"""Price tables for tests, as a user would keep them: every value has a date and a source."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.config.prices import HourlyPrice, PerKilowattHour, Prices

DATE, SOURCE = "2026-11-01", "our own bill"
ELECTRICITY = PerKilowattHour(0.30, "EUR", DATE, "the contract of 2026")
CARBON = PerKilowattHour(400.0, "g", "2025-12-31", "the grid's mean of 2025")


def prices_of(currency: str, per_hour: Mapping[str, float], provider: str = "") -> Prices:
    """A table with these prices of an hour, by device."""
    return Prices(currency, tuple(HourlyPrice(name, price, DATE, SOURCE, provider) for name, price in per_hour.items()))
