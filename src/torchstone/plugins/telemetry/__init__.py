"""Telemetry sources that share the file of a topic, by it."""

BY_TOPIC = {"_system": ("host", "perf_event", "process", "rapl")}
