"""Run files and recipes: from YAML, JSON or TOML to a checked request, every fault with file, line and key."""
