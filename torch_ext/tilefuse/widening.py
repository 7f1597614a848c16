"""What sums of narrow floating-point numbers are taken in."""

from __future__ import annotations

import torch

__all__ = ["widened"]


def widened(x: torch.Tensor) -> torch.Tensor:
    """In f32, if `x` is bf16 or f16; `x` itself otherwise."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
