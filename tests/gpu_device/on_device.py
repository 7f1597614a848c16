"""What the tests on CUDA tensors share: compile, count the regions that have kernels, compare with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tilefuse import Report
from tilefuse.backend import collect_graphs

# Sums in another order, and one rounding where eager has several.
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}


def as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _strides(value: torch.Tensor) -> list[int]:
    """Those that somebody can tell."""
    return [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1] if value.numel() else []


def assert_same(got: Any, want: Any) -> None:
    """Values within the tolerance of their dtype, strides and device as eager's."""
    for have, expected in zip(as_list(got), as_list(want), strict=True):
        assert have.device == expected.device and _strides(have) == _strides(expected)
        tolerance = TOLERANCE.get(expected.dtype, {"rtol": 0, "atol": 0})
        torch.testing.assert_close(have, expected, **tolerance, equal_nan=True)


def _in_double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def assert_as_near_as_eager(got: Any, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Of floats: no further from the function of doubles than eager is, which rounds more often, beside one rounding of the
    result and sums in another order. Whole numbers, where a tie may fall to either side: one apart, and few of them."""
    eager, exact = as_list(function(*inputs)), as_list(function(*map(_in_double, inputs)))
    for have, want, true in zip(as_list(got), eager, exact, strict=True):
        assert have.device == want.device and have.dtype == want.dtype and _strides(have) == _strides(want)
        if not have.is_floating_point():
            apart = (have.long() - want.long()).abs()
            assert apart.max() <= 1 and apart.float().mean() < 1e-3
            continue
        scale = max(true.abs().max().item(), 1e-30)
        error, eagers = ((value.double() - true).abs().max().item() / scale for value in (have, want))
        rounding = torch.finfo(have.dtype).eps / 2
        assert error <= eagers + rounding + 1e-5, f"{error:.1e} from the function of doubles, eager {eagers:.1e}"


def kernels_of(function: Callable[..., Any], inputs: Sequence[Any], **options: Any) -> tuple[Any, int]:
    """The result of the compiled function, and how many of its regions have kernels."""
    with collect_graphs() as graphs:
        got = torch.compile(function, backend="tilefuse", options=options or None)(*inputs)
    regions = list(Report(graphs).regions())
    assert not [graph for graph in graphs if graph.answer["op"] is None]
    return got, sum(region["refusal"] is None for region in regions)
