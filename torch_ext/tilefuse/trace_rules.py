"""Operators that are taken apart while AOTAutograd traces, before the graph reaches the engine.

A dropout draws its mask and multiplies. Drawing stays a call, with eager's generator and eager's numbers; the product joins what is
around it.

The gradient of a gather adds to zeros at the places that were read. Where each line of the input was read once, every element is told
from its place whether it gets one, and nothing waits for zeros to be written.

Losses that pick from the logarithm of a softmax (`loss_rules.py`), gradients of filters of single channels (`convolution_rules.py`), transposed
convolutions (`phase_rules.py`) and complex numbers (`complex_pairs.py`) have rules of their own.

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
from tilefuse.loss_rules import loss_rules
from tilefuse.phase_rules import phase_rules

__all__ = ["mark_rules", "trace_rules"]


def trace_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    _masks_are_laid_out_like_inputs()  # asked before anything is traced
    aten = torch.ops.aten
    rules = {aten.native_dropout.default: _native_dropout, aten.scatter_add.default: _gradient_of_gather}
    return rules | mark_rules() | loss_rules() | convolution_rules() | phase_rules() | pair_rules()


def mark_rules() -> dict[Any, Callable[..., Any]]:
    """Those that no graph can do without."""
    aten = torch.ops.aten
    return {aten._conj.default: _conjugate, aten._neg_view.default: aten.neg.default}


def _conjugate(x: torch.Tensor | complex) -> torch.Tensor:
    """A number that a tensor was multiplied by arrives as one."""
    if isinstance(x, torch.Tensor):
        return torch.ops.aten._conj_physical.default(x)
    return torch.scalar_tensor(complex(x).conjugate(), dtype=torch.complex128)


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
