"""Exports a small classifier with a batch of any size: export_digits.py digits.pt2"""

import sys

import torch
from torch import nn


def main(path: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 10), nn.Softmax(-1)).eval()
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(model, (torch.randn(8, 64),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)


if __name__ == "__main__":
    main(sys.argv[1])
