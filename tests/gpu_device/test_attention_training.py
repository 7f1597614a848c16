"""Training with attention on CUDA tensors: our forward pass stores the logarithms of its sums, and gradients made of those, by torch's
kernels and by ours, are as near to doubles as eager's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from numeric import assert_close
from on_device import kernels_of
from tilefuse import Report
from tilefuse.backend import collect_graphs
from torch.nn.attention import SDPBackend, sdpa_kernel

aten = torch.ops.aten
WIDTHS = [64, 128]
LENGTHS = [256, 1000]


def _inputs(length: int, width: int, dtype: torch.dtype, shared: int = 1) -> list[torch.Tensor]:
    heads = [4, 4 // shared, 4 // shared]
    return [torch.randn(2, count, length, width, device="cuda").to(dtype) for count in heads]


def _exact(causal: bool) -> Callable[..., torch.Tensor]:
    def attention(q, k, v, bias=None):
        k, v = (value.repeat_interleave(q.shape[1] // value.shape[1], 1) for value in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if bias is not None:
            scores = scores + bias
        if causal:
            scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
        return torch.softmax(scores, -1) @ v

    return attention


def _gradients(function: Callable[..., Any], inputs: list[torch.Tensor], *rest: Any) -> list[torch.Tensor]:
    """The result, and the gradients of the inputs."""
    torch.manual_seed(1)
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    result = function(*leaves, *rest)
    result.backward(torch.randn(result.shape, device="cuda").to(result.dtype))
    return [result.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("length", LENGTHS)
def test_torchs_gradient_of_flash_attention_takes_our_logarithms(length, width, shared, causal, dtype):
    inputs = _inputs(length, width, dtype, shared)

    def forward(q, k, v):
        result, logarithms, _, _, _, _, state, unused, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
        return result, logarithms, state, unused

    with torch.no_grad():
        kept, kernels = kernels_of(forward, inputs, products="own")
    assert kernels == 1
    theirs = forward(*inputs)
    torch.testing.assert_close(kept[1], theirs[1], rtol=1e-4, atol=1e-4)

    def gradients(kept):
        result, logarithms, state, unused = kept
        change = torch.ones_like(result)
        return aten._scaled_dot_product_flash_attention_backward(
            change, *inputs, result, logarithms, None, None, length, length, 0.0, causal, state, unused
        )

    leaves = [value.double().requires_grad_() for value in inputs]
    exact = torch.autograd.grad(_exact(causal)(*leaves).sum(), leaves)
    assert_close(gradients(kept), gradients(theirs), exact, "torch's gradient")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION])
def test_a_step_by_every_kernel_of_torchs(backend, length, width, causal, dtype):
    """The gradient is ours, too, where chains compute it: of flash attention."""
    inputs = _inputs(length, width, dtype)
    attention = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
    with sdpa_kernel(backend), collect_graphs() as graphs:
        got = _gradients(torch.compile(attention, backend="tilefuse", options={"products": "own"}), inputs)
        eager = _gradients(attention, inputs)
    forward = str(Report([graph for graph in graphs if graph.role == "forward"]))
    is_ours = backend != SDPBackend.EFFICIENT_ATTENTION or length % 32 == 0
    assert ("  chain    %" in forward) == is_ours
    exact = _gradients(_exact(causal), [value.double() for value in inputs])
    assert_close(got, eager, exact, str(backend))


@pytest.mark.parametrize("width", WIDTHS)
def test_torchs_gradient_of_queries_that_see_no_key(width):
    inputs = _inputs(256, width, torch.bfloat16)
    bias = torch.randn(2, 4, 256, 256, device="cuda").bfloat16()
    bias[:, :, ::7] = -math.inf

    def forward(q, k, v, bias):
        return aten._scaled_dot_product_efficient_attention(q, k, v, bias, True)

    with torch.no_grad():
        kept, kernels = kernels_of(forward, [*inputs, bias], products="own")
        theirs = forward(*inputs, bias)
    assert kernels == 1
    result, logarithms, *_ = kept
    assert (logarithms[:, :, ::7] == 0).all() and (result[:, :, ::7] == 0).all()
    seen = torch.arange(256, device="cuda") % 7 != 0
    torch.testing.assert_close(logarithms[:, :, seen], theirs[1][:, :, seen], rtol=1e-4, atol=1e-4)

    def gradients(kept):
        change, wanted = torch.ones_like(kept[0]), [True, True, True, False]
        return aten._scaled_dot_product_efficient_attention_backward(change, *inputs, bias, *kept, 0.0, wanted)[:3]

    leaves = [value.double().requires_grad_() for value in inputs]
    result = _exact(False)(*leaves, bias.double().masked_fill(~seen[:, None], 0.0))
    exact = torch.autograd.grad(result[:, :, seen].sum(), leaves)
    assert_close(gradients(kept), gradients(theirs), exact, "torch's gradient")
