"""`mri:PATH`: brain scans for a diagnosis, Training/ and Testing/ with a folder for each class, as Kaggle has them."""

from __future__ import annotations

from torchstone.plugins.data._image_source import ImageSource, find_parquet, find_splits
from torchstone.plugins.protocols import DataSource

PLUGIN: DataSource = ImageSource(
    "mri",
    "MRI scans: mri:PATH, a folder with Training/ and Testing/ (or train/ and test/), a folder for each class in them",
    {
        "Training/ and Testing/ (or train/ and test/) with class folders": find_splits,
        "parquet files": find_parquet,
    },
)
