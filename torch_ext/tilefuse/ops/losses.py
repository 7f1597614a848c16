"""Cross-entropy, of logits and of the linear layer that makes them."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tilefuse.custom_op import op

__all__ = ["cross_entropy", "linear_cross_entropy"]


@op("tilefuse::cross_entropy", autocast=torch.float32)
def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """The cross-entropy of ``logits`` [rows, classes] with the class numbers ``target`` [rows]."""
    return F.cross_entropy(
        logits, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
    )  # fmt: skip


@op("tilefuse::linear_cross_entropy", autocast="lower")
def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> torch.Tensor:
    """``cross_entropy(x @ weight.T + bias, target)``; ``x`` [rows, features], ``weight`` [classes, features]."""
    return F.cross_entropy(F.linear(x, weight, bias), target, ignore_index=ignore_index, reduction=reduction)
