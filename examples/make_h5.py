"""Make an .h5 file of noisy signals and their clean originals: python examples/make_h5.py signals.h5.

Groups train, val and test, 8 : 1 : 1, each with two data sets, items × length × width, float32: `y`, sums of sines,
and `x`, the same with noise. A chunk is one sequence, as a loader reads it. Equal arguments make equal numbers.

    torchstone run --task train --model builtin:denoiser-small --data hdf5:signals.h5 \
        --data-option target_key=y --axis batch_size=2
"""

from __future__ import annotations

import argparse
from pathlib import Path

import h5py
import numpy as np

SINES = 5


def clean(generator: np.random.Generator, length: int, width: int) -> np.ndarray:
    """Return length × width: in each column a sum of sines of 1 to 40 periods, with a mean square of about 1."""
    time = np.arange(length)[:, None, None] / length
    periods = generator.uniform(1.0, 40.0, (SINES, width))
    phases = generator.uniform(0.0, 2.0 * np.pi, (SINES, width))
    weights = generator.uniform(0.5, 1.5, (SINES, width)) * np.sqrt(2.0 / SINES)
    return (weights * np.sin(2.0 * np.pi * periods * time + phases)).sum(axis=1)


def write(file: Path, items: int, length: int, width: int, noise: float, seed: int) -> None:
    """Write `items` sequences, one at a time: a file may be larger than the memory."""
    held_out = items // 10
    sizes = {"train": items - 2 * held_out, "val": held_out, "test": held_out}
    generator = np.random.default_rng(seed)
    with h5py.File(file, "w") as handle:
        handle.attrs["noise"], handle.attrs["seed"] = noise, seed
        for split, size in sizes.items():
            if size == 0:
                continue
            noisy, whole = (
                handle.create_dataset(f"{split}/{key}", (size, length, width), "f4", chunks=(1, length, width))
                for key in ("x", "y")
            )
            for index in range(size):
                signal = clean(generator, length, width)
                whole[index] = signal
                noisy[index] = signal + noise * generator.standard_normal(signal.shape)


def main() -> None:
    """Read the arguments and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--items", type=int, default=200, help="sequences in all (default 200)")
    parser.add_argument("--length", type=int, default=5160, help="positions of a sequence (default 5160)")
    parser.add_argument("--width", type=int, default=2, help="values of a position (default 2)")
    parser.add_argument("--noise", type=float, default=0.3, help="standard deviation of the noise (default 0.3)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    write(asked.file, asked.items, asked.length, asked.width, asked.noise, asked.seed)
    print(f"{asked.file}: {asked.items} sequences of {asked.length} × {asked.width}")


if __name__ == "__main__":
    main()
