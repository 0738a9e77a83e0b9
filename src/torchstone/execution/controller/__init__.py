"""Drives trials: starts each, reads telemetry meanwhile, enforces the timeout, keeps the record."""
