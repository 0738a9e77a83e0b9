"""What a panel draws, by the kind of its layers: for tests that ask what is there rather than how Vega-Lite says it."""

from __future__ import annotations

from typing import Any

from torchstone.core.charts.vega_lite import Panel, Spec

Row = dict[str, Any]


def kind_of(layer: Spec) -> str:
    """Return what a layer is: line, interval, guide, …."""
    mark, encoding, own = layer["mark"], layer.get("encoding", {}), "data" in layer
    kinds = {
        "line": "guide" if own else "line", "area": "band", "bar": "bars", "rect": "stretch" if own else "cells",
        "text": "failure" if mark.get("angle") else "words", "point": "arrow" if "datum" in str(encoding) else "dots",
        "rule": ("level" if "x2" in encoding else "divider") if own else "interval" if "y2" in encoding else "reach",
    }  # fmt: skip
    return kinds[mark["type"]]


def kinds(panel: Panel) -> list[str]:
    """Return the kinds of all layers, from back to front."""
    return [kind_of(layer) for layer in panel.layers]


def layers(panel: Panel, kind: str) -> list[Spec]:
    """Return the layers of a kind."""
    return [layer for layer in panel.layers if kind_of(layer) == kind]


def rows(panel: Panel, kind: str) -> list[Row]:
    """Return the rows that the layers of a kind have of their own."""
    return [row for layer in layers(panel, kind) for row in layer["data"]["values"]]


def title_of(panel: Panel, along: str) -> str:
    """Return the title of an axis."""
    title: str = panel.channel(along)["title"]
    return title


def names_of(panel: Panel) -> tuple[str, ...]:
    """Return the names of the legend."""
    return tuple(panel.channel("color")["scale"]["domain"])


def shades_of(panel: Panel) -> tuple[str, ...]:
    """Return the colours of the legend."""
    return tuple(panel.channel("color")["scale"]["range"])


def places_of(panel: Panel) -> tuple[str, ...]:
    """Return the places along x."""
    x = panel.channel("x")
    return tuple(x["sort"] if "sort" in x else x["scale"]["domain"])
