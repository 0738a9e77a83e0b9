"""A plug-in of pytest: a test fails when a function became slower or larger, by the rules of `compare` and `ab`.

    def test_step(torchstone):
        torchstone(step, torch.ones(8, 16))     # step: a function at a file's top

    pytest                                      calls it once
    pytest --torchstone-save speed              measures it, and keeps that as the baseline
    pytest --torchstone-compare speed           measures it, and compares
    pytest --torchstone-compare main            compares two revisions live, interleaved

The test fails where the difference is significant and more than the margin. Where nothing can be said it passes, and
the summary says so.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torchstone.config.run_file import RunRequest
    from torchstone.core.schema.comparison import Comparison

_PROPERTY = "torchstone"
_WITHIN = {"run": "25s", "ab": "60s"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("torchstone")
    group.addoption("--torchstone-save", metavar="DIR", help="measure, and keep the runs there as the baseline")
    group.addoption("--torchstone-compare", metavar="BASE", help="compare with a folder of saved runs, or a revision")
    group.addoption("--torchstone-margin", metavar="P", default="2%", help="a difference that matters (default 2%%)")
    group.addoption("--torchstone-within", metavar="T", help="most time of a test (default 25s; of a revision 60s)")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse options that contradict each other, before any test runs."""
    from torchstone.core.errors import UsageError
    from torchstone.core.units import duration_s, share

    if config.getoption("torchstone_save") and config.getoption("torchstone_compare"):
        raise pytest.UsageError("--torchstone-save or --torchstone-compare, not both")
    try:
        share(config.getoption("torchstone_margin"), "--torchstone-margin")
        duration_s(config.getoption("torchstone_within") or "1s", "--torchstone-within")
    except UsageError as fault:
        raise pytest.UsageError(str(fault)) from None


@pytest.fixture
def torchstone(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Checked:
    """Return what measures a function: `torchstone(function, *arguments, device="auto", **axes)`."""
    return Checked(request, lambda line: record_property(_PROPERTY, line))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each function that was measured, in whichever process."""
    lines = list(_lines(terminalreporter))
    if lines:
        terminalreporter.section("torchstone")
        for line in lines:
            terminalreporter.write_line(line)


def _lines(terminalreporter: Any) -> Iterator[str]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                yield from (f"{report.nodeid}: {line}" for name, line in report.user_properties if name == _PROPERTY)


class Checked:
    """What the fixture gives."""

    def __init__(self, request: pytest.FixtureRequest, tell: Callable[[str], None]) -> None:
        config = request.config
        self._save, self._base = config.getoption("torchstone_save"), config.getoption("torchstone_compare")
        self._margin, self._within = config.getoption("torchstone_margin"), config.getoption("torchstone_within")
        self._own = Path(str(request.getfixturevalue("tmp_path")))
        self._name, self._tell = re.sub(r"[^\w.-]+", "-", request.node.nodeid), tell

    def __call__(self, function: Callable[..., Any], *arguments: Any, device: str = "auto", **axes: Any) -> None:
        """Call it once; with an option measure it in fresh processes, and fail the test where it became worse.

        Raises UsageError where fresh processes cannot import it, or be sent its arguments.
        """
        if not self._save and not self._base:
            function(*arguments)
            return
        folder = Path(self._save).absolute() if self._save else self._own
        request = self._request(function, arguments, device, axes, folder)
        if self._base and not Path(self._base).is_dir():
            self._judge([self._with_revision(request)])
            return
        found = self._measured(request, folder)
        if self._save:
            self._tell(f"kept in {self._save}")
            return
        self._judge(self._with_stored(found))

    def _request(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], device: str, axes: dict[str, Any], folder: Path
    ) -> RunRequest:
        from torchstone.api.benchmarking import loader_spec
        from torchstone.api.module import sent, tensor_device
        from torchstone.config.run_file import RunRequest
        from torchstone.core.errors import UsageError
        from torchstone.core.messages import MESSAGES
        from torchstone.core.schema.axis import axis_values
        from torchstone.core.schema.case import Task
        from torchstone.core.schema.procedure import Procedure
        from torchstone.core.schema.request import WorkloadRequest
        from torchstone.core.units import duration_s

        options, why_not = sent(function, arguments, folder)
        if why_not is not None:
            raise UsageError(f"torchstone measures in fresh processes: {MESSAGES[f'in_this_process.{why_not}'].advice}")
        values = {name: axis_values(name, (value,)) for name, value in axes.items()}
        workload = WorkloadRequest(str(Task.CALL), loader_spec(function), None, options, values)
        within_s = duration_s(self._within or _WITHIN["run"], "--torchstone-within")
        device = tensor_device(arguments) if device == "auto" else device
        return RunRequest((workload,), name=self._name, device=device, procedure=Procedure(within_s=within_s))

    def _measured(self, request: RunRequest, folder: Path) -> Path:
        """Measure, one test at a time, and return the record."""
        from torchstone.execution.controller.device_lock import WhenBusy
        from torchstone.execution.controller.observer import Silent
        from torchstone.workflows.run.planned_run import Campaign

        summary = Campaign(request, Silent(), _alone(WhenBusy)).carry_out(folder, sys.argv).summary
        if not summary.cases[0].estimates:
            pytest.fail("nothing was measured: give it more time, --torchstone-within 2m", pytrace=False)
        return Path(summary.record)

    def _with_stored(self, record: Path) -> list[Comparison]:
        from torchstone.analysis.compare.compare import ComparisonRequest, compare
        from torchstone.analysis.compare.inputs import of_runs
        from torchstone.core.errors import UsageError
        from torchstone.core.schema.metric import PEAKS
        from torchstone.core.units import share
        from torchstone.storage.query import locate, read_run

        try:
            base = read_run(locate(Path(self._base), self._name))
        except UsageError:
            pytest.skip(f"{self._base} has no run of this test: pytest --torchstone-save {self._base}")
        margin = share(self._margin, "--torchstone-margin")
        found = compare(of_runs([base, read_run(record)]), ComparisonRequest(margin)).judged
        return [one.comparison for one in found if one.comparison.metric in ("throughput", *PEAKS)]

    def _with_revision(self, request: RunRequest) -> Comparison:
        from msgspec.structs import replace

        from torchstone.core.errors import UsageError
        from torchstone.core.schema.comparison import Rules
        from torchstone.core.units import duration_s, share
        from torchstone.execution.controller.device_lock import WhenBusy
        from torchstone.workflows.ab.experiment import as_ab_does
        from torchstone.workflows.ab.live_comparison import AbCampaign, SideError
        from torchstone.workflows.ab.sides import WORK_TREE, SideRequest, checked_out, find

        here = Path.cwd()
        (workload,) = request.workloads
        file, _, function = workload.model.removeprefix("py:").rpartition(":")
        if Path(file).is_absolute():
            if not Path(file).is_relative_to(here):
                raise UsageError(f"{file} is not below {here}: a revision has no such file; start pytest there")
            file = str(Path(file).relative_to(here))
        workload = replace(workload, model=f"py:{file}:{function}")
        request = replace(
            request, workloads=(workload,), procedure=as_ab_does(replace(request.procedure, within_s=None))
        )
        within_s = duration_s(self._within or _WITHIN["ab"], "--torchstone-within")
        rules = Rules(share(self._margin, "--torchstone-margin"), budget_s=within_s)
        base, now = find(self._base, here), find(WORK_TREE, here)
        with checked_out(base, here) as before:
            sides = (
                SideRequest(base.label, request, before, base.commit),
                SideRequest(now.label, request, here, "work tree"),
            )
            try:
                _, ended = AbCampaign(sides, rules, busy=_alone(WhenBusy)).carry_out(self._own, sys.argv)
            except SideError as fault:
                if fault.side == base.label:
                    pytest.skip(f"{base.label} cannot do it: {fault}")
                raise
        return ended.comparison

    def _judge(self, found: list[Comparison]) -> None:
        """Tell what was found, and fail where a figure is worse by more than the margin."""
        from torchstone.core.schema.comparison import Judgement
        from torchstone.core.units import share

        margin, worse = share(self._margin, "--torchstone-margin"), []
        for one in found:
            line = _line(one)
            self._tell(line)
            ratio = one.ratio.value if one.ratio is not None else None
            if one.verdict == Judgement.NOT_COMPARABLE or (
                one.verdict == Judgement.WORSE and ratio is not None and max(ratio, 1.0 / ratio) > 1.0 + margin
            ):
                worse.append(line)
        if worse:
            pytest.fail("; ".join(worse), pytrace=False)


def _line(found: Comparison) -> str:
    from torchstone.core.schema.metric import FIGURES

    what = FIGURES[found.metric].title if found.metric in FIGURES else found.metric
    if found.ratio is None or found.ratio.low is None or found.ratio.high is None:
        return f"{what}: {found.verdict} ({found.why_text})"
    ratio = found.ratio
    return (
        f"{what} {ratio.value:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] times that of {found.baseline.label}: "
        f"{found.verdict}"
    )


def _alone(when_busy: Any) -> Any:
    """Wait for tests in other processes of xdist: side by side they would measure each other."""
    return when_busy.read(os.environ.get("TORCHSTONE_WHEN_BUSY", "wait"), lambda _: None)
