"""A precision setting without effect: its results equal those of fp32 to the last digit."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.figures import raw
from torchstone.core.schema.case import Task
from torchstone.core.schema.estimate import Finding, Severity
from torchstone.core.schema.run import Run
from torchstone.plugins.checks._cases import sound
from torchstone.plugins.protocols import Check

_WIDE, _NARROW = "fp32", ("bf16", "fp16")


class SettingWithoutEffect:
    """Fires where Cases that differ in precision alone, fp32 and a half format, have fingerprints equal to the bit.

    bf16 keeps 8 bits of a product's factors and fp16 11: results agree to a few digits, and never to all.
    """

    describes = "a precision setting without effect"

    def look(self, run: Run) -> Iterator[Finding]:
        """Yield a warning for each Case in a half format that computed exactly what fp32 did."""
        wide: dict[tuple[object, ...], tuple[float, ...]] = {}
        key: tuple[object, ...]
        narrow: list[tuple[tuple[object, ...], str, tuple[float, ...], str]] = []
        for case_id, case, trials in sound(run):
            if case.workload.task == Task.GENERATE:
                continue  # its fingerprint is of tokens, and the likeliest token is often the same in every format
            precision, print_ = str(case.configuration.get("precision")), raw(trials[0], "fingerprint")
            rest = tuple(sorted((k, str(v)) for k, v in case.configuration.items() if k != "precision"))
            key = (str(case.workload.canonical()), str(case.placement), rest)
            if precision == _WIDE:
                wide[key] = print_
            elif precision in _NARROW:
                narrow.append((key, precision, print_, case_id))
        for key, precision, print_, case_id in narrow:
            if len(set(print_)) > 1 and wide.get(key) == print_:
                message = f"{precision} gave exactly the results of fp32: it was not in effect"
                advice = "check that autocast covers the forward pass and that the device supports the format"
                yield Finding("setting_without_effect", Severity.WARNING, message, advice, case_id)


PLUGIN: Check = SettingWithoutEffect()
