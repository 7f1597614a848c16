"""PyTorch's own samples (OpInfo) of every operator in the import table, values and gradients, on CUDA tensors.

An operator that no kernel computes runs with ATen's, and nobody warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from engine import engine as strict_engine
from opinfo_checks import cases, check_samples
from tilefuse.errors import TileFuseWarning

SAMPLES = 2  # of each operator and dtype, spread over all
# What cannot be compared, by operator or by operator and dtype: what torch itself does on a GPU.
NOT_COMPARED = {
    "_softmax_backward_data": "eager refuses its own sample: expected scalar type Float but found Half",
    "index_fill": "fake tensors have another number of unique places than real ones, which the gradient is made of",
    ("nn.functional.hardsigmoid", torch.float64): "eager rounds its sixth to f32",
}


@pytest.fixture
def engine() -> Iterator[Callable[..., Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        yield lambda function: strict_engine(function, strict=False)


@pytest.mark.parametrize(("op", "dtype"), list(cases("cuda", slow=False)))
def test_samples(engine: Callable[..., Any], op: Any, dtype: torch.dtype) -> None:
    if reason := NOT_COMPARED.get(op.name) or NOT_COMPARED.get((op.name, dtype)):
        pytest.skip(f"SKIPPED, {op.name} is not compared: {reason}")
    check_samples(engine, op, dtype, SAMPLES, "cuda")
