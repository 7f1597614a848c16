"""The memory-bound cases of the benchmark, and training steps of small models, on CUDA tensors beside eager."""

from __future__ import annotations

import pathlib
import sys

import pytest
import torch
import torch.nn.functional as F
from on_device import assert_as_near_as_eager, assert_same, kernels_of

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
from gpu_timing import on_gpu  # noqa: E402
from memory_cases import DTYPES, FAMILIES  # noqa: E402


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_memory_bound_cases(family, dtype):
    inputs = on_gpu(family, family.inputs(False, DTYPES[dtype]))
    with torch.no_grad():
        got, kernels = kernels_of(family.function, inputs)
        assert kernels > 0
        assert_as_near_as_eager(got, family.function, inputs)


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 129), (17, 4097), (70000, 8), (0, 16), (5, 0)])
def test_ragged_sizes(rows, columns):
    x = torch.randn(rows, columns, device="cuda")
    function = lambda x: (F.gelu(x) * 2, x.sum(0), torch.softmax(x, 0))  # noqa: E731
    with torch.no_grad():
        assert_same(kernels_of(function, [x])[0], function(x))


@pytest.mark.parametrize(
    "function",
    [lambda x: x.double().sin(), lambda x: (x.sum(0), x.sum(1))],
    ids=["sine_of_f64", "two_axes"],
)
def test_what_has_no_kernel_runs_with_atens_operators(function):
    x = torch.randn(30, 50, device="cuda")
    with torch.no_grad():
        assert_same(torch.compile(function, backend="tilefuse")(x), function(x))


@pytest.mark.parametrize("rows, columns", [(1, 70000), (37, 999), (500, 64), (70000, 5)])
def test_positions_and_running_sums(rows, columns):
    x = torch.randn(rows, columns, device="cuda")
    x[0, columns // 2] = float("nan")
    functions = [
        lambda x: torch.max(x, 1),
        lambda x: torch.min(x, 0),
        lambda x: (x * 2).argmax(),
        lambda x: torch.softmax(x, 1).cumsum(1),
        lambda x: x.long().cumsum(0),
        lambda x: x.flip(1).cumsum(1).flip(1),
    ]
    with torch.no_grad():
        for function in functions:
            assert_same(kernels_of(function, [x])[0], function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.softmax(x.double() * 2, 1),
        lambda x: x.double().exp().sum(0),
        lambda x: torch.sin(x * 1e6) ** 3 + torch.cos(x) * torch.tan(x / 4),
        lambda x: torch.fmod(x, 0.3) + torch.remainder(x, -0.7) + torch.floor_divide(x, 0.2),
        lambda x: torch.atan2(x, x.exp()) + torch.expm1(x) * torch.log1p(x.abs()) + x.abs() ** 1.7,
        lambda x: (x * 100).long() // 7 + (x * 100).long() % 5 + ((x * 100).int() << 2),
    ],
    ids=["softmax_of_f64", "sum_of_f64", "angles", "rests", "powers", "integers"],
)
def test_functions_and_f64(function):
    x = torch.randn(30, 50, device="cuda")
    with torch.no_grad():
        got, kernels = kernels_of(function, [x])
        assert kernels > 0
        torch.testing.assert_close(got, function(x), rtol=1e-5, atol=1e-5)


def _block(width: int) -> torch.nn.Module:
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, activation="gelu", dropout=0.0)
    return layer.cuda()


def test_a_training_step_of_a_transformer_block():
    model, x = _block(64), torch.randn(4, 33, 64, device="cuda")
    eager = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in eager.values():
        p.requires_grad_()
    want = torch.func.functional_call(model, eager, (x,)).square().mean()
    got = torch.compile(model, backend="tilefuse")(x).square().mean()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    got.backward()
    want.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, eager[name].grad, rtol=1e-3, atol=1e-4)


def test_dynamic_sizes_compile_once():
    compiles = []
    function = lambda x: torch.softmax(x, -1) * x.shape[0]  # noqa: E731

    def counted(module, inputs):
        compiles.append(module)
        return torch._dynamo.lookup_backend("tilefuse")(module, inputs)

    with torch.no_grad():
        compiled = torch.compile(function, backend=counted, dynamic=True)
        for rows, columns in [(3, 20), (700, 333), (2, 5000)]:
            x = torch.randn(rows, columns, device="cuda")
            assert_same(compiled(x), function(x))
    assert len(compiles) == 1


def test_autocast():
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).cuda(), torch.randn(8, 64, device="cuda")
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        assert_same(torch.compile(model, backend="tilefuse")(x), model(x))


def test_numbers_on_the_cpu():
    x, by = torch.randn(40, device="cuda"), torch.tensor(3.0)
    function = lambda x, by: (x * by + torch.tensor(2.0)).exp()  # noqa: E731
    with torch.no_grad():
        assert_same(torch.compile(function, backend="tilefuse")(x, by), function(x, by))
