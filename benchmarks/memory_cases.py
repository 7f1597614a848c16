"""The memory-bound benchmark cases: plain PyTorch functions and the shapes to run them on.

A family is one function; each of its cases is the function at one size (``cache``: 0.5 to 4 MB moved, ``memory``: 50 to
270 MB) in one dtype. Inputs are random, fixed by a seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

Tensors = Sequence[torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Family:
    name: str
    function: Callable[..., object]
    inputs: Callable[[bool, torch.dtype], Tensors]  # (memory-sized?, dtype)


def _randn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def _rows(big: bool) -> tuple[int, int]:
    return (16384, 1024) if big else (256, 1024)


def gelu_chain(x, a, b, c, d):
    return F.gelu(x * a + b) * c + d


def add_rms_norm(x, residual, w):
    h = x + residual
    return h, F.rms_norm(h, (h.shape[-1],), w, 1e-6)


def layer_norm(x, w, b):
    return F.layer_norm(x, (x.shape[-1],), w, b, 1e-5)


def add_layer_norm(x, residual, bias, w, b):
    h = x + bias + residual
    return F.layer_norm(h, (h.shape[-1],), w, b, 1e-5)


def layer_norm_gradient(dy, x, mean, rstd, w):
    shape = (x.shape[-1],)
    return torch.ops.aten.native_layer_norm_backward(dy, x, shape, mean, rstd, w, w, (True, True, True))


def rms_norm_gradient(dy, x, rstd, w):
    normed, slope = x * rstd, dy * w
    return rstd * (slope - normed * (slope * normed).mean(-1, keepdim=True)), (dy * normed).sum(0)


def softmax(x):
    return torch.softmax(x, -1)


def masked_softmax(x, mask):
    return torch.softmax(torch.where(mask, x * 0.125, float("-inf")), -1)


def cross_entropy(x, target):
    return F.cross_entropy(x, target)


def rotary(q, cos, sin):
    half = q.shape[-1] // 2
    return q * cos + torch.cat((-q[..., half:], q[..., :half]), -1) * sin


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def geglu(x):
    gate, up = x.chunk(2, -1)
    return F.gelu(gate, approximate="tanh") * up


def quantise(x):
    scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127.0
    return torch.round(x.float() / scale).clamp(-128, 127).to(torch.int8), scale


def dequantise(q, scale, zero):
    return (q.to(zero.dtype) - zero) * scale


def row_sum(x):
    return x.sum(-1)


def column_sum(x):
    return x.sum(0)


def full_mean(x):
    return (x * x).mean()


def head_transpose(x, bias):
    return (x.permute(0, 2, 1, 3) + bias).contiguous()


def transpose(x, bias):
    return x.t() + bias


def cat_scale(a, b, c):
    return torch.cat((a, b * 2, c), -1) + 1


def split_gate(x):
    a, b, c = x.split(x.shape[-1] // 3, -1)
    return torch.sigmoid(a) * b + c


def embedding_sum(ids, words, types, positions):
    return words[ids] + types[ids % 2] + positions[: ids.shape[1]]


def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b, 1e-5))


def batch_norm_relu(x, mean, var, w, b, residual):
    return F.relu(F.batch_norm(x, mean, var, w, b) + residual)


def _vectors(big, dtype, count):
    rows, columns = _rows(big)
    return [_randn(dtype, rows, columns), *(_randn(dtype, columns) for _ in range(count))]


def _mask(rows: int, columns: int) -> torch.Tensor:
    mask = torch.rand(rows, columns) > 0.3
    mask[:, 0] = True
    return mask


def _image(big: bool) -> tuple[int, int, int, int]:
    return (8, 320, 80, 80) if big else (1, 128, 32, 32)


def _add_norm_inputs(big, dtype):
    rows, columns = (8192, 2048) if big else (256, 1024)
    return [_randn(dtype, rows, columns), _randn(dtype, rows, columns), _randn(dtype, columns)]


def _cross_entropy_inputs(big, dtype):
    rows, classes = (512, 50257) if big else (64, 8192)
    return [_randn(dtype, rows, classes) * 3, torch.randint(0, classes, (rows,))]


def _rotary_inputs(big, dtype):
    batch, heads, length, depth = (4, 32, 1024, 128) if big else (1, 8, 256, 64)
    return [_randn(dtype, batch, heads, length, depth), _randn(dtype, length, depth), _randn(dtype, length, depth)]


def _gradient_inputs(big, dtype, statistics):
    rows, columns = _rows(big)
    columns_of_one = [(torch.rand(rows, 1) + 0.5).to(dtype) for _ in statistics]
    return [_randn(dtype, rows, columns), _randn(dtype, rows, columns), *columns_of_one, _randn(dtype, columns)]


def _dequantise_inputs(big, dtype):
    rows, columns = _rows(big)
    q = torch.randint(-128, 128, (rows, columns), dtype=torch.int8)
    return [q, _randn(dtype, rows, 1), _randn(dtype, rows, 1)]


def _embedding_inputs(big, dtype):
    batch, length, width = (64, 512, 768) if big else (2, 128, 768)
    ids = torch.randint(0, 30000, (batch, length))
    return [ids, _randn(dtype, 30000, width), _randn(dtype, 2, width), _randn(dtype, 512, width)]


def _batch_norm_inputs(big, dtype):
    n, c, h, w = _image(big)
    stats = [_randn(dtype, c), torch.rand(c).to(dtype) + 0.5, _randn(dtype, c), _randn(dtype, c)]
    return [_randn(dtype, n, c, h, w), *stats, _randn(dtype, n, c, h, w)]


def _heads(big, dtype):
    b, s, h, d = (16, 1024, 16, 64) if big else (1, 256, 12, 64)
    return [_randn(dtype, b, s, h, d), _randn(dtype, b, h, s, d)]


def _square(big, dtype):
    n = 4096 if big else 512
    return [_randn(dtype, n, n), _randn(dtype, n, n)]


def _one(rows_small, columns_small, rows_big, columns_big):
    return lambda big, dtype: [_randn(dtype, *((rows_big, columns_big) if big else (rows_small, columns_small)))]


def _masked(columns):
    def inputs(big, dtype):
        rows = {64: 64, 512: 512 if big else 128}[columns]
        batch = (1 << (24 if big else 18)) // (rows * columns)
        return [_randn(dtype, 1, batch, rows, columns) * 8, _mask(rows, columns)]

    return inputs


FAMILIES: Sequence[Family] = (
    Family("gelu_chain", gelu_chain, lambda big, dtype: _vectors(big, dtype, 4)),
    Family("add_rms_norm", add_rms_norm, _add_norm_inputs),
    Family("layer_norm", layer_norm, lambda big, dtype: _vectors(big, dtype, 2)),
    Family(
        "add_layer_norm",
        add_layer_norm,
        lambda big, dtype: [_randn(dtype, *_rows(big)), _randn(dtype, *_rows(big)), *(_randn(dtype, 1024) for _ in "123")],
    ),
    Family("layer_norm_gradient", layer_norm_gradient, lambda big, dtype: _gradient_inputs(big, dtype, ["mean", "rstd"])),
    Family("rms_norm_gradient", rms_norm_gradient, lambda big, dtype: _gradient_inputs(big, dtype, ["rstd"])),
    Family("softmax_1024", softmax, _one(256, 1024, 16384, 1024)),
    Family("masked_softmax_64", masked_softmax, _masked(64)),
    Family("masked_softmax_512", masked_softmax, _masked(512)),
    Family("cross_entropy", cross_entropy, _cross_entropy_inputs),
    Family("rotary", rotary, _rotary_inputs),
    Family("swiglu", swiglu, _one(128, 2048, 8192, 4096)),
    Family("geglu", geglu, _one(128, 2048, 8192, 4096)),
    Family("quantise", quantise, _one(256, 1024, 16384, 1024)),
    Family("dequantise", dequantise, _dequantise_inputs),
    Family("row_sum", row_sum, _one(512, 1024, 32768, 1024)),
    Family("column_sum", column_sum, _one(1024, 256, 32768, 1024)),
    Family("full_mean", full_mean, _one(512, 1024, 32768, 1024)),
    Family("head_transpose", head_transpose, _heads),
    Family("transpose", transpose, _square),
    Family("cat_scale", cat_scale, lambda big, dtype: [_randn(dtype, 8192 if big else 128, 1024) for _ in "abc"]),
    Family("split_gate", split_gate, _one(128, 3072, 8192, 3072)),
    Family("embedding_sum", embedding_sum, _embedding_inputs),
    Family("group_norm_silu", group_norm_silu, lambda big, dtype: [_randn(dtype, *_image(big)) + 1, *(_randn(dtype, _image(big)[1]) for _ in "wb")]),
    Family("batch_norm_relu", batch_norm_relu, _batch_norm_inputs),
)  # fmt: skip

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SIZES = ("cache", "memory")
