"""Gradients of convolutions that have one filter a channel.

The gradient of such a filter is a sum over positions for each of its taps, of a few numbers each: a reduction over a windowed view, which
kernels of the engine compute from the image as it lies. PyTorch's library takes 3 to 14 times as long. With steps of one and small windows,
the gradient of the image is a convolution with the filters turned around, and is fused like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tilefuse.widening import widened

__all__ = ["convolution_rules", "for_each_dim"]

aten = torch.ops.aten

# The library's gradient of the image takes 1.6 to 6 times as long for windows of up to 5 x 5, and as long for 7 x 7, whose kernels take
# seconds to compile.
_MOST_TAPS_TURNED = 25


def convolution_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    return {aten.convolution_backward.default: _gradients_by_channel}


def _has_a_filter_a_channel(x: torch.Tensor, weight: torch.Tensor, groups: int) -> bool:
    is_ours = x.device.type == "cpu" and x.is_floating_point() and x.dim() == weight.dim() > 2
    return is_ours and groups > 1 and weight.shape[0] == x.shape[1] == groups and weight.shape[1] == 1


def _gradients_by_channel(
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    has_fixed_image = all(isinstance(size, int) for size in (*x.shape[1:], *weight.shape))
    is_plain = not transposed and has_fixed_image and all(step == 1 for step in dilation)
    if not is_plain or not output_mask[1] or not _has_a_filter_a_channel(x, weight, groups):
        return NotImplemented
    spatial = list(range(2, x.dim()))
    window = weight.shape[2:]
    stride, padding = (for_each_dim(given, len(spatial)) for given in (stride, padding))
    turned = [size - 1 - before for size, before in zip(window, padding, strict=True)]
    if not output_mask[0]:
        image = None
    elif all(step == 1 for step in stride) and min(turned) >= 0 and math.prod(window) <= _MOST_TAPS_TURNED:
        image = aten.convolution.default(
            gradient, weight.flip(spatial), None, stride, turned, dilation, False, output_padding, groups
        )
    else:
        image = aten.convolution_backward.default(
            gradient, x, weight, bias_sizes, stride, padding, dilation, False, output_padding, groups, [True, False, False]
        )[0]
    bias = widened(gradient).sum([0, *spatial]).to(gradient.dtype) if output_mask[2] else None
    return image, _of_filters(widened(gradient), widened(x), window, stride, padding).to(weight.dtype), bias


def _of_filters(gradient: torch.Tensor, x: torch.Tensor, window: Sequence[int], stride: list[int], padding: list[int]) -> torch.Tensor:
    """``sum of x[n, c, stride * i + tap - padding] * gradient[n, c, i]`` over n and i: (C, 1, *window)."""
    seen = F.pad(x, [before for before in reversed(padding) for _ in range(2)])
    for dim, (size, step) in enumerate(zip(window, stride, strict=True), start=2):
        seen = seen.unfold(dim, size, step)
    spread = gradient[(...,) + (None,) * len(window)]
    return (seen * spread).sum([0, *range(2, 2 + len(window))]).unsqueeze(1)


def for_each_dim(given: Sequence[int], count: int) -> list[int]:
    """An argument of a convolution, of which one number may stand for all dims."""
    return list(given) * count if len(given) == 1 else list(given)
