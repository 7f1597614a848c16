"""Attention written by hand in plain PyTorch: one region each, whose memory does not grow with queries times keys."""

import math

import pytest
import tilefuse
import torch
import torch.nn.functional as F
from numeric import assert_close, to_double
from processors import FIXED_TARGET

OWN = {"products": "own", "strict": True}
INFINITY = float("inf")
HEADS, LENGTH, WIDTH = 4, 390, 32


def scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def full(q, k, v):
    return torch.softmax(scores(q, k), -1) @ v


def distance(s):
    """Key minus query; the last query sees the last key."""
    queries, keys = s.shape[-2:]
    return torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)


def causal_fill(q, k, v):
    s = scores(q, k)
    return torch.softmax(s.masked_fill(distance(s) > 0, -INFINITY), -1) @ v


def causal_where(q, k, v):
    s = scores(q, k)
    return torch.softmax(torch.where(distance(s) <= 0, s, -INFINITY), -1) @ v


def causal_tril(q, k, v):
    s = scores(q, k)
    mask = torch.tril(torch.ones(s.shape[-2:], dtype=torch.bool))
    return torch.softmax(s.masked_fill(~mask, -INFINITY), -1) @ v


def causal_triu(q, k, v):
    s = scores(q, k)
    return torch.softmax(s + torch.triu(torch.full_like(s, -INFINITY), 1), -1) @ v


def window(q, k, v):
    s = scores(q, k)
    far = distance(s)
    return torch.softmax(s.masked_fill((far > 0) | (far <= -64), -INFINITY), -1) @ v


def biased(q, k, v, bias):
    return torch.softmax(scores(q, k) + bias, -1) @ v


def alibi(q, k, v, slopes):
    s = scores(q, k)
    return torch.softmax(s + slopes[:, None, None] * distance(s), -1) @ v


def soft_capped(q, k, v):
    return torch.softmax(30 * torch.tanh(scores(q, k) / 30), -1) @ v


def sink(q, k, v, extra):  # a logit that every query has, and no value
    s = scores(q, k)
    extra = extra[:, None, None]
    peak = torch.maximum(s.amax(-1, keepdim=True), extra)
    weights = torch.exp(s - peak)
    return (weights / (weights.sum(-1, keepdim=True) + torch.exp(extra - peak))) @ v


def sink_behind_scores(q, k, v, extra):  # the same as models write it: a column more, and left out again
    s = scores(q, k)
    column = extra[None, :, None, None].expand(*s.shape[:-1], 1)
    s = torch.cat((s, column), -1)
    s = s - s.max(-1, keepdim=True).values
    return torch.softmax(s, -1)[..., :-1] @ v


def expanded(t):
    batch, heads, length, width = t.shape
    return t[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, 2 * heads, length, width)


def grouped_expand(q, k, v):
    return full(q, expanded(k), expanded(v))


def grouped_repeat(q, k, v):
    return full(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))


def transformers_eager(q, k, v, mask):
    """As the library writes it: q, k and v as [batch, length, heads * width]."""

    def heads(t):
        return t.view(t.shape[0], t.shape[1], -1, WIDTH).transpose(1, 2)

    q, k, v = heads(q), heads(k), heads(v)
    weights = torch.matmul(q, expanded(k).transpose(2, 3)) * WIDTH**-0.5
    weights = weights + mask
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    weights = F.dropout(weights, p=0.0, training=False)
    result = torch.matmul(weights, expanded(v)).transpose(1, 2).contiguous()
    return result.reshape(*result.shape[:2], -1)


def qkv(queries=LENGTH, keys=LENGTH, heads=HEADS, key_heads=HEADS):
    return torch.randn(2, heads, queries, WIDTH), *(torch.randn(2, key_heads, keys, WIDTH) for _ in "kv")


VARIANTS = {
    "full": (full, qkv),
    "causal_fill": (causal_fill, qkv),
    "causal_where": (causal_where, qkv),
    "causal_tril": (causal_tril, qkv),
    "causal_triu": (causal_triu, qkv),
    "window": (window, qkv),
    "bias": (biased, lambda: (*qkv(), torch.randn(HEADS, LENGTH, LENGTH))),
    "alibi": (alibi, lambda: (*qkv(), torch.rand(HEADS))),
    "alibi_that_leaves_subnormals": (alibi, lambda: (*qkv(), torch.tensor([0.2, 0.24, 0.5, 4.0]))),
    "soft_cap": (soft_capped, qkv),
    "sink": (sink, lambda: (*qkv(), torch.randn(HEADS))),
    "sink_behind_scores": (sink_behind_scores, lambda: (*qkv(), torch.randn(HEADS))),
    "grouped_expand": (grouped_expand, lambda: qkv(key_heads=2)),
    "grouped_repeat": (grouped_repeat, lambda: qkv(key_heads=2)),
    "cross": (full, lambda: qkv(keys=517)),
    "decode": (full, lambda: qkv(queries=1, keys=2000)),
    "transformers": (
        transformers_eager,
        lambda: (
            *(torch.randn(2, LENGTH, heads * WIDTH) for heads in (HEADS, 2, 2)),
            torch.full((LENGTH, LENGTH), torch.finfo(torch.bfloat16).min).triu(1)[None, None],
        ),
    ),
}


def graph_of(function, *inputs, **options):
    with torch.no_grad():
        return tilefuse.explain(function, *inputs, options={"target": FIXED_TARGET, **OWN, **options}).json()["graphs"][0]


def check(function, *inputs, **options):
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options={**OWN, **options})(*inputs)
        assert_close(got, function(*inputs), function(*to_double(inputs)), function.__name__)


# In bf16, values of shared heads are widened in a region of their own, and a single query gains nothing.
APART = {"grouped_expand", "grouped_repeat", "decode"}
CASES = [(v, torch.float32) for v in VARIANTS] + [(v, torch.bfloat16) for v in VARIANTS if v not in APART]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("variant", "dtype"), CASES)
def test_is_one_region_and_computes_what_eager_does(variant, dtype):
    function, make = VARIANTS[variant]
    inputs = [t.to(dtype) for t in make()]
    graph = graph_of(function, *inputs)
    assert len(graph["regions"]) == 1 and not graph["unfused_edges"], graph["unfused_edges"]
    assert "arena 0 bytes" in graph["executable"]
    check(function, *inputs)


@pytest.mark.parametrize("variant", sorted(APART))
def test_computes_what_eager_does_in_several_regions(variant):
    function, make = VARIANTS[variant]
    check(function, *(t.to(torch.bfloat16) for t in make()))


@pytest.mark.parametrize("variant", ["causal_fill", "causal_tril", "causal_triu", "window"])
def test_blocks_that_are_masked_are_left_out(variant):
    function, make = VARIANTS[variant]
    assert "\n  live " in graph_of(function, *make())["regions"][0]["schedule"]


def allocated(run, *inputs):
    with torch.no_grad(), torch.profiler.profile(profile_memory=True) as profile:
        run(*inputs)
    return sum(max(0, event.self_cpu_memory_usage) for event in profile.events())


def test_memory_does_not_grow_with_queries_times_keys():
    for length in (300, 900):
        inputs = qkv(length, length)
        run = torch.compile(full, backend="tilefuse", options=OWN, dynamic=False)
        allocated(run, *inputs)
        scores_bytes, output_bytes = 2 * HEADS * length * length * 4, 2 * HEADS * length * WIDTH * 4
        assert allocated(run, *inputs) < 2 * output_bytes
        assert allocated(full, *inputs) > scores_bytes  # eager's, to know that the profiler looks


def masked_rows(q, k, v, mask):
    return torch.softmax(scores(q, k).masked_fill(mask, -INFINITY), -1) @ v


def test_queries_without_keys_are_what_eager_makes_of_them():
    mask = distance(torch.empty(LENGTH, LENGTH)) > 0
    mask[7] = True
    check(masked_rows, *qkv(), mask)
    short = qkv(LENGTH, 300)  # the first queries see no key at all
    check(causal_fill, *short)


@pytest.mark.parametrize("sizes", [(1, 1), (17, 390), (390, 17), (64, 64), (129, 257)])
@pytest.mark.parametrize("variant", ["causal_fill", "causal_tril", "window", "full"])
def test_ragged_sizes(variant, sizes):
    check(VARIANTS[variant][0], *qkv(*sizes))


def attended(q, k, v, mask=None, **given):
    return F.scaled_dot_product_attention(q, k, v, mask, **given)


def heads_last(length):
    return torch.randn(2, length, HEADS, WIDTH).transpose(1, 2)


def mask_of(*shape):
    mask = torch.rand(*shape) > 0.3
    mask[..., 0] = True
    return mask


TRAINED = {
    "full": lambda: ((*(torch.randn(2, HEADS, LENGTH, WIDTH) for _ in range(3)),), {}),
    "causal": lambda: ((*(torch.randn(2, HEADS, LENGTH, WIDTH) for _ in range(3)),), {"is_causal": True}),
    "scaled": lambda: ((*(torch.randn(1, HEADS, 64, WIDTH) for _ in range(3)),), {"scale": 0.3}),
    "heads_last": lambda: ((*(heads_last(129) for _ in range(3)),), {"is_causal": True}),
    "cross": lambda: ((torch.randn(1, HEADS, 37, WIDTH), *(torch.randn(1, HEADS, 150, WIDTH) for _ in range(2))), {}),
    "mask": lambda: ((*(torch.randn(2, HEADS, 70, WIDTH) for _ in range(3)), mask_of(2, 1, 70, 70)), {}),
    "bias": lambda: ((*(torch.randn(2, HEADS, 70, WIDTH) for _ in range(3)), torch.randn(70, 70)), {}),
    "short": lambda: ((*(torch.randn(1, 2, 3, 8) for _ in range(3)),), {"is_causal": True}),
}


def gradients(run, inputs, change, **given):
    leaves = [t.detach().clone().requires_grad_() for t in inputs[:3]]
    result = run(*leaves, *inputs[3:], **given)
    return (result.detach(), *torch.autograd.grad(result, leaves, change))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("variant", TRAINED)
def test_gradients_are_two_kernels_and_what_eager_computes(variant, dtype):
    inputs, given = TRAINED[variant]()
    inputs = tuple(t.to(dtype) if t.is_floating_point() else t for t in inputs)
    change = torch.randn(inputs[0].shape).to(dtype)
    run = torch.compile(attended, backend="tilefuse", dynamic=False, options=OWN)
    exact = gradients(attended, to_double(inputs), change.double(), **given)
    assert_close(gradients(run, inputs, change, **given), gradients(attended, inputs, change, **given), exact, variant)
    leaves = [t.detach().requires_grad_() for t in inputs[:3]]
    backward = tilefuse.explain(attended, *leaves, *inputs[3:], options=OWN, **given).json()["graphs"][1]
    assert len(backward["regions"]) == 2 and not backward["unfused_edges"]
    assert "framework" not in backward["executable"]


def test_gradients_of_queries_without_keys_are_zero():
    inputs = (*(torch.randn(1, 2, 40, WIDTH) for _ in range(3)), mask_of(1, 1, 40, 40))
    inputs[3][..., 7, :] = False
    run = torch.compile(attended, backend="tilefuse", dynamic=False, options=OWN)
    of_query = gradients(run, inputs, torch.randn(1, 2, 40, WIDTH))[1]
    assert torch.equal(of_query[:, :, 7], torch.zeros(1, 2, WIDTH))


def test_gradients_of_heads_that_several_share_stay_with_the_library():
    inputs = (torch.randn(1, 4, 40, WIDTH), *(torch.randn(1, 2, 40, WIDTH) for _ in range(2)))
    given = {"enable_gqa": True, "is_causal": True}
    change = torch.randn(1, 4, 40, WIDTH)
    run = torch.compile(attended, backend="tilefuse", dynamic=False, options={"products": "own"})
    exact = gradients(attended, to_double(inputs), change.double(), **given)
    assert_close(gradients(run, inputs, change, **given), gradients(attended, inputs, change, **given), exact, "shared heads")


def test_gradients_at_lengths_of_the_call():
    run = torch.compile(attended, backend="tilefuse", dynamic=True, options={"products": "own"})
    for length in (40, 77, 128):
        inputs = tuple(torch.randn(1, HEADS, length, WIDTH) for _ in range(3))
        change = torch.randn(1, HEADS, length, WIDTH)
        exact = gradients(attended, to_double(inputs), change.double(), is_causal=True)
        eager = gradients(attended, inputs, change, is_causal=True)
        assert_close(gradients(run, inputs, change, is_causal=True), eager, exact, f"length {length}")
