"""Operators that are taken apart while AOTAutograd traces, before the graph reaches the engine.

A dropout draws its mask and multiplies. Drawing stays a call, with eager's generator and eager's numbers; the product joins what is
around it.

A logarithm of a softmax, the loss that picks from it, and the gradients of both become the maps and reductions that they are where a
gradient is traced. What forward keeps for backward is chosen by what it moves, among values that can be computed again: beside the input,
which is there anyway, that is a maximum and a sum a row, and no tensor of the input's size.

The gradient of a gather adds to zeros at the places that were read. Where each line of the input was read once, every element is told
from its place whether it gets one, and nothing waits for zeros to be written.

Complex numbers are pairs of real ones (`complex_pairs.py`), and gradients of filters of single channels are reductions
(`convolution_rules.py`).

A conjugate, or a negative, is in torch a view with a mark, which kernels apply while they read. Between operators of a graph there are
values only: torch hands an operator that does not know the mark its arguments without it. So the mark is applied where it is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from tilefuse.complex_pairs import pair_rules
from tilefuse.convolution_rules import convolution_rules
from tilefuse.library import operators

__all__ = ["mark_rules", "trace_rules"]


def trace_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    _masks_are_laid_out_like_inputs()  # asked before anything is traced
    aten = torch.ops.aten
    rules = {
        aten.native_dropout.default: _native_dropout,
        aten._log_softmax.default: _log_softmax,
        aten._log_softmax_backward_data.default: _log_softmax_gradient,
        aten.nll_loss_forward.default: _nll_loss,
        aten.nll_loss_backward.default: _nll_loss_gradient,
        aten.scatter_add.default: _gradient_of_gather,
    }
    return rules | mark_rules() | pair_rules() | convolution_rules()


def mark_rules() -> dict[Any, Callable[..., Any]]:
    """Those that no graph can do without."""
    aten = torch.ops.aten
    return {aten._conj.default: aten._conj_physical.default, aten._neg_view.default: aten.neg.default}


@functools.cache
def _masks_are_laid_out_like_inputs() -> bool:
    with _disable_current_modes(), torch.random.fork_rng(devices=[]):
        x = torch.empty(1, 2, 2, 2).to(memory_format=torch.channels_last)
        return not torch.native_dropout(x, 0.5, True)[1].is_contiguous()


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> Any:
    if train is False or x.device.type != "cpu":
        return NotImplemented
    if not x.is_contiguous() and not _masks_are_laid_out_like_inputs():
        return NotImplemented
    keep = 1.0 - p
    mask = operators().dropout_mask(x.shape, torch.empty_like(x).stride(), keep)
    return x * mask * (1.0 / keep if keep else 0.0), mask


def _is_ours(x: torch.Tensor) -> bool:
    return x.is_floating_point() and x.device.type == "cpu" and x.dim() > 0


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    if half_to_float or not torch.is_grad_enabled() or not _is_ours(x) or x.numel() == 0:
        return NotImplemented
    below = _wide(x) - _wide(x).amax(dim, keepdim=True)
    return (below - below.exp().sum(dim, keepdim=True).log()).to(x.dtype)


def _log_softmax_gradient(gradient: torch.Tensor, result: torch.Tensor, dim: int, dtype: torch.dtype) -> Any:
    if not _is_ours(gradient):
        return NotImplemented
    wide = _wide(gradient)
    return (wide - _wide(result).exp() * wide.sum(dim, keepdim=True)).to(dtype)


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
    picked = _wide(x.gather(1, at))
    weights = torch.ones_like(picked) if weight is None else _wide(weight.unsqueeze(0).expand(x.shape).gather(1, at))
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
    each = -(_wide(gradient) / _wide(total_weight) if reduction == _MEAN else _wide(gradient))
    if weight is not None:
        each = each * _wide(weight)
    classes = torch.arange(x.shape[1], device=x.device)
    return torch.where((classes == at) & kept, each, 0.0).to(x.dtype)


def _gradient_of_gather(zeros: torch.Tensor, dim: int, index: torch.Tensor, gradient: torch.Tensor) -> Any:
    """Forward has read at these places, so none is outside."""
    node = torch._C._current_autograd_node()
    if node is None or node.name() != "GatherBackward0" or zeros.dim() == 0 or zeros.device.type != "cpu":
        return NotImplemented
    dim %= zeros.dim()
    read_once = [1 if d == dim else size for d, size in enumerate(zeros.shape)]
    if list(index.shape) != read_once or list(gradient.shape) != read_once:
        return NotImplemented
    along = [size if d == dim else 1 for d, size in enumerate(zeros.shape)]
    places = torch.arange(zeros.shape[dim], device=zeros.device).view(along)
    return torch.where(places == index, gradient, 0.0)
