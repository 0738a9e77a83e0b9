"""Show how the figures of cases changed over all stored runs, and what else changed at the same time.

torchstone history                        (every case with several runs)
torchstone history gpt2 --metric energy_per_item_j
torchstone history latest --fail-on worse:2%       (exit 1 if the newest level is worse than the one before)
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._folder import folder_of, writable
from torchstone.cli._parsing import add_json
from torchstone.cli._place import add_place, place_of
from torchstone.cli._results import add_save, check_save, print_result
from torchstone.core.errors import ExitCode, UsageError
from torchstone.core.own_files import moved

if TYPE_CHECKING:
    from torchstone.analysis.recommend.case_history import Histories

_UNNAMED = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of history."""
    parser.add_argument(
        "what", nargs="?", help="a case_id or its prefix, a run (latest, an id, a name), or part of a model's name"
    )
    parser.add_argument(
        "--metric", default="throughput", help="a figure: throughput (default), step_time_mean, loss_end, …"
    )
    parser.add_argument("--suspect", action="store_true", help="include SUSPECT runs (default: excluded)")
    parser.add_argument(
        "--fail-on",
        metavar="worse[:MARGIN]",
        help="exit 1 if the newest level is worse than the one before (by more than MARGIN)",
    )
    parser.add_argument(
        "--svg", nargs="?", const=_UNNAMED, metavar="FILE", help="write a chart (default: analysis/history.svg)"
    )
    parser.add_argument(
        "--reference",
        nargs="?",
        const=_UNNAMED,
        metavar="FILE",
        help="write the current level of each case as a JSON line (default: absolute_results.jsonl)",
    )
    parser.add_argument("--full", action="store_true", help="print every case in full and every run")
    add_save(parser)
    add_json(parser)
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Show the histories; return 1 if --fail-on finds one that is worse."""
    from torchstone.analysis.recommend.case_history import history, why_without_level, without_level, worse
    from torchstone.report.documents.history import Requested, history_document

    check_save(options)
    folder, margin = folder_of(options), _margin(options.fail_on)
    told = history(place_of(options), options.what, options.metric, suspect=options.suspect)
    bad = worse(told.histories, margin) if margin is not None else []
    written = _written(options, folder, told)
    lacking = without_level(told.histories) if options.reference is not None else []
    files, why = [str(path) for path in written], why_without_level(lacking)
    document = history_document(told, Requested(files, len(lacking), why, len(bad), margin or 0.0))
    print_result(options, "history", told, document=document, every=options.full)
    return ExitCode.NO if bad else ExitCode.DONE


def _margin(text: str | None) -> float | None:
    if text is None:
        return None
    from torchstone.core.units import share

    word, colon, margin = text.partition(":")
    if word != "worse":
        raise UsageError(f"--fail-on {text}: write worse, or worse:2%")
    return share(margin, "--fail-on worse") if colon else 0.0


def _written(options: argparse.Namespace, folder: Path, told: Histories) -> list[Path]:
    from torchstone.analysis.recommend.case_history import why_without_level, without_level

    lacking = without_level(told.histories)
    if options.reference is not None and told.histories and len(lacking) == len(told.histories):
        raise UsageError(f"--reference: no case has a run that counts: {why_without_level(lacking)}")
    written = []
    for wish, usual in ((options.svg, "analysis/history.svg"), (options.reference, "absolute_results.jsonl")):
        if wish is None:
            continue
        if not told.histories:
            raise UsageError(f"nothing to write: no stored case has the figure {options.metric}")
        path = writable(folder) / usual if wish == _UNNAMED else Path(wish)
        if wish != _UNNAMED and not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {path.parent}")
        try:
            with moved(path, folder) if wish == _UNNAMED else nullcontext(path) as there:
                _write(there, told, is_chart=usual.endswith(".svg"))
        except OSError as fault:
            raise UsageError(f"cannot write {path}: {fault.strerror}") from None
        written.append(path)
    return written


def _write(path: Path, told: Histories, *, is_chart: bool) -> None:
    from torchstone.analysis.recommend.case_history import reference_lines

    if not is_chart:
        path.write_bytes(b"".join(reference_lines(told.histories)))
        return
    from torchstone.core.charts.drawing import draw
    from torchstone.report.charts.history import history_chart

    draw(history_chart(told.histories), path)
