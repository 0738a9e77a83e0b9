"""Good or bad: reviews of different lengths, padded by a collate function."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 100
PAD = 0


class Reviews(Dataset):
    def __init__(self, count=120):
        generator = torch.Generator().manual_seed(3)
        lengths = torch.randint(4, 30, (count,), generator=generator).tolist()
        self.reviews = [torch.randint(1, VOCABULARY, (n,), generator=generator) for n in lengths]

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, index):
        words = self.reviews[index]
        return words, int(words.float().mean() > VOCABULARY / 2)


def collate(samples):
    words, labels = zip(*samples)
    return pad_sequence(list(words), batch_first=True, padding_value=PAD), torch.tensor(labels)


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32, padding_idx=PAD)
        self.head = nn.Linear(32, 2)

    def forward(self, words):
        known = (words != PAD).unsqueeze(-1)
        return self.head((self.embed(words) * known).sum(1) / known.sum(1))


def load():
    loader = DataLoader(Reviews(), batch_size=12, shuffle=True, collate_fn=collate)
    return Judge(), loader, nn.CrossEntropyLoss(), lambda params: torch.optim.AdamW(params, lr=1e-2)
