"""Operators that are taken apart while AOTAutograd traces, before the graph reaches the engine.

A dropout draws its mask and multiplies. Drawing stays a call, with eager's generator and eager's numbers; the product joins what is
around it.

A conjugate, or a negative, is in torch a view with a mark, which kernels apply while they read. Between operators of a graph there are
values only: torch hands an operator that does not know the mark its arguments without it. So the mark is applied where it is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from tilefuse.library import operators

__all__ = ["mark_rules", "trace_rules"]


def trace_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    _masks_are_laid_out_like_inputs()  # asked before anything is traced
    return {torch.ops.aten.native_dropout.default: _native_dropout} | mark_rules()


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
