"""Data that a user's function returns, or that `torchstone.measure` is given: a Dataset, a DataLoader, batches.

Dataset             torchstone makes the loader: batch_size, num_workers, pin_memory and prefetch_factor are its axes
DataLoader          made anew from what it was made of, by the same axes. What it has itself are facts,
                    and the values of axes that nobody names; a check tells where a run has measured other ones alone
a batch sampler,    of a class of its own: made anew with other workers, while its batches stay as they are
a subclass          with an `__iter__` of its own: used as it is, and so are batches that come from anything else: axes
                    that say another batch size or other workers are refused, naming the ones that it has
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import msgspec
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from torchstone.core.errors import Unsupported, UsageError
from torchstone.core.schema.advice import Statement
from torchstone.core.schema.axis import DATALOADER_AXES, Scalar
from torchstone.core.schema.facts import Facts, merged
from torchstone.core.schema.model import Batch, InputSpec, LoadedModel
from torchstone.plugins.models.py.returned import (
    Calls,
    Naming,
    ReturnedKind,
    ReturnedParts,
    Work,
    calls_of,
    check_rows,
    kind_of,
    logits_of,
    movable,
    naming_of,
    on_output,
    returned_parts,
    scalar,
    torchs_own,
)
from torchstone.plugins.protocols import Streamable

_STACKED = (torch.Tensor, int, float)
COLLATE = "return a DataLoader with a collate_fn"
COLLATE_OF_YOURS = "give your DataLoader a collate_fn"


def check_items(where: str, dataset: Any, items: Sequence[Any], advice: str = COLLATE) -> None:
    """Refuse items that `default_collate` cannot stack. Raises UsageError naming the item, its part and the way out."""
    name = type(dataset).__name__
    parts = [dict(_parts(item, "")) for item in items]
    for number, of_item in enumerate(parts):
        for part, value in of_item.items():
            what = f"{where}: {name}[{number}]{part} is {_described(value)}"
            if value is None:
                raise UsageError(f"{what}: its __getitem__ returns nothing there")
            if isinstance(value, str | bytes):
                raise UsageError(f"{what}, not a tensor: return its tokens as one, or {advice} that makes them")
            if not isinstance(value, _STACKED) and type(value).__module__ != "numpy":
                raise UsageError(f"{what}, not a tensor or an array: make it one in __getitem__, or {advice}")
    _check_alike(where, name, parts, advice)


def _check_alike(where: str, name: str, parts: Sequence[Mapping[str, Any]], advice: str) -> None:
    for number, of_item in enumerate(parts):
        if of_item.keys() != parts[0].keys():
            raise UsageError(f"{where}: {name}[{number}] has other parts than {name}[0]: {advice}")
        for part, value in of_item.items():
            first, own = _shape(parts[0][part]), _shape(value)
            if first != own:
                sizes = f"{name}[0]{part} has the shape {first}, {name}[{number}]{part} {own}"
                raise UsageError(f"{where}: {sizes}: bring all to one size (resize, crop, pad), or {advice} that pads")


def _parts(item: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield each part of an item with how one gets there: `[0]`, `['label']`."""
    if isinstance(item, Mapping):
        for key, value in item.items():
            yield from _parts(value, f"{place}[{key!r}]")
    elif isinstance(item, tuple | list):
        for number, value in enumerate(item):
            yield from _parts(value, f"{place}[{number}]")
    else:
        yield place, item


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(getattr(value, "shape", ()))


def _described(value: Any) -> str:
    return "None" if value is None else kind_of(value)


# A user's DataLoader rebuilt with other settings, and other batches used as they are.
#
# A loader is made anew from what it was made of (data set, sampler, collate_fn, worker_init_fn, generator, timeout), so
# that other workers, pinning and batch sizes can be measured, and its own as they are. Of a data set with an end only
# whole batches are taken, as everywhere here: a Case says how many items a step has.


class CountedBatches:
    """A collate_fn that also says of how many items its batch is. A class, so that a spawned worker can be sent it."""

    def __init__(self, collate_fn: Callable[[list[Any]], Any]) -> None:
        self._collate_fn = collate_fn

    def __call__(self, rows: list[Any]) -> tuple[int, Any]:
        return len(rows), self._collate_fn(rows)


class OwnLoader(Streamable):
    """A DataLoader as a source of feeds. `fixed`: what it has and cannot be changed, and `why`.

    `size`: the items of its first batch, where what makes its batches is not torch's own.
    """

    def __init__(self, naming: Naming, loader: DataLoader[Any], size: int | None) -> None:
        self._naming, self._loader = naming, loader
        self.fixed: dict[str, Scalar] = {} if size is None else {"batch_size": size}
        self.why = Statement("batch_sampler" if counts(loader) else "whole_batches")

    def own(self) -> Mapping[str, Scalar]:
        """Return the settings that it has itself."""
        has = {name: getattr(self._loader, name) for name in DATALOADER_AXES}
        sampler: Any = self._loader.batch_sampler
        if type(sampler) is BatchSampler:  # one short batch may be all there is
            has["batch_size"] = max(1, min(sampler.batch_size, _rows(self._loader) or sampler.batch_size))
        return {name: value for name, value in {**has, **self.fixed}.items() if value is not None}

    def open_batches(self, configuration: Mapping[str, Scalar]) -> Streamed:
        """Return an open feed. Raises UsageError where its batches have another size.

        Raises Unsupported where the data is less than one batch.
        """
        refuse_others(self._naming.where, self.fixed, configuration)
        workers = 0 if configuration.get("feed") == "resident" else int(configuration.get("num_workers") or 0)
        made = rebuilt(self._loader, configuration, workers)
        rows = _rows(made)
        if rows is not None and rows < int(configuration.get("batch_size") or 1):
            size = configuration.get("batch_size")
            raise Unsupported(f"batch_size={size}: the data set has {rows} items, less than one batch")
        return Streamed(made, self._naming, counted=counts(made))


class OwnItems(OwnLoader):
    """A DataLoader over a data set in its own or a random order: what a training may also divide by items."""

    def __len__(self) -> int:
        return len(self._loader.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self._loader.dataset[index]

    def collate(self, rows: Sequence[Any]) -> Batch:
        """Make a batch of items; what makes batches looks for this method."""
        return batch_of(self._naming, self._loader.collate_fn(list(rows)), len(rows))


def remakable(loader: DataLoader[Any]) -> DataLoader[Any] | None:
    """Return the loader that can be made anew; None for a class that iterates in a way of its own.

    accelerate's, which a Trainer of transformers has, wraps one: what it adds is moving batches to the device.
    """
    inner: Any = getattr(loader, "base_dataloader", loader)
    of_torch = (DataLoader.__iter__, DataLoader._get_iterator)
    return inner if (type(inner).__iter__, type(inner)._get_iterator) == of_torch else None


def makes_its_batches(loader: DataLoader[Any]) -> bool:
    """Say whether torch itself puts a loader's batches together, so that they may have any size."""
    flows = isinstance(loader.dataset, IterableDataset) and loader.batch_size is not None
    return flows or type(loader.batch_sampler) is BatchSampler


def in_usual_order(loader: DataLoader[Any]) -> bool:
    """Say whether a loader takes all items of a data set in their own or in a random order."""
    of_torch = type(loader.batch_sampler) is BatchSampler and not isinstance(loader.dataset, IterableDataset)
    return of_torch and type(loader.batch_sampler.sampler) in (RandomSampler, SequentialSampler)  # type: ignore[union-attr]


def _rows(loader: DataLoader[Any]) -> int | None:
    """Return how many items an epoch has that torch puts together to batches; None where that is not known."""
    batches: Any = loader.batch_sampler
    if type(batches) is not BatchSampler or not isinstance(batches.sampler, Sized):
        return None
    return len(batches.sampler)


def counts(loader: DataLoader[Any]) -> bool:
    """Say whether the collate_fn of a loader is given a list of items, which can be counted."""
    return loader.batch_sampler is not None or loader.batch_size is not None


def rebuilt(loader: DataLoader[Any], configuration: Mapping[str, Scalar], workers: int) -> DataLoader[Any]:
    """Make a loader as this one is, but for what the configuration says; of counted batches where they can be."""
    how: dict[str, Any] = {
        "collate_fn": CountedBatches(loader.collate_fn) if counts(loader) else loader.collate_fn,
        "num_workers": workers,
        "worker_init_fn": loader.worker_init_fn,
        "generator": loader.generator,
        "pin_memory": bool(configuration.get("pin_memory")),
    }
    if workers:
        how["prefetch_factor"] = int(configuration.get("prefetch_factor") or 2)
        how["timeout"], how["multiprocessing_context"] = loader.timeout, loader.multiprocessing_context
        # Who has no processes yet would keep those that are tried from epoch to epoch.
        how["persistent_workers"] = loader.persistent_workers if loader.num_workers else True
        if hasattr(loader, "in_order"):  # from torch 2.6 on
            how["in_order"] = loader.in_order
    sampler: Any = loader.batch_sampler
    size = int(configuration.get("batch_size") or 1)
    if isinstance(loader.dataset, IterableDataset):
        whole = loader.batch_size is None
        how.update({"batch_size": None} if whole else {"batch_size": size, "drop_last": True})
    elif sampler is None:
        how.update(batch_size=None, sampler=loader.sampler)
    elif type(sampler) is BatchSampler:
        how.update(batch_size=size, sampler=sampler.sampler, drop_last=True)
    else:
        how["batch_sampler"] = sampler
    # How many workers are too many is what is measured; torch would say its opinion twice a trial.
    warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
    return DataLoader(loader.dataset, **how)


class Stream(Streamable):
    """Batches that are used as they come: `fixed` is what they have, which cannot be changed, and `why`."""

    def __init__(self, naming: Naming, batches: Iterable[Any], fixed: Mapping[str, Scalar], why: Statement) -> None:
        self._naming, self._batches, self.fixed, self.why = naming, batches, fixed, why

    def open_batches(self, configuration: Mapping[str, Scalar]) -> Streamed:
        """Return an open feed. Raises UsageError where the axes say what its loader is not."""
        refuse_others(self._naming.where, self.fixed, configuration)
        return Streamed(self._batches, self._naming)


def refuse_others(where: str, fixed: Mapping[str, Scalar], configuration: Mapping[str, Scalar]) -> None:
    """Raise UsageError where the axes say another than what is fixed. Resident batches need no workers."""
    resident = configuration.get("feed") == "resident"
    other = [a for a in fixed if configuration.get(a) != fixed[a] and not (resident and a != "batch_size")]
    if other:
        has = ", ".join(f"{axis}={fixed[axis]}" for axis in other)
        words = " ".join(f"--axis {axis}={fixed[axis]}" for axis in other)
        raise UsageError(
            f"{where}: its batches are used as they come, with {has}: write {words}, or return the Dataset, so that "
            "torchstone can build the DataLoader"
        )


class Streamed:
    """A user's batches, epoch after epoch. `queue`: how many may wait in the loader before it is felt."""

    def __init__(self, source: Iterable[Any], naming: Naming, *, counted: bool = False) -> None:
        self._source, self._naming, self._counted = source, naming, counted
        workers = int(getattr(source, "num_workers", 0) or 0)
        self.queue = workers * int(getattr(source, "prefetch_factor", None) or 0)
        self.turn = max(1, self.queue)
        self.unreadable: Mapping[str, str] = {}
        self.begin_epoch(1)

    def begin_epoch(self, number: int) -> None:
        """Begin anew: the order is the user's."""
        self._batches: Iterator[Batch] = self._endless()
        self.next: Callable[[], Batch] = self._batches.__next__

    def _endless(self) -> Iterator[Batch]:
        given, before = 0, -1
        while given > before:  # what gives its batches only once has no second pass
            before = given
            for batch in self._source:
                given += 1
                items, tensors = batch if self._counted else (None, batch)
                yield batch_of(self._naming, tensors, items)
        if not given:
            raise Unsupported(f"{self._naming.where}: its data gives no whole batch of this size")

    def close(self) -> None:
        """Let the loader end its processes: they live as long as its iterator does."""
        self._batches, self._source = iter(()), ()
        self.next = self._batches.__next__


def batch_of(naming: Naming, batch: Any, items: int | None) -> Batch:
    """Return a user's batch with its tensors named; its first dimension counts the items where nothing else does."""
    tensors = naming(batch)
    mask = tensors.get("attention_mask")
    counted = items if items is not None else _rows_of(naming.where, tensors)
    return Batch(tensors, counted, int(mask.sum()) if isinstance(mask, torch.Tensor) else None)


def _rows_of(where: str, tensors: Mapping[str, Any]) -> int:
    first = next(iter(tensors.values()))
    if not isinstance(first, torch.Tensor):
        of = type(first).__name__
        raise UsageError(
            f"{where}: how many items a {of} has is not known: return a torch DataLoader, which counts them"
        )
    return int(first.shape[0]) if first.dim() else 1


# A module that comes with a tokenizer: it is called like a transformers model, on text of --data.
#
# The module gets `input_ids` and `attention_mask`, as far as its `forward` takes them, and answers with logits or with
# an object that has `.logits`. The loss is called as in returned.py, on logits and labels, or as `loss(module, batch)`;
# without one the module is called with `labels` and answers with a `.loss`. Of a model that generates text the labels
# are its tokens, with padding left out.

_IGNORED = -100  # the label that torch's cross-entropy leaves out


def spec_of(module: Any, tokenizer: Any) -> InputSpec:
    """Return the inputs of a module with that tokenizer, as far as the two specify them."""
    config = getattr(module, "config", None)
    sizes = [getattr(config, "vocab_size", None), _words(tokenizer)]
    known = [size for size in sizes if isinstance(size, int)]
    causal = generates(module)
    classes = None if causal else getattr(config, "num_labels", None)
    return InputSpec("text", classes if isinstance(classes, int) else None, min(known, default=None), causal=causal)


def generates(module: Any) -> bool:
    """Say whether a module is a language model by transformers' own word for it."""
    says = getattr(module, "can_generate", None)
    return bool(says()) if callable(says) else False


def _text_calls(where: str, module: Any, loss: Any, *, causal: bool) -> Calls:
    """Return the calls of a module and its loss with tokens."""
    accepted = _accepted(module)

    def forward(network: Any, tensors: Mapping[str, Any]) -> Any:
        return logits_of(network(**_inputs(tensors, accepted)))

    if loss is None:
        return Calls(forward, scalar(where, _own_loss(where, accepted, causal=causal)))
    if on_output(loss):
        return Calls(forward, scalar(where, _against(where, loss, accepted, causal=causal)))
    return Calls(
        forward, scalar(where, lambda network, tensors: loss(network, _with_labels(where, tensors, causal=causal)))
    )


def _own_loss(where: str, accepted: frozenset[str] | None, *, causal: bool) -> Work:
    def loss(network: Any, tensors: Mapping[str, Any]) -> Any:
        labels = _with_labels(where, tensors, causal=causal)["labels"]
        output = network(**_inputs(tensors, accepted), labels=labels)
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if found is None:
            raise UsageError(f"{where}: the model returns no `.loss` for its labels; return a loss_fn beside it")
        return found

    return loss


def _against(where: str, loss: Any, accepted: frozenset[str] | None, *, causal: bool) -> Work:
    def against(network: Any, tensors: Mapping[str, Any]) -> Any:
        labels = _with_labels(where, tensors, causal=causal)["labels"]
        output = network(**_inputs(tensors, accepted))
        if not torchs_own(loss):
            return loss(output, labels)
        logits = logits_of(output)
        if causal:  # each token is judged by the one that follows it
            return loss(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return loss(logits, labels)

    return against


def _with_labels(where: str, tensors: Mapping[str, Any], *, causal: bool) -> Mapping[str, Any]:
    if "labels" in tensors:
        return tensors
    if not causal:
        raise UsageError(f"{where}: the data has no labels to train on")
    labels = tensors["input_ids"]
    if "attention_mask" in tensors:
        labels = labels.masked_fill(tensors["attention_mask"] == 0, _IGNORED)
    return {**tensors, "labels": labels}


def _inputs(tensors: Mapping[str, Any], accepted: frozenset[str] | None) -> dict[str, Any]:
    return {n: t for n, t in tensors.items() if n != "labels" and (accepted is None or n in accepted)}


def _accepted(module: Any) -> frozenset[str] | None:
    """Return the names that a module's forward takes; None: any."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(p.name for p in parameters)


def _words(tokenizer: Any) -> int | None:
    if hasattr(tokenizer, "get_vocab_size"):
        return int(tokenizer.get_vocab_size())
    return len(tokenizer) if hasattr(tokenizer, "__len__") else None


def adopted(where: str, returned: Any) -> LoadedModel:
    """Return the model. Raises UsageError saying what to return instead."""
    parts = returned_parts(where, returned)
    if parts.kind is ReturnedKind.TOKENIZER:
        return _with_tokenizer(where, parts)
    if parts.kind is ReturnedKind.DATA:
        return _with_data(where, parts)
    names = naming_of(where, parts.loss, parts.given)
    tensors = names(parts.given)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise UsageError(
            f"{where}: an example is made of tensors, to repeat its rows; return a DataLoader of such batches"
        )
    check_rows(where, tensors)
    calls = calls_of(where, parts.module, parts.loss, names, parts.given)
    _initialise(parts.module, calls.forward, tensors)
    return LoadedModel(
        parts.module,
        calls.forward,
        calls.loss,
        InputSpec("own", causal=generates(parts.module)),
        tensors,
        parts.optimizer,
        facts=_module_facts(parts.module),
    )


def _with_data(where: str, parts: ReturnedParts) -> LoadedModel:
    data = open_data(where, parts.module, parts.loss, parts.given)
    tensors = data.naming(data.batch)
    calls = calls_of(where, parts.module, parts.loss, data.naming, data.batch)
    _initialise(parts.module, calls.forward, tensors)
    facts = merged(_module_facts(parts.module), Facts(own_data=type(parts.given).__name__), data.facts)
    return LoadedModel(
        parts.module,
        calls.forward,
        calls.loss,
        InputSpec("own", causal=generates(parts.module)),
        None,
        parts.optimizer,
        samples=data.samples,
        facts=facts,
    )


def _with_tokenizer(where: str, parts: ReturnedParts) -> LoadedModel:
    spec = spec_of(parts.module, parts.given)
    calls = _text_calls(where, parts.module, parts.loss, causal=spec.causal)
    return LoadedModel(
        parts.module,
        calls.forward,
        calls.loss,
        spec,
        None,
        parts.optimizer,
        parts.given,
        facts=_module_facts(parts.module),
    )


def _module_facts(module: Any) -> Facts:
    return Facts(parameters=sum(parameter.numel() for parameter in module.parameters()), weights="own")


def _initialise(module: Any, forward: Work, tensors: Mapping[str, Any]) -> None:
    """Call a module once whose lazy parameters have no shape yet: an optimizer needs them, and so does counting."""
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        device = next(module.parameters()).device
        with torch.no_grad():
            forward(module, {name: tensor.to(device) for name, tensor in tensors.items()})


class DataAtHand(msgspec.Struct):
    """A user's data, opened. `batch`: the first one as their loader gives it, `naming` how its tensors are called."""

    samples: Items | OwnLoader | Stream
    batch: Any
    naming: Naming
    facts: Facts


class Items:
    """A map-style Dataset as Samples: its items' parts by name."""

    def __init__(self, dataset: Any, naming: Naming) -> None:
        self._dataset, self._naming = dataset, naming

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self._naming(self._dataset[index], tensors_only=False)


def open_data(where: str, module: Any, loss: Any, data: Any) -> DataAtHand:
    """Open a user's data and look at its first batch. Raises UsageError if there is none."""
    loader = remakable(data) if isinstance(data, DataLoader) else None
    if loader is not None:
        found = _of_loader(where, module, loss, loader)
        return msgspec.structs.replace(found, facts=_facts(found.samples))
    if isinstance(data, IterableDataset):
        return _of_loader(where, module, loss, DataLoader(data, drop_last=True))
    if not isinstance(data, list | DataLoader) and hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _of_items(where, module, loss, data)
    return _as_it_is(where, module, loss, data)


def _facts(samples: Items | OwnLoader | Stream) -> Facts:
    """Return what a loader has itself, and what of it cannot be changed, with the reason."""
    own = samples.own() if isinstance(samples, OwnLoader) else {}
    facts = _own(own)
    if not isinstance(samples, Items) and samples.fixed:
        facts.own_fixed, facts.own_why = tuple(samples.fixed), samples.why
    return facts


def _own(settings: Mapping[str, Scalar]) -> Facts:
    values: dict[str, Any] = {f"own_{axis}": value for axis, value in settings.items()}
    return Facts(**values)


def _of_items(where: str, module: Any, loss: Any, dataset: Any) -> DataAtHand:
    if movable(dataset) and len(dataset) and movable(dataset[0]) and not isinstance(dataset[0], torch.Tensor):
        raise UsageError(f"{where}: {kind_of(dataset)} is one batch: return the DataLoader that makes such batches")
    first = _first_items(where, dataset, default_collate)
    naming = naming_of(where, loss, first, module)
    return DataAtHand(Items(dataset, naming), first, naming, Facts())


def _first_items(where: str, dataset: Any, collate: Any, advice: str = COLLATE) -> Any:
    """Return a batch of two items: of a slow data set, a whole one takes long."""
    if not len(dataset):
        raise UsageError(f"{where}: its data set is empty")
    items = [dataset[number] for number in range(min(2, len(dataset)))]
    if collate is default_collate:
        check_items(where, dataset, items, advice)
    return collate(items)


def _of_loader(where: str, module: Any, loss: Any, loader: Any) -> DataAtHand:
    if in_usual_order(loader):
        first = _first_items(where, loader.dataset, loader.collate_fn, COLLATE_OF_YOURS)
        naming = naming_of(where, loss, first, module)
        return DataAtHand(OwnItems(naming, loader, None), first, naming, Facts())
    first, size = _first(where, rebuilt(loader, {}, 0)), None
    if counts(loader):
        size, first = first
    naming = naming_of(where, loss, first, module)
    if makes_its_batches(loader):
        return DataAtHand(OwnLoader(naming, loader, None), first, naming, Facts())
    return DataAtHand(OwnLoader(naming, loader, size or batch_of(naming, first, None).items), first, naming, Facts())


def _as_it_is(where: str, module: Any, loss: Any, batches: Any) -> DataAtHand:
    if not hasattr(batches, "__iter__"):
        raise UsageError(f"{where}: no batches can be taken from {kind_of(batches)}; return a Dataset or a DataLoader")
    if iter(batches) is batches:
        raise UsageError(f"{where}: {kind_of(batches)} gives its batches only once; return a list, or a DataLoader")
    first = _first(where, batches)
    naming = naming_of(where, loss, first, module)
    fixed: dict[str, Scalar] = {
        "batch_size": batch_of(naming, first, None).items,
        "num_workers": int(getattr(batches, "num_workers", 0) or 0),
    }
    stream = Stream(naming, batches, fixed, Statement("as_they_come", {"kind": type(batches).__name__}))
    facts = _own(fixed) if isinstance(batches, DataLoader) else Facts()
    return DataAtHand(stream, first, naming, merged(facts, _facts(stream)))


def _first(where: str, batches: Iterable[Any]) -> Any:
    for batch in batches:
        return batch
    raise UsageError(f"{where}: its data gives no batch")
