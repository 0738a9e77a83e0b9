"""Data sources that share the file of a topic, by it."""

BY_TOPIC = {
    "_image_sets": ("cifar10", "food101", "images", "imagenet100", "mri"),
    "_table_files": ("csv", "parquet", "sst2", "tsv"),
}
