"""Comparison with eager in f64: an error may be as large as eager's own, doubled, plus a little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.utils
from torch.utils import _pytree as pytree

# Floor of the allowed error, relative to the largest reference value: a few units in the last place.
FLOOR = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


class Inaccurate(AssertionError):
    """Everything is as in eager, but finite values are further from the exact ones than is allowed."""


def graphs_compiled() -> int:
    """How many graphs Dynamo has compiled in this process."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def to_double(tree: Any) -> Any:
    def widen(value: Any) -> Any:
        is_low = isinstance(value, torch.Tensor) and value.dtype in FLOOR
        return value.detach().double() if is_low else value

    return pytree.tree_map(widen, tree)


def exact_or_eager(function: Callable[..., Any], arguments: Any) -> Any:
    """The result in f64 where the function takes f64, eager's otherwise."""
    try:
        return function(*to_double(arguments))
    except (RuntimeError, ValueError, TypeError):
        return function(*arguments)


def assert_close(got: Any, eager: Any, exact: Any, what: str) -> None:
    """Structure, dtype, shape and strides as eager's; values within twice eager's error."""
    got_leaves, got_spec = pytree.tree_flatten(got)
    eager_leaves, eager_spec = pytree.tree_flatten(eager)
    assert len(got_leaves) == len(eager_leaves), f"{what}: {got_spec} instead of {eager_spec}"
    exact_leaves = pytree.tree_leaves(exact)
    for position, (g, e, x) in enumerate(zip(got_leaves, eager_leaves, exact_leaves, strict=True)):
        where = f"{what}, output {position}"
        if not isinstance(e, torch.Tensor):
            assert g == e, where
            continue
        assert g.dtype == e.dtype, f"{where}: dtype {g.dtype} instead of {e.dtype}"
        assert g.shape == e.shape, f"{where}: shape {tuple(g.shape)} instead of {tuple(e.shape)}"
        _assert_values(g.detach(), e.detach(), x.detach(), where)


def _assert_values(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, where: str) -> None:
    if got.dtype not in FLOOR or got.numel() == 0:
        assert torch.equal(got, eager), f"{where}: {got} instead of {eager}"
        return
    g, e, x = got.double(), eager.double(), exact.double()
    e = torch.where(_overflowed(eager, exact) & torch.isfinite(g), x, e)
    finite = torch.isfinite(e) & torch.isfinite(x)
    same_special = torch.equal(g[~finite].nan_to_num(7e77), e[~finite].nan_to_num(7e77))
    assert same_special, f"{where}: special values {g[~finite][:8]} instead of {e[~finite][:8]}"
    if not finite.any():
        return
    scale = max(x[finite].abs().max().item(), 1e-30)
    allowed = 2 * (e[finite] - x[finite]).abs().max().item() / scale + FLOOR[got.dtype]
    error = (g[finite] - x[finite]).abs().max().item() / scale
    if not error <= allowed:
        raise Inaccurate(f"{where}: error {error:.3g}, allowed {allowed:.3g}")


def _overflowed(eager: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Where eager's 16 bits between two operators were too few for a result that they can hold. A region keeps f32
    inside, so that its result may be the exact one."""
    if eager.dtype not in (torch.float16, torch.bfloat16):
        return torch.zeros_like(eager, dtype=torch.bool)
    return ~torch.isfinite(eager) & torch.isfinite(exact.to(eager.dtype))
