"""A training script as anybody has one: nothing in it is torchstone's."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
options = parser.parse_args()

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(32, 64, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(4),
    torch.nn.Flatten(),
    torch.nn.Linear(1024, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images, labels = torch.randn(4096, 3, 32, 32), torch.randint(0, 10, (4096,))
data = torch.utils.data.TensorDataset(images, labels)
for epoch in range(100):
    for x, y in torch.utils.data.DataLoader(data, options.batch_size, shuffle=True):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
