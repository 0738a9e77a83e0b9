"""Advice from measured Cases: which settings to choose, why, and what to change."""
