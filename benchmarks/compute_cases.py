"""Cases bounded by multiplications: large products, attention and convolutions with what stands around them, and linear layers of few rows.

Each is a module whose weights are parameters, so that ``--freeze`` makes constants of them, and is timed in one dtype.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from conv_cases import norm_relu
from product_cases import linear_gelu

F32, BF16 = torch.float32, torch.bfloat16
SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (512, 3072, 768), (512, 768, 3072), (128, 4096, 1024),
          (1000, 1008, 1000), (4096, 4096, 4096))  # fmt: skip
GATED_SHAPES = ((16, 5632, 2048), (128, 2816, 1024), (512, 2816, 1024), (1024, 5632, 2048))
BATCHED_SHAPES = ((512, 32), (64, 64), (512, 64), (128, 128))  # count, size
HEADS = ((1, 4096, 64, True), (12, 128, 64, False), (12, 512, 64, False), (12, 2048, 64, False), (12, 2048, 64, True),
         (12, 1000, 64, True), (12, 512, 128, False), (12, 2048, 128, False), (12, 2048, 128, True))  # fmt: skip
IMAGES = ((1, 64, 56), (1, 128, 28), (1, 256, 14), (1, 512, 7), (8, 64, 56), (8, 256, 14))  # batch, channels, size
FEW_ROWS = (1, 2, 4, 8, 16, 32)
LAYERS = 12  # of 4 MiB each: more than caches hold


class Applied(torch.nn.Module):
    """``function(*inputs, *weights)``, the weights parameters."""

    def __init__(self, function: Callable[..., torch.Tensor], *weights: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(w, requires_grad=False) for w in weights)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs, *self.weights)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    dtype: torch.dtype
    make: Callable[[torch.dtype], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]


def linear_residual(x, residual, w, b):
    return F.linear(x, w, b) + residual


def gated_mlp(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def layers(x, *weights):
    for w in weights:
        x = F.gelu(F.linear(x, w))
    return x


def _randn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def _weight(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(*shape) * shape[-1] ** -0.5).to(dtype)


def _linear(rows: int, outputs: int, inner: int):
    return lambda t: (Applied(linear_gelu, _weight(t, outputs, inner), _randn(t, outputs)), (_randn(t, rows, inner),))


def _residual(rows: int, outputs: int, inner: int):
    weights = lambda t: (_weight(t, outputs, inner), _randn(t, outputs))  # noqa: E731
    return lambda t: (Applied(linear_residual, *weights(t)), (_randn(t, rows, inner), _randn(t, rows, outputs)))


def _gated(rows: int, outputs: int, inner: int):
    return lambda t: (Applied(gated_mlp, *(_weight(t, outputs, inner) for _ in "gu")), (_randn(t, rows, inner),))


def _layers(rows: int):
    return lambda t: (Applied(layers, *(_weight(t, 1024, 1024) for _ in range(LAYERS))), (_randn(t, rows, 1024),))


def _batched(count: int, size: int):
    return lambda t: (Applied(torch.bmm), tuple(_randn(t, count, size, size) for _ in "ab"))


def _attention(heads: int, length: int, width: int, causal: bool):
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
    return lambda t: (Applied(attend), tuple(_randn(t, 1, heads, length, width) for _ in "qkv"))


def _convolution(batch: int, channels: int, size: int):
    def make(t: torch.dtype):
        last = {"memory_format": torch.channels_last}
        weight = (torch.randn(channels, channels, 3, 3) * (9 * channels) ** -0.5).to(t).to(**last)
        norm = [torch.randn(channels), torch.rand(channels) + 0.5, torch.rand(channels) + 0.5, torch.randn(channels)]
        return Applied(norm_relu, weight, *(n.to(t) for n in norm)), (_randn(t, batch, channels, size, size).to(**last),)

    return make


def _cases() -> Iterator[Case]:
    for dtype in (F32, BF16):
        for heads, length, width, causal in HEADS:
            name = f"attention_{'causal_' * causal}{heads}x{length}x{width}"
            yield Case(name, dtype, _attention(heads, length, width, causal))
        for shape in SHAPES:
            kind, make = ("linear_gelu", _linear) if dtype == F32 else ("linear_residual", _residual)
            yield Case(f"{kind}_{'x'.join(map(str, shape))}", dtype, make(*shape))
        for shape in GATED_SHAPES:
            yield Case(f"gated_mlp_{'x'.join(map(str, shape))}", dtype, _gated(*shape))
        for rows in FEW_ROWS:
            yield Case(f"rows_{rows}", dtype, _linear(rows, 1024, 1024))
            yield Case(f"layers_rows_{rows}", dtype, _layers(rows))
    for count, size in BATCHED_SHAPES:
        yield Case(f"batched_{count}x{size}", F32, _batched(count, size))
    for image in IMAGES:
        yield Case(f"convolution_{'x'.join(map(str, image))}", F32, _convolution(*image))


CASES = tuple(_cases())
