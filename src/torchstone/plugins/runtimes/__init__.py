"""Libraries that compute a model which torch.export has exported: a file each."""
