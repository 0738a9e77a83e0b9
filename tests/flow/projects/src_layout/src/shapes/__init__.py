"""Tell circles from squares."""

CLASSES = ("circle", "square")
