"""`images:PATH`: a folder of images, of class folders, or of split folders of either; or parquet files of images."""

from __future__ import annotations

from torchstone.plugins.data._image_source import ImageSource, find_folder, find_parquet
from torchstone.plugins.protocols import DataSource

PLUGIN: DataSource = ImageSource(
    "images",
    "your own images: images:PATH, a folder of them, of class folders, of train/ and test/, or parquet files",
    {
        "parquet files of images": find_parquet,
        "images (jpg, png, webp, bmp), in class folders, in train/, validation/, test/ or not": find_folder,
    },
)
