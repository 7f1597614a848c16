"""Transposed convolutions as convolutions.

An element of the result at ``stride * q + phase`` adds up every stride-th tap, times the elements of the image around q. So each phase of the
result is a convolution of the image with a part of the filters, turned around, and the results lie side by side. The library makes a
transposed convolution in another way: a product for every tap into a buffer that has all of them, which is added up into the result. On
one core of an Intel processor (Emerald Rapids, f32) it takes 1.1 to 4 times as long where the rule below applies; elsewhere it takes as
long or less.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilefuse.convolution_rules import for_each_dim

__all__ = ["phase_rules"]

aten = torch.ops.aten

# Positions of all images, fewer of which do not pay for turning the filters.
_LEAST_POSITIONS = 1024
# Elements that the library's buffer of taps has for an image, where the phases are convolutions of different windows, a call for each.
_MANY_TAPS = 1 << 20
# Products of an element: of fewer, a kernel of the engine makes the transposed convolution as it is.
_LEAST_PRODUCTS = 32


def phase_rules() -> dict[Any, Callable[..., Any]]:
    """By operator, for ``aot_autograd``. A function returns NotImplemented where the operator stays."""
    return {aten.convolution.default: _by_phases}


@dataclasses.dataclass(frozen=True)
class _Dim:
    """Along one dim of the images."""

    image: int
    window: int
    stride: int
    padding: int
    result: int

    @property
    def positions(self) -> int:
        """Of each phase; the last one may be beyond the result."""
        return -(-self.result // self.stride)

    def phase(self, number: int) -> _Phase:
        first, ahead = (number + self.padding) % self.stride, (number + self.padding) // self.stride
        taps = len(range(first, self.window, self.stride))
        before, behind = taps - 1 - ahead, self.positions + ahead - self.image
        padding = max(before, behind, 0)
        return _Phase(first, taps, padding, padding - before)


@dataclasses.dataclass(frozen=True)
class _Phase:
    tap: int  # the first one; the others are a stride apart
    taps: int
    padding: int  # of the convolution, on both sides
    position: int  # of its result, where the phase begins


def _by_phases(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    if not transposed or not _is_plain(x, weight, dilation):
        return NotImplemented
    count = x.dim() - 2
    moves = zip(*(for_each_dim(given, count) for given in (stride, padding, output_padding)), strict=True)
    dims = [
        _Dim(image, window, step, before, (image - 1) * step - 2 * before + window + behind)
        for image, window, (step, before, behind) in zip(x.shape[2:], weight.shape[2:], moves, strict=True)
    ]
    if not _is_quicker(x, weight, dims, groups):
        return NotImplemented
    phases = [
        [dim.phase(number) for dim, number in zip(dims, numbers, strict=True)]
        for numbers in itertools.product(*(range(dim.stride) for dim in dims))
    ]
    filters = _turned(weight, groups)
    if groups == 1 and _are_even(dims):
        results = _together(x, filters, bias, phases, dims)
    else:
        results = [_convolved(x, _part(filters, phase, dims), bias, [each.padding for each in phase], groups) for phase in phases]
        results = [_cut(result, [each.position for each in phase], dims) for result, phase in zip(results, phases, strict=True)]
    return _side_by_side(results, dims)


def _is_plain(x: torch.Tensor, weight: torch.Tensor, dilation: Sequence[int]) -> bool:
    is_ours = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and x.dim() == weight.dim() > 2
    sizes = (*x.shape[1:], *weight.shape)
    return is_ours and all(isinstance(size, int) and size > 0 for size in sizes) and all(step == 1 for step in dilation) and x.is_contiguous()


def _are_even(dims: Sequence[_Dim]) -> bool:
    """Whether every phase has as many taps."""
    return all(dim.window % dim.stride == 0 for dim in dims)


def _is_quicker(x: torch.Tensor, weight: torch.Tensor, dims: Sequence[_Dim], groups: int) -> bool:
    if any(dim.result < dim.stride or dim.window < dim.stride for dim in dims):
        return False
    one_image = math.prod(dim.image for dim in dims)
    images = x.shape[0] if isinstance(x.shape[0], int) else 1
    steps = math.prod(-(-dim.window // dim.stride) for dim in dims)
    if images * one_image < _LEAST_POSITIONS or steps * (weight.shape[0] // groups) < _LEAST_PRODUCTS:
        return False
    if len(dims) == 3 and steps > 1:  # the library has no quick kernel for small volumes on one thread
        return False
    return _are_even(dims) or math.prod(weight.shape[1:]) * one_image >= _MANY_TAPS


def _turned(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """[in, out of a group, taps] as [out, in of a group, taps]."""
    channels, members, *window = weight.shape
    return weight.reshape(groups, channels // groups, members, *window).transpose(1, 2).reshape(groups * members, channels // groups, *window)


def _part(filters: torch.Tensor, phase: Sequence[_Phase], dims: Sequence[_Dim]) -> torch.Tensor:
    for place, (each, dim) in enumerate(zip(phase, dims, strict=True), start=2):
        filters = aten.slice.Tensor(filters, place, each.tap, dim.window, dim.stride)
    return filters.flip(list(range(2, filters.dim())))


def _convolved(x: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None, padding: list[int], groups: int) -> torch.Tensor:
    ones, zeros = [1] * len(padding), [0] * len(padding)
    return aten.convolution.default(x, filters.contiguous(), bias, ones, padding, ones, False, zeros, groups)


def _together(
    x: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None, phases: Sequence[Sequence[_Phase]], dims: Sequence[_Dim]
) -> list[torch.Tensor]:
    """One convolution for all phases, of as many times the channels."""
    padding = [max(phase[place].padding for phase in phases) for place in range(len(dims))]
    parts = torch.cat([_part(filters, phase, dims) for phase in phases])
    both = _convolved(x, parts, None if bias is None else bias.repeat(len(phases)), padding, 1)
    members = filters.shape[0]
    results = []
    for number, phase in enumerate(phases):
        begins = [each.position + most - each.padding for each, most in zip(phase, padding, strict=True)]
        results.append(_cut(both.narrow(1, number * members, members), begins, dims))
    return results


def _cut(result: torch.Tensor, begins: Sequence[int], dims: Sequence[_Dim]) -> torch.Tensor:
    for place, (begin, dim) in enumerate(zip(begins, dims, strict=True), start=2):
        result = result.narrow(place, begin, dim.positions)
    return result


def _side_by_side(phases: Sequence[torch.Tensor], dims: Sequence[_Dim]) -> torch.Tensor:
    count = len(dims)
    images, channels = phases[0].shape[:2]
    apart = torch.stack(list(phases), -1).view(*phases[0].shape, *(dim.stride for dim in dims))
    order = [0, 1, *itertools.chain(*((2 + place, 2 + count + place) for place in range(count)))]
    result = apart.permute(order).reshape(images, channels, *(dim.positions * dim.stride for dim in dims))
    for place, dim in enumerate(dims, start=2):
        result = result.narrow(place, 0, dim.result)
    return result.contiguous()
