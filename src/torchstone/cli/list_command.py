"""List recipes, models, data, devices, axes, tasks, checks, formats, clusters and what else there is to choose from.

torchstone list
torchstone list recipes
torchstone list recipes preset-80gb-small > mine.yaml    (its file, as a start for your own)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from torchstone.cli._output import add_json, print_json, show_document
from torchstone.core.errors import MissingError, UsageError, unknown
from torchstone.core.schema.axis import AXES
from torchstone.plugins import registry
from torchstone.report.document import Document, Fields, Section

Rows = list[tuple[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of list."""
    parser.add_argument("what", nargs="?", help=f"one of {', '.join(LISTS)} (default: all)")
    parser.add_argument("name", nargs="?", help="with recipes: print the file of this one")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the lists asked for."""
    if options.what is not None and options.what not in LISTS:
        raise unknown("list", options.what, LISTS)
    if options.name is not None:
        # Print the text of a recipe.
        from torchstone.config.recipe_files import recipe_text

        if options.what != "recipes":
            raise UsageError(f"list {options.what} {options.name}: only a recipe has a file to print")
        if options.json:
            raise UsageError(f"list recipes {options.name}: is printed as it is, YAML; leave out --json")
        print(recipe_text(options.name), end="")
        return 0
    wanted = [options.what] if options.what else list(LISTS)
    lists = {what: LISTS[what]() for what in wanted}
    if options.json:
        print_json({what: [{"name": n, "meaning": m} for n, m in rows] for what, rows in lists.items()})
        return 0
    show_document(plugins_document(lists))
    return 0


def _recipes() -> Rows:
    from torchstone.config.recipe_files import recipe_names

    return list(recipe_names())


def _models() -> Rows:
    found = [row for scheme in registry.names("models") for row in _models_of(scheme)]
    return found + [(f"{name}:", why) for name, why in registry.shadowed("models")]


def _models_of(scheme: str) -> Rows:
    try:
        return [(f"{scheme}:{name}", meaning) for name, meaning in registry.load("models", scheme).names()]
    except MissingError as error:
        return [(f"{scheme}:", str(error))]
    except Exception as error:  # somebody else's plug-in
        return [(f"{scheme}:", f"cannot be loaded: {type(error).__name__}: {error}")]


def _axes() -> Rows:
    return [(axis.name, f"{axis.meaning} (default {axis.default}{_values(axis.values)})") for axis in AXES.values()]


def _metrics() -> Rows:
    from torchstone.core.schema.metric import FIGURES

    return [(one.name, f"{one.meaning} ({one.unit})") for one in FIGURES.values()]


def _values(values: tuple[str, ...] | None) -> str:
    return f"; {', '.join(values)}" if values else ""


def _family(family: str) -> Callable[[], Rows]:
    return lambda: [(n, registry.describe(family, n)) for n in registry.names(family)] + registry.shadowed(family)


def _commands() -> Rows:
    from torchstone.cli import COMMANDS

    names = registry.names("commands")
    return [(n, COMMANDS.get(n) or registry.describe("commands", n)) for n in names] + registry.shadowed("commands")


LISTS: dict[str, Callable[[], Rows]] = {
    "recipes": _recipes,
    "models": _models,
    "data": _family("data"),
    "devices": _family("devices"),
    "axes": _axes,
    "metrics": _metrics,
    "tasks": _family("engines"),
    "runtimes": _family("runtimes"),
    "searchers": _family("searchers"),
    "isolation": _family("launchers"),
    "telemetry": _family("telemetry"),
    "checks": _family("checks"),
    "formats": _family("exporters"),
    "reports": _family("renderers"),
    "importers": _family("importers"),
    "clusters": _family("clusters"),
    "commands": _commands,
}


def plugins_document(lists: Mapping[str, Sequence[tuple[str, str]]]) -> Document:
    """Return a section a list. `lists`: by title, each name with its meaning."""
    return Document("Available", tuple(Section(title, (Fields(tuple(rows)),)) for title, rows in lists.items()))
