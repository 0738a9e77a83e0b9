"""Stored runs compared: which cases match, what else differs, and whether a difference is real."""
