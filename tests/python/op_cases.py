"""Arguments for every ready operator, by name: for tests of values, gradients, opcheck and compilers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from tilefuse import ops

Make = Callable[[int, torch.dtype], tuple]


@dataclasses.dataclass(frozen=True)
class Case:
    """``make(n, dtype)``: arguments whose ragged extent is n. ``keywords`` go along."""

    make: Make
    keywords: dict[str, Any] = dataclasses.field(default_factory=dict)
    differentiable: bool = True
    takes_empty: bool = True


def _randn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


def _mask(*shape: int) -> torch.Tensor:
    mask = torch.rand(shape) > 0.3
    mask[..., 0] = True  # a row without any key is NaN in eager
    return mask


def _heads(n: int, dtype: torch.dtype) -> tuple:
    return tuple(_randn(dtype, 2, 3, n, 8) for _ in range(3))


def _quantised(n: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-128, 128, (n, 24), dtype=torch.int8)


CASES: dict[str, Case] = {
    "rms_norm": Case(lambda n, t: (_randn(t, n, 37), _randn(t, 37))),
    "add_rms_norm": Case(lambda n, t: (_randn(t, n, 37), _randn(t, n, 37), _randn(t, 37))),
    "layer_norm": Case(lambda n, t: (_randn(t, n, 37), _randn(t, 37), _randn(t, 37))),
    "group_norm_silu": Case(lambda n, t: (_randn(t, n, 6, 5, 3), 3, _randn(t, 6), _randn(t, 6))),
    "softmax": Case(lambda n, t: (_randn(t, n, 33), _mask(n, 33), 0.5)),
    "swiglu": Case(lambda n, t: (_randn(t, n, 21), _randn(t, n, 21))),
    "geglu": Case(lambda n, t: (_randn(t, n, 21), _randn(t, n, 21)), {"approximate": "tanh"}),
    "rotary_embedding": Case(lambda n, t: (_randn(t, 2, 3, n, 16), _randn(t, n, 16), _randn(t, n, 16))),
    "cross_entropy": Case(lambda n, t: (_randn(t, n, 19), torch.randint(0, 19, (n,)))),
    "linear_cross_entropy": Case(lambda n, t: (_randn(t, n, 11), _randn(t, 19, 11), torch.randint(0, 19, (n,)))),
    "attention": Case(lambda n, t: (*_heads(n, t), _mask(n, n))),
    "quantise_per_token": Case(lambda n, t: (_randn(t, n, 24),), differentiable=False),
    "dequantise_per_token": Case(lambda n, t: (_quantised(n, t), _randn(t, n, 1))),
    "quantise_per_group": Case(lambda n, t: (_randn(t, n, 24), 8), differentiable=False),
    "dequantise_per_group": Case(lambda n, t: (_quantised(n, t), _randn(t, n, 3))),
    "sum": Case(lambda n, t: (_randn(t, n, 33), [-1])),
    "mean": Case(lambda n, t: (_randn(t, n, 33), [0]), {"keepdim": True}),
    "var": Case(lambda n, t: (_randn(t, n, 33), [1])),
    "norm": Case(lambda n, t: (_randn(t, n, 33),)),
    "amax": Case(lambda n, t: (_randn(t, n, 33), [1])),
    "amin": Case(lambda n, t: (_randn(t, n, 33), [1], True)),
    "logsumexp": Case(lambda n, t: (_randn(t, n, 33), [1])),
}


def call(name: str) -> Callable[..., Any]:
    """The operator with the case's keywords."""
    case = CASES[name]
    return lambda *args: getattr(ops, name)(*args, **case.keywords)


def plain(name: str) -> Callable[..., Any]:
    """Its function with the case's keywords."""
    case = CASES[name]
    return lambda *args: getattr(ops, name).plain(*args, **case.keywords)
