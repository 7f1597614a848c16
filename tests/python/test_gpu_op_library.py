"""The ready operators on a GPU, by the model of one (host_gpu.py): values, gradients, patched models."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import host_gpu
import pytest
import torch
from numeric import assert_close, exact_or_eager
from op_cases import CASES, call, plain
from tilefuse import ops
from tilefuse.custom_op import _defined
from tilefuse.library import operators
from tilefuse.options import Options


@pytest.fixture
def driver() -> Iterator[host_gpu.Driver]:
    with host_gpu.an_a100(refuses_warnings=True) as found:
        yield found


@contextlib.contextmanager
def _on_gpu(name: str) -> Iterator[None]:
    """The ready operator, strict, with kernels that run in the model of a GPU."""
    definition = _defined[f"tilefuse::{name}"]
    settings, definition.settings = definition.settings, Options.parse(options=host_gpu.options(strict=True))
    for each in (definition.name, f"{definition.name}_backward"):
        operators().forget_op(each)
    try:
        yield
    finally:
        definition.settings = settings
        for each in (definition.name, f"{definition.name}_backward"):
            operators().forget_op(each)


def _with_history(arguments: tuple[Any, ...]) -> list[Any]:
    is_float = lambda a: isinstance(a, torch.Tensor) and a.is_floating_point()  # noqa: E731
    return [a.detach().clone().requires_grad_() if is_float(a) else a for a in arguments]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_ready_operators(driver, name, dtype):
    with _on_gpu(name), torch.no_grad():
        for n in (13, 1, 40):
            arguments = CASES[name].make(n, dtype)
            got = call(name)(*arguments)
            assert driver.launches() > 0
            assert_close(got, plain(name)(*arguments), exact_or_eager(plain(name), arguments), f"{name}, {n}")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.differentiable])
def test_gradients_of_ready_operators(driver, name):
    with _on_gpu(name):
        given = _with_history(CASES[name].make(13, torch.float32))
        leaves = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
        total = lambda made: sum((y * 0.5).cos().sum() for y in (made if isinstance(made, tuple) else (made,)))  # noqa: E731
        wanted = torch.autograd.grad(total(plain(name)(*given)), leaves)
        made = total(call(name)(*given))
        driver.calls()
        torch.testing.assert_close(torch.autograd.grad(made, leaves), wanted, rtol=1e-4, atol=1e-4)
        assert driver.launches() > 0 or name == "sum"  # the gradient of a sum is copied


def test_a_patched_model(driver):
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.randn(48)), 1e-6

        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight

    model, x = torch.nn.Sequential(Norm(), torch.nn.LayerNorm(48)), torch.randn(7, 48)
    with torch.no_grad(), _on_gpu("rms_norm"), _on_gpu("layer_norm"):
        wanted = model(x)
        with ops.patch(model) as patched:
            assert len(patched.swapped) == 2
            driver.calls()
            torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-5)
            assert driver.launches() >= 2
