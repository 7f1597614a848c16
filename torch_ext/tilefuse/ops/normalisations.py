"""Normalisations over the last dimension, and over groups of channels."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilefuse.custom_op import op

__all__ = ["add_rms_norm", "group_norm_silu", "layer_norm", "rms_norm"]


@op("tilefuse::rms_norm")
def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6) -> torch.Tensor:
    """``x / sqrt(mean(x * x) + eps) * weight`` over the last dimension."""
    return F.rms_norm(x, x.shape[-1:], weight, eps)


@op("tilefuse::add_rms_norm")
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """``x + residual``, and its ``rms_norm``: (the norm, the sum)."""
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], weight, eps), total


@op("tilefuse::layer_norm")
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`` over the last dimension."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


@op("tilefuse::group_norm_silu")
def group_norm_silu(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """``silu`` of the group norm of ``x``: [batch, channels, ...], ``channels`` in ``groups``."""
    return F.silu(F.group_norm(x, groups, weight, bias, eps))
