"""Softmax with mask and scale, gated activations, rotary embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilefuse.custom_op import op

__all__ = ["geglu", "rotary_embedding", "softmax", "swiglu"]


@op("tilefuse::softmax")
def softmax(x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0, dim: int = -1) -> torch.Tensor:
    """``softmax(x * scale)`` over ``dim``. A bool ``mask`` says what takes part, any other is added."""
    scores = x * scale
    if mask is not None:
        scores = torch.where(mask, scores, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, dim)


@op("tilefuse::swiglu")
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up``."""
    return F.silu(gate) * up


@op("tilefuse::geglu")
def geglu(gate: torch.Tensor, up: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """``gelu(gate) * up``; ``approximate`` as in ``torch.nn.functional.gelu``."""
    return F.gelu(gate, approximate=approximate) * up


@op("tilefuse::rotary_embedding")
def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates the halves of the last dimension: ``x * cos + cat(-x2, x1) * sin``. ``cos`` and ``sin`` broadcast."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin
