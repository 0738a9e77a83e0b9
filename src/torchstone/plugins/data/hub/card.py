"""The card of a data set of the hub, found in a process of its own: `datasets` may import torch, and run for long.

python -m torchstone.plugins.data.hub.card NAME OPTIONS, the options as JSON, writes an Answer as JSON in the last
line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import msgspec

from torchstone.core.errors import MissingError, UsageError
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard
from torchstone.plugins.data._table_items import card_of
from torchstone.plugins.data.hub import sets as hub_sets


class Answer(msgspec.Struct):
    """A card, or why there is none: the request is wrong, or the machine lacks something."""

    card: DataCard | None = None
    wrong: str = ""
    missing: str = ""


def ask(name: str, options: Mapping[str, Scalar]) -> DataCard:
    """Return the card, from another process. Raises UsageError or MissingError as it says."""
    words = [name, msgspec.json.encode(dict(options)).decode()]
    # -P: a file called datasets.py in the working folder must not be taken for the library. Progress of a download goes
    # to the user's stderr; what the libraries tell of each of six attempts, half a minute long, does not.
    command = [sys.executable, "-P", "-m", __name__, *words]
    quiet = {"HF_HUB_VERBOSITY": "error", "DATASETS_VERBOSITY": "error", **os.environ}
    import subprocess

    done = subprocess.run(command, stdout=subprocess.PIPE, env=quiet, check=False)
    try:
        answer = msgspec.json.decode(done.stdout.rstrip(b"\n").rpartition(b"\n")[2], type=Answer)
    except msgspec.DecodeError as error:
        raise UsageError(f"data hub: {name}: reading it ended with exit code {done.returncode}") from error
    if answer.missing:
        raise MissingError(answer.missing)
    if answer.card is None:
        raise UsageError(answer.wrong)
    return answer.card


def main(words: Sequence[str]) -> None:
    """Find the card of words[0] with the options of words[1], and write the Answer."""
    name, options = words[0], msgspec.json.decode(words[1], type=dict[str, Scalar])
    try:
        answer = Answer(_card(name, options))
    except MissingError as fault:
        answer = Answer(missing=str(fault))
    except UsageError as fault:
        answer = Answer(wrong=str(fault))
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(answer) + b"\n")


def _card(name: str, options: Mapping[str, Scalar]) -> DataCard:
    config = options.get("config")
    sets = hub_sets.opened(name, None if config is None else str(config), offline=False)
    said = hub_sets.columns(name, sets, options)
    if "image" in said:
        return hub_sets.images(name, sets, said).card()
    names = hub_sets.class_names(sets, said.get("label"))
    return card_of("text", hub_sets.text_splits(name, sets, said), hub_sets.digest_of(sets, said), names)


if __name__ == "__main__":
    main(sys.argv[1:])
