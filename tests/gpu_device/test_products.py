"""Products on tensor cores beside eager, by every instruction that the device has. Elements are small whole numbers,
whose sums are exact: results are the same to the last bit."""

from __future__ import annotations

import pytest
import torch
from on_device import kernels_of

SHAPES = [(512, 768, 1024), (1000, 520, 264), (136, 72, 40), (4096, 4096, 512)]
HAS_WARPGROUPS = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def _whole_numbers(rows: int, columns: int, is_turned: bool, dtype: torch.dtype) -> torch.Tensor:
    shape = (columns, rows) if is_turned else (rows, columns)
    made = torch.randint(-2, 3, shape, device="cuda").to(dtype)
    return made.t() if is_turned else made


@pytest.mark.parametrize("instruction", ["mma.sync", "wgmma"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("first_turned", [False, True])
@pytest.mark.parametrize("second_turned", [False, True])
@pytest.mark.parametrize("m, n, k", SHAPES)
def test_products(m, n, k, first_turned, second_turned, dtype, instruction):
    if instruction == "wgmma" and not HAS_WARPGROUPS:
        pytest.skip("SKIPPED, only an sm_90a device has wgmma")
    x, w = _whole_numbers(m, k, first_turned, dtype), _whole_numbers(k, n, second_turned, dtype)
    pins = {"mm_relu": {"multiply": instruction, "parts": "1"}}
    with torch.no_grad():
        got, kernels = kernels_of(lambda x, w: torch.relu(x @ w), [x, w], products="own", pins=pins)
        assert kernels == 1
        torch.testing.assert_close(got, torch.relu((x.float() @ w.float()).to(dtype)), rtol=0, atol=0)


def _linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.float() @ w.float().t())


def _linear_of_bytes(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch._int_mm(x, w.t()))


NUMBERS = {  # what is compiled, the name of its region, the factors
    "tf32": (_linear, "mm_relu", torch.float32, torch.float32),
    "tf32x3": (_linear, "mm_relu", torch.float32, torch.float32),
    "int8": (_linear_of_bytes, "int_mm_relu", torch.int8, torch.int8),
    "float8": (_linear, "mm_relu", torch.float8_e4m3fn, torch.float8_e5m2),
}


@pytest.mark.parametrize("how", ["mma.sync", "wgmma,async", "wgmma,bulk"])
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("m, n, k", [(512, 768, 1024), (1000, 520, 272), (136, 72, 48)])
def test_products_of_other_numbers(m, n, k, numbers, how):
    if "wgmma" in how and not HAS_WARPGROUPS:
        pytest.skip("SKIPPED, only an sm_90a device has wgmma")
    if numbers == "float8" and torch.cuda.get_device_capability() not in [(9, 0), (10, 0)]:
        pytest.skip("SKIPPED, other devices widen floats of eight bits")
    if numbers == "tf32x3" and how == "wgmma,bulk":
        pytest.skip("SKIPPED, floats are taken apart by the threads that copy them")
    function, region, first, second = NUMBERS[numbers]
    x, w = _whole_numbers(m, k, False, first), _whole_numbers(n, k, False, second)
    instruction, _, copies = how.partition(",")
    pins = {"multiply": instruction, "numbers": numbers, "parts": "1"} | ({"copies": copies} if copies else {})
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        with torch.no_grad():
            got, kernels = kernels_of(function, [x, w], products="own", pins={region: pins})
    finally:
        matmul.fp32_precision = before
    assert kernels == 1
    want = torch.relu(x.double() @ w.double().t())
    torch.testing.assert_close(got.double(), want, rtol=0, atol=0)
