"""Matrix products with what stands around them in models: plain PyTorch functions and the inputs to run them on."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from memory_cases import Family, Tensors


def _randn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def _weight(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(*shape) * shape[-1] ** -0.5).to(dtype)


def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


def conv1d_gelu(x, w, b):  # weights as GPT-2 keeps them
    return F.gelu(torch.addmm(b, x, w), approximate="tanh")


def linear_residual_norm(x, w, b, r, g):
    return F.rms_norm(F.linear(x, w, b) + r, (r.shape[-1],), g)


def gated_mlp(x, gate, up):
    return F.silu(x @ gate) * (x @ up)


def lora(x, w, a, b):
    return x @ w + (x @ a) @ b


def qkv(x, q, k, v):
    return torch.cat((x @ q, x @ k, x @ v), -1)


def dequantised(x, w, scale):
    return x @ (w.to(x.dtype) * scale)


def batched_relu(a, b):
    return torch.relu(a @ b)


def weight_gradient(dy, x):  # of a linear layer: both factors lie across the sum over rows
    return dy.t() @ x


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def _scores(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def _distance(s):
    queries, keys = s.shape[-2:]
    return torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)


def attention_causal(q, k, v):
    s = _scores(q, k)
    return torch.softmax(s.masked_fill(_distance(s) > 0, float("-inf")), -1) @ v


def attention_window(q, k, v):
    s = _scores(q, k)
    far = _distance(s)
    return torch.softmax(s.masked_fill((far > 0) | (far <= -128), float("-inf")), -1) @ v


def attention_bias(q, k, v, bias):
    return torch.softmax(_scores(q, k) + bias, -1) @ v


def attention_alibi(q, k, v, slopes):
    s = _scores(q, k)
    return torch.softmax(s + slopes[:, None, None] * _distance(s), -1) @ v


def attention_soft_cap(q, k, v):
    return torch.softmax(30 * torch.tanh(_scores(q, k) / 30), -1) @ v


def causal_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_gradients(q, k, v, change, is_causal=False):
    attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    output, spread = attend(q, k, v, 0.0, is_causal)
    differentiate = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return differentiate(change, q, k, v, output, spread, 0.0, is_causal)


def causal_attention_gradients(q, k, v, change):
    return attention_gradients(q, k, v, change, is_causal=True)


def _linear(rows: int, inputs: int, outputs: int):
    return lambda _big, dtype: [_randn(dtype, rows, inputs), _weight(dtype, outputs, inputs), _randn(dtype, outputs)]


def _conv1d(rows: int, inputs: int, outputs: int):
    return lambda _big, dtype: [_randn(dtype, rows, inputs), _weight(dtype, outputs, inputs).t().contiguous(), _randn(dtype, outputs)]


def _gradient_inputs(big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 1024, 768), _randn(dtype, 1024, 1024)]


def _plain(rows: int, inputs: int, outputs: int, weights: int):
    return lambda _big, dtype: [_randn(dtype, rows, inputs), *(_weight(dtype, outputs, inputs).t().contiguous() for _ in range(weights))]


def _lora_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 128, 512), _randn(dtype, 512, 512) / 22, _randn(dtype, 512, 8) / 22, _randn(dtype, 8, 512)]


def _residual_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [*_linear(128, 512, 512)(False, dtype), _randn(dtype, 128, 512), _randn(dtype, 512)]


def _quantised(rows: int):
    def inputs(_big: bool, dtype: torch.dtype) -> Tensors:
        weight = torch.randint(-127, 128, (1024, 1024), dtype=torch.int8)
        return [_randn(dtype, rows, 1024), weight, (torch.rand(1024) / 100 + 0.001).to(dtype)]

    return inputs


def _batch(count: int, size: int):
    return lambda _big, dtype: [_randn(dtype, count, size, size) for _ in "ab"]


def _heads(length: int):
    return lambda _big, dtype: [_randn(dtype, 1, 12, length, 64) for _ in "qkv"]


def _heads_with(length: int, *extra: int):
    return lambda _big, dtype: [*_heads(length)(False, dtype), _randn(dtype, *extra)]


def _decode_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 1, 12, 1, 64), *(_randn(dtype, 1, 12, 2048, 64) for _ in "kv")]


FAMILIES = (
    Family("linear_gelu_1", linear_gelu, _linear(1, 1024, 1024)),
    Family("linear_gelu_8", linear_gelu, _linear(8, 512, 1024)),
    Family("linear_gelu_128", linear_gelu, _linear(128, 512, 1024)),
    Family("linear_gelu_512", linear_gelu, _linear(512, 768, 3072)),
    Family("linear_residual_norm", linear_residual_norm, _residual_inputs),
    Family("conv1d_gelu_128", conv1d_gelu, _conv1d(128, 512, 1024)),
    Family("gated_mlp_64", gated_mlp, _plain(64, 512, 1024, 2)),
    Family("qkv_128", qkv, _plain(128, 512, 512, 3)),
    Family("lora_128", lora, _lora_inputs),
    Family("dequantised_1", dequantised, _quantised(1)),
    Family("dequantised_8", dequantised, _quantised(8)),
    Family("batched_16", batched_relu, _batch(256, 16)),
    Family("batched_64", batched_relu, _batch(64, 64)),
    Family("long_sum_16384", batched_relu, _plain(128, 16384, 256, 1)),
    Family("weight_gradient_1024", weight_gradient, _gradient_inputs),
    Family("attention_128", attention, _heads(128)),
    Family("attention_512", attention, _heads(512)),
    Family("causal_attention_512", causal_attention, _heads(512)),
    Family("attention_causal_512", attention_causal, _heads(512)),
    Family("attention_window_512", attention_window, _heads(512)),
    Family("attention_bias_512", attention_bias, _heads_with(512, 12, 512, 512)),
    Family("attention_alibi_512", attention_alibi, _heads_with(512, 12)),
    Family("attention_soft_cap_512", attention_soft_cap, _heads(512)),
    Family("attention_gradients_512", attention_gradients, _heads_with(512, 1, 12, 512, 64)),
    Family("causal_gradients_512", causal_attention_gradients, _heads_with(512, 1, 12, 512, 64)),
    Family("attention_decode_2048", attention, _decode_inputs),
)
