"""The former place of what draws a picture (core/charts/drawing.py), under which commands still look for it."""

from torchstone.core.charts.drawing import draw

__all__ = ["draw"]
