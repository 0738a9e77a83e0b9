"""`hub:NAME`: text or images of Hugging Face's hub, by the `datasets` library, where it is installed.

NAME is owner/name on the hub (fetched, or from the cache), or a folder: one that `save_to_disk` wrote, or one of files
that `load_dataset` reads. Only folders have been tried with the real library; nothing was ever fetched from the hub,
which cannot be reached from where this was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import Scalar
from torchstone.core.schema.batch import DataCard, View
from torchstone.plugins.data._sentences import Sentences, refuse_without_tokenizers
from torchstone.plugins.data._table_items import numbered
from torchstone.plugins.protocols import DataSource, Samples

_ON_ERROR = ("stop", "skip")


class Hub(DataSource):
    """Data source `hub`. The card comes from another process, which fetches what is not in the cache."""

    describes = "Hugging Face data sets: hub:OWNER/NAME or hub:FOLDER; text=COL or image=COL, label=COL, config=NAME"
    options: tuple[str, ...] = ("config", "text", "image", "label", "on_error")

    def card(self, path: str, options: Mapping[str, Scalar]) -> DataCard:
        if not path:
            raise UsageError("data hub: name the data set: hub:stanfordnlp/sst2")
        if options.get("on_error", "stop") not in _ON_ERROR:
            raise UsageError(f"data hub: on_error: {unknown('word', str(options['on_error']), _ON_ERROR)}")
        if find_spec("datasets") is None:
            raise MissingError("data hub: needs datasets: pip install 'torchstone[hub]'")
        from torchstone.plugins.data.hub.card import ask  # not at the top: `python -m` of it would find it imported

        card = ask(path, options)
        if card.kind == "text":
            refuse_without_tokenizers("hub")
        return card

    def samples(self, path: str, view: View) -> Samples:
        from torchstone.plugins.data.hub import sets as hub_sets

        config = view.options.get("config")
        sets = hub_sets.opened(path, None if config is None else str(config), offline=True)
        said = hub_sets.columns(path, sets, view.options)
        if "image" in said:
            from torchstone.plugins.data._images import Pictures

            return Pictures(hub_sets.images(path, sets, said), view)
        names = hub_sets.class_names(sets, said.get("label"))
        return Sentences(numbered(hub_sets.text_splits(path, sets, said), view, names), view)


PLUGIN: DataSource = Hub()
