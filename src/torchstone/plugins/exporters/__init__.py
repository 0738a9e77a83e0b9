"""Exporters that share the file of a topic, by it."""

BY_TOPIC = {
    "_tables": ("csv", "json", "jsonl", "parquet"),
    "_trackers": ("mlflow", "prometheus", "tensorboard", "wandb"),
}
