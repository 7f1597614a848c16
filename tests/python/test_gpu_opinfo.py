"""PyTorch's own samples (OpInfo) of every operator in the import table, values and gradients, in graphs on a GPU.

Kernels run in the model of a GPU (host_gpu.py). An operator that no kernel computes runs with ATen's, and nobody warns.
`make test` runs a sample of every operator in its first dtype or in another one, in turns; `make test-gpu-full` all
dtypes and more samples. `tests/gpu_device/test_opinfo.py` is the same on a device.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import host_gpu
import pytest
import torch
from opinfo_checks import cases, check_samples
from tilefuse.errors import TileFuseWarning

SAMPLES = int(os.environ.get("TILEFUSE_OPINFO_SAMPLES", "1"))  # of each operator and dtype, spread over all


@pytest.fixture
def engine() -> Iterator[Callable[..., Any]]:
    driver = host_gpu.Driver.of_an_a100()
    with driver.memory(), warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        yield host_gpu.on_gpu
    assert driver.faults() == []


@pytest.mark.parametrize(("op", "dtype"), list(cases(quick_dtypes=1)))
def test_samples(engine: Callable[..., Any], op: Any, dtype: torch.dtype) -> None:
    check_samples(engine, op, dtype, SAMPLES)
