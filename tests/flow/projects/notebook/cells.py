# %% [1]
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchstone

torch.manual_seed(0)


# %% [2]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(10)
        self.layers = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))

    def forward(self, x):
        return self.layers(self.norm(x))


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

# %% [3]
x = torch.randn(128, 10)
y = (x[:, 0] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)


def loss_fn(output, target):
    return nn.functional.cross_entropy(output, target)


for inputs, labels in loader:  # an epoch of our own, before
    loss_fn(model(inputs), labels).backward()
    optimizer.step()
    optimizer.zero_grad()

# %% [4]
before = {name: value.clone() for name, value in model.state_dict().items()}
random_before = torch.get_rng_state()
run = torchstone.measure(
    model, loader, task="train", loss=loss_fn, optimizer=lambda params: torch.optim.Adam(params, lr=1e-2)
)
run

# %% [5]
inference = torchstone.measure(model, x[:32])
inference
