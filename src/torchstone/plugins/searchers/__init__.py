"""Searchers that share the file of a topic, by it."""

BY_TOPIC = {"_plain": ("grid", "optuna", "random")}
