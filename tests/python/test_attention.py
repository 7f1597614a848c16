"""Attention written by hand in plain PyTorch: one region each, whose memory does not grow with queries times keys."""

import math

import pytest
import tilefuse
import torch
from numeric import assert_close, to_double

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
    return torch.softmax(s + torch.triu(torch.full(s.shape[-2:], -INFINITY), 1), -1) @ v


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


def expanded(t):
    batch, heads, length, width = t.shape
    return t[:, :, None].expand(batch, heads, 2, length, width).reshape(batch, 2 * heads, length, width)


def grouped_expand(q, k, v):
    return full(q, expanded(k), expanded(v))


def grouped_repeat(q, k, v):
    return full(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))


def qkv(queries=LENGTH, keys=LENGTH, heads=HEADS, key_heads=HEADS):
    return torch.randn(2, heads, queries, WIDTH), *(torch.randn(2, key_heads, keys, WIDTH) for _ in "kv")


VARIANTS = {
    "full": (full, qkv),
    "causal_fill": (causal_fill, qkv),
    "causal_where": (causal_where, qkv),
    "causal_tril": (causal_tril, qkv),
    "causal_triu": (causal_triu, qkv),
    "alibi": (alibi, lambda: (*qkv(), torch.rand(HEADS))),
    "soft_cap": (soft_capped, qkv),
    "sink": (sink, lambda: (*qkv(), torch.randn(HEADS))),
    "grouped_expand": (grouped_expand, lambda: qkv(key_heads=2)),
    "grouped_repeat": (grouped_repeat, lambda: qkv(key_heads=2)),
    "cross": (full, lambda: qkv(keys=517)),
}


def graph_of(function, *inputs, **options):
    with torch.no_grad():
        return tilefuse.explain(function, *inputs, options={**OWN, **options}).json()["graphs"][0]


def check(function, *inputs, **options):
    with torch.no_grad():
        got = torch.compile(function, backend="tilefuse", options={**OWN, **options})(*inputs)
        assert_close(got, function(*inputs), function(*to_double(inputs)), function.__name__)


@pytest.mark.parametrize("variant", VARIANTS)
def test_is_one_region_and_computes_what_eager_does(variant):
    function, make = VARIANTS[variant]
    inputs = make()
    graph = graph_of(function, *inputs)
    assert len(graph["regions"]) == 1 and not graph["unfused_edges"], graph["unfused_edges"]
    assert "arena 0 bytes" in graph["executable"]
    check(function, *inputs)
