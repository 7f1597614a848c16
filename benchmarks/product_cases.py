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


def dequantised_groups(x, packed, scale):  # two int4 to a byte, a scale for each group
    nibbles = torch.stack((packed & 15, packed >> 4), -1).reshape(*scale.shape, -1)
    weight = ((nibbles.to(x.dtype) - 8) * scale[..., None]).reshape(packed.shape[0], -1)
    return F.linear(x, weight)


def gathered(table, rows, w):
    return table[rows] @ w.t()


def norm_linear(x, g, w):
    return F.linear(F.rms_norm(x, (x.shape[-1],), g), w)


def linear_quantise(x, w, b):
    return torch.clamp(torch.round(F.linear(x, w, b) * 20), -128, 127).to(torch.int8)


def int8_linear(x, scale, w, scales, b):  # rows that were quantised before
    y = torch._int_mm(x, w.t()).float() * scale * scales + b.float()
    return F.gelu(y).to(b.dtype)


def dynamic_int8_linear(x, w, scales, b):
    scale = x.float().abs().amax(-1, keepdim=True) / 127
    return int8_linear(torch.round(x.float() / scale).to(torch.int8), scale, w, scales, b)


def linear_softmax(x, w, b):
    return torch.softmax(F.linear(x, w, b), -1)


def linear_row_maximum(x, w, b):
    return F.linear(x, w, b).amax(-1)


def small_mlp(x, w, b, v):
    return F.linear(F.gelu(F.linear(x, w, b)), v)


def linear_cross_entropy(x, w, labels):
    return F.cross_entropy(F.linear(x, w), labels)


def expert_combine(x, w, share, rows, result):  # what an expert of a mixture gives back
    return result.index_add(0, rows, F.linear(x, w) * share[:, None])


def chunked_linear_attention(q, k, v, chunk=64):
    q, k, v = (t.unflatten(2, (-1, chunk)) for t in (q, k, v))
    state = k.transpose(-1, -2) @ v
    before = state.cumsum(2) - state
    return (q @ before + torch.tril(q @ k.transpose(-1, -2)) @ v).flatten(2, 3)


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


def attention_sink(q, k, v, sink):
    s = _scores(q, k)
    s = torch.cat((s, sink[None, :, None, None].expand(*s.shape[:-1], 1)), -1)
    return torch.softmax(s, -1)[..., :-1] @ v


def attention_relative(q, k, v, table):
    s = _scores(q, k)
    return torch.softmax(s + table[:, _distance(s) + s.shape[-1] - 1], -1) @ v


def attention_documents(q, k, v, document):
    s = _scores(q, k)
    return torch.softmax(s.masked_fill(document[:, None] != document, float("-inf")), -1) @ v


def attention_grouped(q, k, v):
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    return torch.softmax(_scores(q, k), -1) @ v


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


def _int8(*shape: int) -> torch.Tensor:
    return torch.randint(-127, 128, shape, dtype=torch.int8)


def _int8_linear(rows: int, inputs: int, outputs: int):
    def made(_big: bool, dtype: torch.dtype) -> Tensors:
        return [_int8(rows, inputs), torch.rand(rows, 1) / 100, _int8(outputs, inputs), torch.rand(outputs) / 100, _randn(dtype, outputs)]

    return made


def _dynamic_int8_linear(rows: int, inputs: int, outputs: int):
    return lambda _big, dtype: [_randn(dtype, rows, inputs), _int8(outputs, inputs), torch.rand(outputs) / 100, _randn(dtype, outputs)]


def _quantised_groups(rows: int):
    def inputs(_big: bool, dtype: torch.dtype) -> Tensors:
        packed = torch.randint(0, 256, (1024, 512), dtype=torch.uint8)
        return [_randn(dtype, rows, 1024), packed, (torch.rand(1024, 8) / 100 + 0.001).to(dtype)]

    return inputs


def _gather_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 30000, 512), torch.randint(0, 30000, (128,)), _weight(dtype, 1024, 512)]


def _norm_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 128, 512), _randn(dtype, 512), _weight(dtype, 1024, 512)]


def _small_mlp_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [*_linear(512, 512, 64)(False, dtype), _weight(dtype, 512, 64)]


def _labels_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 256, 256), _weight(dtype, 16000, 256), torch.randint(0, 16000, (256,))]


def _expert_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    rows = torch.randperm(1024)[:128]
    return [_randn(dtype, 128, 512), _weight(dtype, 512, 512), torch.rand(128).to(dtype), rows, _randn(dtype, 1024, 512)]


def _grouped_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 1, heads, 512, 64) for heads in (12, 3, 3)]


def _cross_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [_randn(dtype, 1, 12, length, 64) for length in (64, 1024, 1024)]


def _document_inputs(_big: bool, dtype: torch.dtype) -> Tensors:
    return [*_heads(512)(False, dtype), torch.arange(512) // 100]


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
    Family("dequantised_groups_8", dequantised_groups, _quantised_groups(8)),
    Family("gathered_128", gathered, _gather_inputs),
    Family("norm_linear_128", norm_linear, _norm_inputs),
    Family("linear_quantise_128", linear_quantise, _linear(128, 512, 1024)),
    *(Family(f"int8_linear_{rows}", int8_linear, _int8_linear(rows, 1024, 1024)) for rows in (1, 8, 32, 128, 512)),
    Family("int8_linear_wide_128", int8_linear, _int8_linear(128, 768, 3072)),
    Family("dynamic_int8_linear_128", dynamic_int8_linear, _dynamic_int8_linear(128, 1024, 1024)),
    Family("linear_softmax_128", linear_softmax, _linear(128, 512, 1024)),
    Family("linear_row_maximum_128", linear_row_maximum, _linear(128, 512, 1024)),
    Family("small_mlp_512", small_mlp, _small_mlp_inputs),
    Family("linear_cross_entropy", linear_cross_entropy, _labels_inputs),
    Family("expert_combine_128", expert_combine, _expert_inputs),
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
    Family("attention_sink_512", attention_sink, _heads_with(512, 12)),
    Family("attention_relative_512", attention_relative, _heads_with(512, 12, 1023)),
    Family("attention_documents_512", attention_documents, _document_inputs),
    Family("attention_grouped_512", attention_grouped, _grouped_inputs),
    Family("attention_cross_1024", attention, _cross_inputs),
    Family("chunked_linear_attention_512", chunked_linear_attention, _heads(512)),
    Family("attention_gradients_512", attention_gradients, _heads_with(512, 1, 12, 512, 64)),
    Family("causal_gradients_512", causal_attention_gradients, _heads_with(512, 1, 12, 512, 64)),
    Family("attention_decode_2048", attention, _decode_inputs),
)
