"""Our training loop, with a window around it."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import torchstone


class Clips(Dataset):
    def __len__(self):
        return 102

    def __getitem__(self, index):
        time.sleep(0.002)  # decoding
        generator = torch.Generator().manual_seed(index)
        return torch.randn(40, generator=generator), index % 4


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(Clips(), batch_size=10, shuffle=True)

    with torchstone.window("clips") as window:
        for clips, labels in window.batches(loader):
            with window.phase("forward"):
                loss = criterion(model(clips), labels)
            with window.phase("backward"):
                optimizer.zero_grad()
                loss.backward()
            with window.phase("optimizer"):
                optimizer.step()
            time.sleep(0.004)  # logging
    print(window)


if __name__ == "__main__":
    main()
