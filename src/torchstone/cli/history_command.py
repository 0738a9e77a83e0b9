"""Show how the figures of cases changed over all stored runs, and what else changed at the same time.

torchstone history                        (every case with several runs)
torchstone history gpt2 --metric energy_per_item_j
torchstone history latest --fail-on worse:2%       (exit 1 if the newest level is worse than the one before)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from torchstone.cli._output import add_json, add_save, check_save, print_result
from torchstone.cli._place import add_place, folder_of, place_of, writable
from torchstone.core.errors import ExitCode, UsageError
from torchstone.core.own_files import replacing
from torchstone.core.units import share

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
    from torchstone.analysis.recommend.case_history import history, without_level, worse
    from torchstone.report.documents.history import Requested, history_document, why_without_level

    check_save(options)
    folder, margin = folder_of(options), _margin(options.fail_on)
    shown = history(place_of(options), options.what, options.metric, suspect=options.suspect)
    bad = worse(shown.histories, margin) if margin is not None else []
    lacking = without_level(shown.histories) if options.reference is not None else []
    why = why_without_level(lacking)
    if lacking and len(lacking) == len(shown.histories):
        raise UsageError(f"--reference: no case has a run that counts: {why}")
    files = [str(path) for path in _write_files(options, folder, shown)]
    document = history_document(shown, Requested(files, len(lacking), why, len(bad), margin or 0.0))
    print_result(options, "history", shown, document=document, every=options.full)
    return ExitCode.NO if bad else ExitCode.DONE


def _margin(text: str | None) -> float | None:
    if text is None:
        return None
    word, colon, margin = text.partition(":")
    if word != "worse":
        raise UsageError(f"--fail-on {text}: write worse, or worse:2%")
    return share(margin, "--fail-on worse") if colon else 0.0


def _write_files(options: argparse.Namespace, folder: Path, shown: Histories) -> Iterator[Path]:
    """Write what --svg and --reference name, and yield the paths."""
    from torchstone.analysis.recommend.case_history import reference_lines

    for wish, usual in ((options.svg, "analysis/history.svg"), (options.reference, "absolute_results.jsonl")):
        if wish is None:
            continue
        if not shown.histories:
            raise UsageError(f"nothing to write: no stored case has the figure {options.metric}")
        path = writable(folder) / usual if wish == _UNNAMED else Path(wish)
        if wish != _UNNAMED and not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {path.parent}")
        try:
            with replacing(path, folder) if wish == _UNNAMED else nullcontext(path) as there:
                if usual.endswith(".svg"):
                    from torchstone.core.charts.drawing import draw
                    from torchstone.report.charts.history import history_chart

                    draw(history_chart(shown.histories), there)
                else:
                    there.write_bytes(b"".join(reference_lines(shown.histories)))
        except OSError as fault:
            raise UsageError(f"cannot write {path}: {fault.strerror}") from None
        yield path
