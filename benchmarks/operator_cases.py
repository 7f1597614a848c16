"""The ready operators with arguments of 0.5 to 4 MB, and what torch has by hand for the same.

``LIBRARY[name]`` is a label and, where the plain function is not itself one call of that kernel, the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class OpCase:
    """``make(dtype)``: the arguments, which are named in ``shape``."""

    shape: str
    make: Callable[[torch.dtype], tuple]
    keywords: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _randn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def _rows(count: int) -> Callable[[torch.dtype], tuple]:
    return lambda dtype: tuple(_randn(dtype, 256, 1024) for _ in range(count))


def _int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


OPS: dict[str, OpCase] = {
    "rms_norm": OpCase("256 x 1024", lambda t: (_randn(t, 256, 1024), _randn(t, 1024))),
    "add_rms_norm": OpCase("256 x 1024", lambda t: (_randn(t, 256, 1024), _randn(t, 256, 1024), _randn(t, 1024))),
    "layer_norm": OpCase("256 x 1024", lambda t: (_randn(t, 256, 1024), _randn(t, 1024), _randn(t, 1024))),
    "group_norm_silu": OpCase(
        "2 x 64 x 32 x 32, 8 groups", lambda t: (_randn(t, 2, 64, 32, 32), 8, _randn(t, 64), _randn(t, 64))
    ),
    "softmax": OpCase("8 x 128 x 256, masked", lambda t: (_randn(t, 8, 128, 256), torch.rand(128, 256) > 0.3, 0.125)),
    "swiglu": OpCase("256 x 1024", _rows(2)),
    "geglu": OpCase("256 x 1024", _rows(2), {"approximate": "tanh"}),
    "rotary_embedding": OpCase(
        "2 x 8 x 128 x 64", lambda t: (_randn(t, 2, 8, 128, 64), _randn(t, 128, 64), _randn(t, 128, 64))
    ),
    "cross_entropy": OpCase("128 x 4000", lambda t: (_randn(t, 128, 4000), torch.randint(0, 4000, (128,)))),
    "linear_cross_entropy": OpCase(
        "128 x 256, 4000 classes", lambda t: (_randn(t, 128, 256), _randn(t, 4000, 256), torch.randint(0, 4000, (128,)))
    ),
    "attention": OpCase("1 x 8 x 128 x 64", lambda t: tuple(_randn(t, 1, 8, 128, 64) for _ in range(3))),
    "quantise_per_token": OpCase("256 x 1024", _rows(1)),
    "dequantise_per_token": OpCase("256 x 1024", lambda t: (_int8(256, 1024), _randn(t, 256, 1))),
    "quantise_per_group": OpCase("256 x 1024, groups of 64", lambda t: (_randn(t, 256, 1024), 64)),
    "dequantise_per_group": OpCase("256 x 1024, groups of 64", lambda t: (_int8(256, 1024), _randn(t, 256, 16))),
    "sum": OpCase("256 x 1024, rows", lambda t: (_randn(t, 256, 1024), [-1])),
    "mean": OpCase("256 x 1024, columns", lambda t: (_randn(t, 256, 1024), [0])),
    "var": OpCase("256 x 1024, rows", lambda t: (_randn(t, 256, 1024), [-1])),
    "norm": OpCase("256 x 1024, all", lambda t: (_randn(t, 256, 1024),)),
    "amax": OpCase("256 x 1024, rows", lambda t: (_randn(t, 256, 1024), [-1])),
    "amin": OpCase("256 x 1024, columns", lambda t: (_randn(t, 256, 1024), [0])),
    "logsumexp": OpCase("256 x 1024, rows", lambda t: (_randn(t, 256, 1024), [-1])),
}


def _dequantise(q: torch.Tensor, scale: torch.Tensor) -> Callable[[], Any]:
    zeros = torch.zeros(len(q), dtype=torch.int64)
    quantised = torch._make_per_channel_quantized_tensor(q, scale.flatten().double().abs(), zeros, 0)
    return lambda: quantised.dequantize()


LIBRARY: dict[str, tuple[str, Callable[..., Callable[[], Any]] | None]] = {
    "layer_norm": ("native_layer_norm", None),
    "attention": ("flash attention", None),
    "linear_cross_entropy": (
        "F.linear_cross_entropy", lambda x, w, target: lambda: F.linear_cross_entropy(x, w, target)
    ),
    "dequantise_per_token": ("quantised dequantize", _dequantise),
    "sum": ("sum", None), "mean": ("mean", None), "var": ("var", None), "norm": ("linalg_vector_norm", None),
    "amax": ("amax", None), "amin": ("amin", None),
}  # fmt: skip
