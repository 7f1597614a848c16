"""Symmetric int8 with one scale per token, or per group of a token's features."""

from __future__ import annotations

import torch

from tilefuse.custom_op import op

__all__ = ["dequantise_per_group", "dequantise_per_token", "quantise_per_group", "quantise_per_token"]


@op("tilefuse::quantise_per_token")
def quantise_per_token(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 values, and the scale [..., 1] of each row: its largest magnitude is 127."""
    wide = x if x.dtype == torch.float64 else x.float()
    scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127.0
    return torch.round(wide / scale).clamp(-128, 127).to(torch.int8), scale


@op("tilefuse::dequantise_per_token")
def dequantise_per_token(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """``q * scale``, in the scale's dtype."""
    return q.to(scale.dtype) * scale


@op("tilefuse::quantise_per_group")
def quantise_per_group(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``quantise_per_token`` for every ``group`` of neighbours in a row; scales [..., features / group]."""
    q, scale = quantise_per_token.plain(x.unflatten(-1, (-1, group)))
    return q.flatten(-2), scale.squeeze(-1)


@op("tilefuse::dequantise_per_group")
def dequantise_per_group(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """``q * scale`` with one scale for each group of neighbours in a row."""
    grouped = q.unflatten(-1, (scale.shape[-1], -1)).to(scale.dtype)
    return (grouped * scale.unsqueeze(-1)).flatten(-2)
