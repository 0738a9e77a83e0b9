"""Plug-ins for torchstone, to copy from."""
