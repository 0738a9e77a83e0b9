"""Data sets of images as seed 1's user has them on disk, small; those whose number of images is named in full."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from pictures import batch, cifar_batches
from PIL import Image

DIAGNOSES = ("glioma", "meningioma", "notumor", "pituitary")


def cifar10(root: Path) -> Path:
    """CIFAR-10 with its 10,000 images to test, and one of each class in each of the batches to train."""
    cifar_batches(root, each=10)
    pixels = np.random.default_rng(1).integers(0, 256, (10_000, 3072), dtype=np.uint8)
    batch(root / "test_batch.bin", [n % 10 for n in range(10_000)], pixels)
    return root


def brain_scans(root: Path, train: int = 8, test: int = 4, side: int = 32) -> Path:
    """Brain tumour MRI as Kaggle has it: Training and Testing, four diagnoses, told apart by their grey."""
    dice = random.Random(2)
    for split, count in (("Training", train), ("Testing", test)):
        for number, name in enumerate(DIAGNOSES):
            folder = root / split / name
            folder.mkdir(parents=True)
            for copy in range(count):
                grey = [min(255, max(0, round(dice.gauss(40 + 55 * number, 12)))) for _ in range(side * side)]
                image = Image.new("L", (side, side))
                image.putdata(grey)
                image.save(folder / f"{name}_{copy}.jpg")
    return root


def vit(root: Path, classes: int = 7) -> Path:
    """A small ViT as transformers saves it, with a head for other classes than the scans have."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=16,
        num_labels=classes,
    )  # fmt: skip
    ViTForImageClassification(config).save_pretrained(root)
    return root


def weights(root: Path) -> dict[str, np.ndarray]:
    """What transformers reads from such a folder, by the names of the module's tensors."""
    from transformers import ViTForImageClassification

    module = ViTForImageClassification.from_pretrained(root)
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}
