"""The model all tools measure: BERT with 6 layers, 768 wide (67 M parameters), random weights, 1 × 128 tokens.

`python bert6.py FOLDER` saves it once; every tool then loads it from that folder, named in $BERT6. The inputs are those
that optimum-benchmark makes for a text classifier: four tensors, nothing masked.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FOLDER = "BERT6"
TOKENS = 128
THREADS = 2


def save(folder: str) -> None:
    """Make the model and save it. No tokenizer: no tool needs one."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    BertForSequenceClassification(BertConfig(num_hidden_layers=6)).save_pretrained(folder)


def load() -> tuple[Any, dict[str, Any]]:
    """Return module and example batch, as `--model py:bert6.py:load` wants them."""
    import torch
    from transformers import AutoModelForSequenceClassification

    module = AutoModelForSequenceClassification.from_pretrained(os.environ[FOLDER]).eval()
    dice = torch.Generator().manual_seed(0)
    shape = (1, TOKENS)
    example = {
        "input_ids": torch.randint(0, module.config.vocab_size, shape, generator=dice),
        "attention_mask": torch.ones(shape, dtype=torch.int64),
        "token_type_ids": torch.randint(0, module.config.type_vocab_size, shape, generator=dice),
        "position_ids": torch.arange(TOKENS).repeat(1, 1),
    }
    return module, example


if __name__ == "__main__":
    save(sys.argv[1])
