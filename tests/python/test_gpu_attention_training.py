"""Training with attention on a GPU, by the model of one (host_gpu.py): the forward pass stores its output and the logarithms of
the sums beside it, in one kernel, and gradients are made of those. What torch calls on a GPU is traced on tensors of the CPU, for
which it has no kernels: that results come out shows that none was called."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import host_gpu
import pytest
import torch
import torch.nn.functional as F
from tilefuse import Report
from tilefuse.backend import collect_graphs

aten = torch.ops.aten
OPERATORS: dict[str, Callable[..., Any]] = {
    "flash": lambda q, k, v, causal, _: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal),
    "efficient": lambda q, k, v, causal, bias: aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, causal),
    "cudnn": lambda q, k, v, causal, bias: aten._scaled_dot_product_cudnn_attention(q, k, v, bias, True, 0.0, causal),
}


@pytest.fixture
def driver() -> Iterator[host_gpu.Driver]:
    with host_gpu.an_a100(refuses_warnings=True) as found:
        yield found


@dataclasses.dataclass(frozen=True)
class Case:
    operator: str
    heads: int = 2
    shared: int = 1  # so many heads have the same keys
    queries: int = 64
    keys: int = 64
    width: int = 64
    dtype: torch.dtype = torch.bfloat16
    causal: bool = False
    bias: bool = False
    capability: tuple[int, int] = (8, 0)

    def inputs(self) -> list[torch.Tensor]:
        torch.manual_seed(0)
        few = self.heads // self.shared
        shapes = [(1, self.heads, self.queries), (1, few, self.keys), (1, few, self.keys)]
        return [(2 * torch.randn(*shape, self.width)).to(self.dtype) for shape in shapes]

    def added(self) -> torch.Tensor | None:
        """Some keys are hidden, and all of them from two queries."""
        if not self.bias:
            return None
        bias = torch.randn(1, self.heads, self.queries, self.keys)
        bias[..., 3::5] = -math.inf
        bias[:, :, [0, 9]] = -math.inf
        return bias.to(self.dtype)


CASES = {
    "causal": Case("flash", causal=True),
    "causal_f16": Case("flash", causal=True, queries=50, keys=50, dtype=torch.half),
    "causal_of_128": Case("flash", causal=True, queries=70, keys=70, width=128),
    "ragged": Case("flash", queries=37, keys=83),
    "shared_heads": Case("flash", heads=4, shared=2, queries=40, keys=40, causal=True),
    "one_head_for_all": Case("flash", heads=3, shared=3, queries=40, keys=56, dtype=torch.half),
    "groups": Case("flash", causal=True, queries=128, keys=128, width=128, capability=(9, 0)),
    "groups_of_shared_heads": Case("flash", heads=4, shared=2, queries=100, keys=100, capability=(9, 0)),
    "efficient_causal": Case("efficient", causal=True, queries=64, keys=50),
    "efficient_bias": Case("efficient", bias=True, queries=96, keys=40),
    "efficient_bias_of_128": Case("efficient", bias=True, queries=32, keys=48, width=128, dtype=torch.half),
    "cudnn_ragged": Case("cudnn", causal=True, queries=45, keys=45),
    "cudnn_bias": Case("cudnn", bias=True, queries=45, keys=70),
}


def _exact(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and logarithms, in doubles. Of a query that sees no key both are 0, as torch's kernels have it."""
    q, k, v = (value.double() for value in (q, k, v))
    k, v = (value.repeat_interleave(case.shared, 1) for value in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(case.width)
    if bias is not None:
        scores = scores + bias.double()
    if case.causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    logarithms = torch.logsumexp(scores, -1)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v, torch.where(logarithms.isinf(), 0.0, logarithms)


def _set_up(driver: host_gpu.Driver, case: Case) -> None:
    driver.capability(*case.capability)
    most = (227 if case.capability == (9, 0) else 163) << 10
    driver.shared_bytes(most, most)


def _tensors(results: Any) -> tuple[torch.Tensor, ...]:
    return tuple(value for value in results if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("name", CASES)
def test_a_forward_pass_stores_the_logarithms_of_its_sums(driver, name):
    case = CASES[name]
    _set_up(driver, case)
    inputs, bias = case.inputs(), case.added()
    forward = host_gpu.on_gpu(lambda *given: _tensors(OPERATORS[case.operator](*given[:3], case.causal, *given[3:]))[:4], products="own")
    with torch.no_grad(), collect_graphs() as graphs:
        output, logarithms, *state = forward(*inputs, bias)
    assert driver.launches() == 1
    (region,) = Report(graphs).regions()
    assert "  chain    %" in region["schedule"]
    assert ("multiply wgmma" in region["schedule"]) == (case.capability == (9, 0))
    want, of_sums = _exact(case, *inputs, bias)
    rounding = {torch.bfloat16: 2e-2, torch.half: 4e-3}[case.dtype]
    torch.testing.assert_close(output.double(), want, rtol=rounding, atol=rounding)
    assert logarithms.dtype == torch.float32
    torch.testing.assert_close(logarithms.double().reshape(of_sums.shape), of_sums, rtol=1e-5, atol=1e-5)
    flash = case.operator == "flash"
    assert logarithms.shape == ((1, case.heads, case.queries, 1) if case.operator == "cudnn" else (1, case.heads, case.queries))
    assert [(value.shape, value.dtype) for value in state] == [((2,) if flash else (), torch.uint64 if flash else torch.long)] + [
        ((), torch.uint64 if flash else torch.long)
    ]


def _mathematical(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(scores, -1) @ v


STEPS: dict[str, Callable[..., Any]] = {
    "of_gpus": lambda q, k, v, causal: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0],
    "of_processors": lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [64, 45])
@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_made_of_what_our_forward_pass_leaves(driver, name, length, causal):
    inputs = [torch.randn(1, 2, length, 64).bfloat16().requires_grad_() for _ in range(3)]
    exact = [value.detach().double().requires_grad_() for value in inputs]
    change = torch.randn(1, 2, length, 64).bfloat16()
    with collect_graphs() as graphs:
        got = host_gpu.on_gpu(lambda *given: STEPS[name](*given, causal), products="own")(*inputs)
        got.backward(change)
    forward, backward = graphs
    assert "call aten::_scaled_dot_product" not in str(Report(graphs))
    assert [forward.role, backward.role] == ["forward", "backward"]
    assert len(list(Report([forward]).regions())) == 1
    want = _mathematical(*exact, causal)
    want.backward(change.double())
    torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=2e-2)
    for mine, true in zip(inputs, exact, strict=True):
        torch.testing.assert_close(mine.grad.double(), true.grad, rtol=4e-2, atol=4e-2)


def test_lengths_known_at_run_time(driver):
    def forward(inputs):
        return _tensors(OPERATORS["flash"](*inputs.unbind(), True, None))[:2]

    with torch.no_grad(), collect_graphs() as graphs:
        compiled = torch.compile(forward, backend="tilefuse", options=host_gpu.options(products="own"))
        for length in (40, 61):
            case = Case("flash", causal=True, queries=length, keys=length)
            inputs = torch.stack(case.inputs())
            torch._dynamo.mark_dynamic(inputs, 3)
            output, logarithms = compiled(inputs)
            want, of_sums = _exact(case, *inputs, None)
            torch.testing.assert_close(output.double(), want, rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(logarithms.double(), of_sums, rtol=1e-5, atol=1e-5)
    assert len(graphs) == 1
    assert driver.launches() == 2
