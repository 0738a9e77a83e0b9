"""A Trainer of transformers on random tokens: `torchstone ab base slower -- python train.py`."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(256, (4096, 64))]
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=64, n_embd=128, n_layer=4, n_head=4))
arguments = TrainingArguments(
    tempfile.mkdtemp(),
    per_device_train_batch_size=12,
    max_steps=100_000,
    report_to=[],
    save_strategy="no",
    disable_tqdm=True,
    use_cpu=True,
)
Trainer(model, arguments, train_dataset=rows).train()
