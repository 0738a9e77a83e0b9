"""What was set on the device's account, and why: one line a setting, where Cases differ one a way it was set."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.cli._table import plain, terminal_width
from torchstone.execution.worker.auto_settings import DEVICE, SETTING

_POLICY = {DEVICE: "as the device likes them; --settings torch leaves them to torch"}
_TORCHS = "as torch has them; --settings device sets what the device is faster with"


def print_settings(run: RunSummary, width: int | None = None) -> None:
    """Print the settings that no axis decided, where the record tells them; older ones do not."""
    lines = list(_lines(run))
    if not lines:
        return
    width = width or terminal_width()
    widest = max(len(name) for name, _ in lines)
    print(f"\nsettings: {_POLICY.get(run.procedure.settings or '', _TORCHS)}")
    for name, text in lines:
        print(textwrap.fill(plain(f"  {name:<{widest}}  {text}"), width, subsequent_indent=" " * (widest + 4)))


def _lines(run: RunSummary) -> Iterator[tuple[str, str]]:
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
