"""Small programs for tests of fused files on GPUs: those of the model of one, and those of a device."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import torch
from torch import nn

BATCH = torch.export.Dim("batch", min=2, max=64)


class Block(nn.Module):
    """Products of torch's between regions of ours, an operator that no region holds, and sizes that vary."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return torch.softmax(y, -1), torch.topk(y.exp(), 3).values


class Counter(nn.Module):
    """Writes into a buffer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(width))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return x * self.seen


# Operators live as long as the process: every test has a width, and so regions, of its own.
_widths = iter(range(40, 1000, 3))


def exported(
    folder: pathlib.Path, make: Callable[[int], nn.Module] = Block, *, device: str = "cpu", batch: torch.export.Dim = BATCH
) -> tuple[nn.Module, torch.Tensor, pathlib.Path]:
    """The model, an input, and the file of its program."""
    width = next(_widths)
    model, x, file = make(width).to(device).eval(), torch.randn(8, width, device=device), folder / "model.pt2"
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: batch},)), file)
    return model, x, file
