"""Losses that pick from the logarithm of a softmax, and their gradients, as maps and reductions.

What forward keeps for backward is chosen by what it moves, among values that can be computed again. Of one operator that is its result, of
the size of the logits. Of maps and reductions it is, beside the logits, which are there anyway, a maximum and a sum a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilefuse.widening import widened

__all__ = ["loss_rules"]


def loss_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    aten = torch.ops.aten
    return {
        aten._log_softmax.default: _log_softmax,
        aten._log_softmax_backward_data.default: _log_softmax_gradient,
        aten.nll_loss_forward.default: _nll_loss,
        aten.nll_loss_backward.default: _nll_loss_gradient,
    }


def _is_ours(x: torch.Tensor) -> bool:
    return x.is_floating_point() and x.device.type == "cpu" and x.dim() > 0


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    if half_to_float or not torch.is_grad_enabled() or not _is_ours(x) or x.numel() == 0:
        return NotImplemented
    below = widened(x) - widened(x).amax(dim, keepdim=True)
    return (below - below.exp().sum(dim, keepdim=True).log()).to(x.dtype)


def _log_softmax_gradient(gradient: torch.Tensor, result: torch.Tensor, dim: int, dtype: torch.dtype) -> Any:
    if not _is_ours(gradient):
        return NotImplemented
    wide = widened(gradient)
    return (wide - widened(result).exp() * wide.sum(dim, keepdim=True)).to(dtype)


_MEAN, _SUM = 1, 2  # reductions, as ATen numbers them


def _is_loss_of_rows(x: torch.Tensor, reduction: int) -> bool:
    return _is_ours(x) and x.dim() == 2 and reduction in (_MEAN, _SUM)


def _targets(target: torch.Tensor, ignore_index: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which rows count, and a class of each that exists."""
    kept = target.unsqueeze(1) != ignore_index
    return kept, torch.where(kept, target.unsqueeze(1), 0)


def _nll_loss(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, reduction: int, ignore_index: int) -> Any:
    if not torch.is_grad_enabled() or not _is_loss_of_rows(x, reduction):
        return NotImplemented
    kept, at = _targets(target, ignore_index)
    picked = widened(x.gather(1, at))
    weights = torch.ones_like(picked) if weight is None else widened(weight.unsqueeze(0).expand(x.shape).gather(1, at))
    weights = torch.where(kept, weights, 0.0)
    total, total_weight = torch.where(kept, -picked * weights, 0.0).sum(), weights.sum()
    return (total / total_weight if reduction == _MEAN else total).to(x.dtype), total_weight.to(x.dtype)


def _nll_loss_gradient(
    gradient: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> Any:
    if not _is_loss_of_rows(x, reduction):
        return NotImplemented
    kept, at = _targets(target, ignore_index)
    each = -(widened(gradient) / widened(total_weight) if reduction == _MEAN else widened(gradient))
    if weight is not None:
        each = each * widened(weight)
    classes = torch.arange(x.shape[1], device=x.device)
    return torch.where((classes == at) & kept, each, 0.0).to(x.dtype)
