"""`cifar10:PATH`: CIFAR-10, 50,000 images to train and 10,000 to test: the official batches, folders or parquet.

Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

from __future__ import annotations

from torchstone.plugins.data import _image_folder, _image_parquet
from torchstone.plugins.data._image_source import ImageSource
from torchstone.plugins.data.cifar10 import batches
from torchstone.plugins.protocols import DataSource

PLUGIN: DataSource = ImageSource(
    "cifar10",
    "CIFAR-10: cifar10:PATH, the folder of data_batch_1 …, of train/ and test/ with class folders, or of parquet files",
    {
        "data_batch_1 to data_batch_5 and test_batch": batches.find,
        "parquet files": _image_parquet.find,
        "train/ and test/ with class folders": _image_folder.find_splits,
    },
    inner="cifar-10-batches-py",
)
