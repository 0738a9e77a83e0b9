"""Engines that share the file of a topic, by it."""

BY_TOPIC = {"_plain": ("infer", "load", "call")}
