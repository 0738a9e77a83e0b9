"""The settings that no axis decided, and why they are so: once each, where Cases differ once a way they were set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchstone.analysis.summary import CaseSummary, RunSummary
from torchstone.core.messages import filled
from torchstone.core.schema.facts import Facts as Known
from torchstone.core.schema.facts import SettingFact
from torchstone.execution.worker.auto_settings import DEVICE
from torchstone.report.document import Facts, Section

_POLICY = {DEVICE: "tuned for the device; --settings torch leaves them to PyTorch"}
# Why a setting is so (core/schema/facts.py: SettingFact).
_WHY = {
    "requested": "as requested",
    "default": "PyTorch's default",
    "same": "PyTorch's default, {why}",
    "fewer": "{why}; PyTorch's default is {default}",
    "device": "{why}",
    "refused": "{why}",
    "no_convolutions": "the model has no convolutions",
    "contiguous": "fully_shard takes contiguous weights only",
    "own_optimizer": "the model returns its own optimizer",
    "fused_kernels": "torch has fused optimizer kernels for this device",
    "order": "PyTorch's order among {kernels}",
}
# How a precision is carried out (plugins/tasks/_settings.py).
_IN_EFFECT = {
    "autocast": "autocast; weights, and what the optimizer keeps, stay as the model has them, usually fp32",
    "tf32_off": "TF32 is off in products and in cuDNN's convolutions (torch's default has it on in the latter)",
    "tf32_on": "products and cuDNN's convolutions take fp32 numbers as TF32",
}
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
    facts = next((t.facts for t in case.trials if t.facts.settings), Known())
    told = {name: _text(setting) for name, setting in facts.settings.items()}
    ran = next((t.facts.attention_kernel for t in case.trials if t.facts.attention_kernel is not None), None)
    if ran is not None and "sdpa" in told:
        told["sdpa"] += f"; {ran} ran"
    return told


def _text(setting: SettingFact) -> str:
    return f"{setting.value}: {filled(_WHY.get(setting.reason, setting.reason), setting.values)}"


def _precisions(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield how precisions are carried out, and what the devices take natively: what `precision=auto` chooses from."""
    told = [
        f"{case.configuration.get('precision')}: {_IN_EFFECT.get(how, how)}"
        for case in run.cases
        for t in case.trials
        if (how := t.facts.precision_in_effect) is not None
    ]
    yield from (("precision", text) for text in dict.fromkeys(told))
    for place in dict.fromkeys(case.placement for case in run.cases):
        device = run.machine.device(place.device, place.index)
        there = [c.configuration for c in run.cases if c.placement == place and "precision" in c.configuration]
        used = dict.fromkeys(str(configuration["precision"]) for configuration in there)
        if device is not None and device.precisions and used:
            yield "precision", f"{', '.join(used)}; native on {device.name}: {', '.join(device.precisions)}"
