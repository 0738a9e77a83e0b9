"""The networks of `builtin:` by name, and their sizes. No torch here."""

from __future__ import annotations

from collections.abc import Mapping

# Hidden width, layers, and the parameters they make with 9 classes.
GESTURE_SIZES: Mapping[str, tuple[int, int, int]] = {
    "gesture-tiny": (96, 2, 141_801),
    "gesture-small": (256, 2, 869_641),
    "gesture-medium": (448, 3, 4_163_273),
    "gesture-large": (640, 4, 11_687_049),
    "gesture-xlarge": (896, 4, 22_784_393),
    "gesture-xxlarge": (1152, 5, 48_177_801),
}
# Depth, hidden width, and the parameters they make: a denoiser of sequences of 5,160 × 2 in three sizes.
DENOISER_SIZES: Mapping[str, tuple[int, int, int]] = {
    "denoiser-small": (3, 16, 9_922),
    "denoiser-medium": (6, 64, 300_226),
    "denoiser-large": (12, 128, 2_379_906),
}
# Depth, hidden width, vocabulary, dropout: a text classifier small enough to be trained from nothing.
TEXT_SIZES: Mapping[str, tuple[int, int, int, float]] = {"text-small": (1, 128, 8_000, 0.5)}
POSITIONS = 5160  # of a denoiser's sequences, where no other length is asked for
LONGEST = 512  # tokens of a text
