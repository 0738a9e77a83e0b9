"""The settings that no axis decided, and why they are so: once each, where Cases differ once a way they were set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.execution.worker.auto_settings import DEVICE, SETTING
from torchstone.report.document import Facts, Section

_POLICY = {DEVICE: "tuned for the device; --settings torch leaves them to PyTorch"}
_TORCHS = "PyTorch's own; --settings device tunes them for the device"


def setting_parts(run: RunSummary) -> Iterator[Section]:
    """Yield a section with them, where the record tells them; one of another tool does not."""
    if rows := tuple(_rows(run)):
        yield Section(f"settings: {_POLICY.get(run.procedure.settings or '', _TORCHS)}", (Facts(rows),))


def _rows(run: RunSummary) -> Iterator[tuple[str, str]]:
    told = [found for case in run.cases if (found := _told(case))]
    for name in dict.fromkeys(name for found in told for name in found):
        ways = Counter(found[name] for found in told if name in found)
        for text, cases in ways.items():
            yield name, text if len(ways) == 1 else f"{text} ({cases} of {len(told)} cases)"
    if told:
        yield from _precisions(run)


def _told(case: CaseSummary) -> dict[str, str]:
    """Return setting → "value: why" of the first trial that tells it: all of a Case are set alike."""
    facts = next((t.facts for t in case.trials if any(name.startswith(SETTING) for name in t.facts)), {})
    told = {name.removeprefix(SETTING): str(text) for name, text in facts.items() if name.startswith(SETTING)}
    ran = next((t.facts["attention_kernel"] for t in case.trials if "attention_kernel" in t.facts), None)
    if ran is not None and "sdpa" in told:
        told["sdpa"] += f"; {ran} ran"
    return told


def _precisions(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield how precisions are carried out, and what the devices take natively: what `precision=auto` chooses from."""
    facts = [t.facts for case in run.cases for t in case.trials if "precision_in_effect" in t.facts]
    yield from (("precision", text) for text in dict.fromkeys(str(told["precision_in_effect"]) for told in facts))
    for place in dict.fromkeys(case.placement for case in run.cases):
        device = run.machine.device(place.device, place.index)
        there = [c.configuration for c in run.cases if c.placement == place and "precision" in c.configuration]
        used = dict.fromkeys(str(configuration["precision"]) for configuration in there)
        if device is not None and device.precisions and used:
            yield "precision", f"{', '.join(used)}; native on {device.name}: {', '.join(device.precisions)}"
