"""Whole kernels written in plain PyTorch: a product or a convolution and what stands around it; how many regions they take.

``own`` puts the product into the region whoever would be faster, so that these tests say what can fuse, not what pays.
"""

import math

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double
from processors import FIXED_TARGET

OWN = {"products": "own", "strict": True, "threads": 2}  # prices of regions depend on the number of threads


def t(*shape, scale=1.0):
    return torch.randn(*shape) * scale


def weight(*shape):
    return t(*shape, scale=shape[-1] ** -0.5)


# ---------------------------------------------------------------- epilogues
def bias_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


def residual(x, w, b, r):
    return torch.relu(F.linear(x, w, b)) + r


def norm_scale(x, w, scale):
    return F.linear(x, w) * torch.rsqrt(scale + 1e-6)


def dropout_by_mask(x, w, keep):
    return F.linear(x, w) * keep * 2.0


def cast_to_bf16(x, w):
    return F.linear(x, w).to(torch.bfloat16)


def quantise(x, w, scale):
    return torch.round(F.linear(x, w) / scale).clamp(-128, 127).to(torch.int8)


# ---------------------------------------------------------------- statistics of rows
def row_sum(x, w):
    return torch.sigmoid(F.linear(x, w)).sum(-1)


def row_max(x, w):
    y = F.linear(x, w)
    return y - y.amax(-1, keepdim=True)


def norm_of_the_product(x, w, g):
    return F.rms_norm(F.linear(x, w), (w.shape[0],), g)


# ---------------------------------------------------------------- prologues
def norm_before(x, w, g):
    return F.linear(F.layer_norm(x, (x.shape[-1],), g), w)


def int8_weights(x, q, scale):
    return x @ (q.float() * scale)


def int4_groups(x, packed, scale):
    low = (packed & 15).to(torch.int8) - 8
    high = (packed >> 4).to(torch.int8) - 8
    q = torch.stack((low, high), -1).flatten(-2).float()
    return x @ (q.unflatten(-1, (-1, 32)) * scale[:, :, None]).flatten(-2).T


def gathered_rows(x, index, w):
    return x[index] @ w


# ---------------------------------------------------------------- several products
def gated_mlp(x, gate, up):
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def low_rank(x, a, b):
    return (x @ a) @ b


def small_mlp(x, w, v):
    return F.linear(F.relu(F.linear(x, w)), v)


def qkv(x, q, k, v):
    return F.linear(x, q), F.linear(x, k), F.linear(x, v)


def decode(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def cross_entropy(x, w, target):
    return F.cross_entropy(F.linear(x, w), target, reduction="none")


def chunked_linear_attention(q, k, v):
    inside = torch.tril(q @ k.transpose(-1, -2)) @ v
    state = (k.transpose(-1, -2) @ v).cumsum(1)
    return inside[:, 1:] + q[:, 1:] @ state[:, :-1]


def combine(x, w, index, out):
    return out.index_add(0, index, x @ w)


# ---------------------------------------------------------------- convolutions
def convolution_norm_activation_residual(x, w, mean, variance, r):
    return F.relu(F.batch_norm(F.conv2d(x, w, padding=1), mean, variance)) + r


def convolution_pool(x, w, b):
    return F.max_pool2d(F.relu(F.conv2d(x, w, b)), 2)


def convolution_to_scalars(x, w, b):
    return torch.sigmoid(F.avg_pool2d(F.conv2d(x, w, b), 2)).sum((1, 2, 3))


# function, inputs, the most regions that it takes
KERNELS = {
    "bias_gelu": (bias_gelu, lambda: (t(48, 64), weight(96, 64), t(96)), 1),
    "residual": (residual, lambda: (t(48, 64), weight(96, 64), t(96), t(48, 96)), 1),
    "norm_scale": (norm_scale, lambda: (t(48, 64), weight(96, 64), torch.rand(48, 1)), 1),
    "dropout_by_mask": (dropout_by_mask, lambda: (t(48, 64), weight(96, 64), (torch.rand(48, 96) > 0.5).float()), 1),
    "cast_to_bf16": (cast_to_bf16, lambda: (t(48, 64), weight(96, 64)), 1),
    "quantise": (quantise, lambda: (t(48, 64), weight(96, 64), torch.tensor(0.05)), 1),
    "row_sum": (row_sum, lambda: (t(48, 64), weight(96, 64)), 2),
    "row_max": (row_max, lambda: (t(48, 64), weight(96, 64)), 2),
    "norm_of_the_product": (norm_of_the_product, lambda: (t(48, 64), weight(96, 64), t(96)), 2),
    "norm_before": (norm_before, lambda: (t(48, 64), weight(96, 64), t(64)), 2),
    "int8_weights": (int8_weights, lambda: (t(48, 64), torch.randint(-127, 127, (64, 96), dtype=torch.int8), t(96)), 2),
    "int4_groups": (int4_groups, lambda: (t(8, 64), torch.randint(0, 255, (96, 32), dtype=torch.uint8), t(96, 2)), 1),
    "gathered_rows": (gathered_rows, lambda: (t(80, 64), torch.randint(0, 80, (48,)), weight(96, 64).T), 2),
    "combine": (combine, lambda: (t(48, 64), weight(96, 64).T, torch.randint(0, 20, (48,)), t(20, 96)), 1),
    "gated_mlp": (gated_mlp, lambda: (t(48, 64), weight(96, 64), weight(96, 64)), 1),
    "low_rank": (low_rank, lambda: (t(48, 64), t(64, 8), t(8, 96)), 2),
    "small_mlp": (small_mlp, lambda: (t(48, 64), weight(32, 64), weight(96, 32)), 2),
    "qkv": (qkv, lambda: (t(48, 64), weight(64, 64), weight(64, 64), weight(64, 64)), 3),
    "decode": (decode, lambda: (t(2, 4, 1, 32), t(2, 4, 300, 32), t(2, 4, 300, 32)), 1),
    "cross_entropy": (cross_entropy, lambda: (t(24, 32), weight(500, 32), torch.randint(0, 500, (24,))), 2),
    "chunked_linear_attention": (chunked_linear_attention, lambda: (t(2, 4, 16, 32), t(2, 4, 16, 32), t(2, 4, 16, 32)), 4),
    "convolution_norm_activation_residual": (
        convolution_norm_activation_residual,
        lambda: (t(1, 8, 14, 20), weight(8, 8, 3, 3), t(8), torch.rand(8) + 0.5, t(1, 8, 14, 20)),
        1,
    ),
    "convolution_pool": (convolution_pool, lambda: (t(2, 3, 18, 18), weight(8, 3, 3, 3), t(8)), 2),
    "convolution_to_scalars": (convolution_to_scalars, lambda: (t(4, 3, 18, 18), weight(8, 3, 3, 3), t(8)), 3),
}


def graph_of(function, inputs):
    return tilefuse.explain(function, *inputs, options={"target": FIXED_TARGET, **OWN}).json()["graphs"][0]


def as_list(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


@pytest.mark.parametrize("name", KERNELS)
def test_is_right_and_takes_no_more_regions(name):
    function, make, regions = KERNELS[name]
    torch.manual_seed(0)
    inputs = make()
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options=OWN)(*inputs)
        eager, exact = function(*inputs), function(*to_double(inputs))
        for g, e, x in zip(as_list(got), as_list(eager), as_list(exact), strict=True):
            assert_close(g, e, x, name)
        taken = [region["ops"] for region in graph_of(function, inputs)["regions"]]
    assert len(taken) <= regions, taken
