"""Products on a GPU: TileFuse's own kernels beside eager (cuBLAS) and Inductor, default and autotuned, in turns.

    python benchmarks/gpu_contract.py                          all cases, in under 10 minutes
    python benchmarks/gpu_contract.py --only matmul_4096,mlp_up
    python benchmarks/gpu_contract.py --table FILE             the table of an earlier run

Squares of 4096 to 8192, and linear layers of transformers with a bias, an activation, or what is added to their results.
Numbers are random: zeros would draw less power. What the columns mean: gpu_rates.py.
"""

from __future__ import annotations

from collections.abc import Callable

import gpu_rates
import torch
import torch.nn.functional as F
from gpu_rates import RateCase, Tensors

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def matmul(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def linear_bias(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w, b)


def linear_gelu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.linear(x, w, b))


def linear_relu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(F.linear(x, w, b))


def linear_residual(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w) + r


def linear_gate(x: torch.Tensor, w: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w) * F.silu(gate)


def _inputs(dtype: torch.dtype, m: int, n: int, k: int, weight: str, beside: str) -> Callable[[str], Tensors]:
    """m x k, the weight as rows ("nk") or as columns ("kn"), and a bias of n ("row") or m x n ("matrix")."""

    def made(device: str) -> Tensors:
        x = torch.randn(m, k, device=device, dtype=dtype)
        w = torch.randn((n, k) if weight == "nk" else (k, n), device=device, dtype=dtype) * k**-0.5
        more = {"": [], "row": [(n,)], "matrix": [(m, n)]}[beside]
        return [x, w, *(torch.randn(shape, device=device, dtype=dtype) for shape in more)]

    return made


def product_case(name: str, dtype: str, function: Callable[..., torch.Tensor], m: int, n: int, k: int,
                 beside: str = "", weight: str = "nk") -> RateCase:  # fmt: skip
    """Results are compared in their first rows."""
    rows = min(m, 256)
    of_rows = [0] + ([2] if beside == "matrix" else [])  # inputs that have the rows of the result
    return RateCase(
        name=name,
        dtype=dtype,
        flops=2.0 * m * n * k,
        function=function,
        inputs=_inputs(DTYPES[dtype], m, n, k, weight, beside),
        part=lambda inputs: [value[:rows] if i in of_rows else value for i, value in enumerate(inputs)],
        part_of_result=lambda result: result[:rows],
    )


def _square(size: int, dtype: str) -> RateCase:
    return product_case(f"matmul_{size}", dtype, matmul, size, size, size, weight="kn")


def cases() -> list[RateCase]:
    """The most telling ones first: the last ones are left out where time is short."""
    return [
        _square(4096, "bf16"),
        _square(8192, "bf16"),
        product_case("mlp_up", "bf16", linear_gelu, 4096, 14336, 4096, "row"),
        product_case("mlp_down", "bf16", linear_residual, 4096, 4096, 14336, "matrix"),
        product_case("attention_out", "bf16", linear_residual, 8192, 2048, 2048, "matrix"),
        product_case("qkv", "bf16", linear_bias, 8192, 6144, 2048, "row"),
        product_case("gate", "bf16", linear_gate, 4096, 14336, 4096, "matrix"),
        product_case("few_tokens", "bf16", linear_bias, 256, 4096, 4096, "row"),
        _square(4096, "f16"),
        _square(6144, "bf16"),
        product_case("relu_of_odd_columns", "bf16", linear_relu, 4096, 5000, 1024, "row"),
        _square(8192, "f16"),
        _square(6144, "f16"),
    ]


if __name__ == "__main__":
    gpu_rates.main(cases(), "gpu_contract.py", "contract", __doc__)
