"""Random programs as eager computes them: values and gradients, by kernels of the processor and in the model of a GPU."""

from __future__ import annotations

import os
import warnings

import host_gpu
import pytest
import torch
from engine import engine
from numeric import assert_close, exact_or_eager
from random_programs import random_program
from tilefuse.errors import TileFuseWarning

SEEDS = int(os.environ.get("TILEFUSE_PROGRAMS", "24"))
DTYPES = (torch.float32, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_values_on_the_processor(seed):
    program, dtype = random_program(seed), DTYPES[seed % 3]
    inputs = program.inputs(dtype)
    with torch.no_grad():
        assert_close(engine(program)(*inputs), program(*inputs), exact_or_eager(program, inputs), str(program))


@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_gradients_on_the_processor(seed):
    program = random_program(1000 + seed)
    eager, exact = program.gradients(program), program.gradients(program, torch.float64)
    assert_close(program.gradients(engine(program)), eager, exact, str(program))


@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_values_in_the_model_of_a_gpu(seed):
    driver = host_gpu.Driver.of_an_a100()
    program, dtype = random_program(2000 + seed), DTYPES[seed % 3]
    with driver.memory(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        inputs = program.inputs(dtype)
        got = host_gpu.on_gpu(program)(*inputs)
    assert driver.faults() == []
    with torch.no_grad():
        assert_close(got, program(*inputs), exact_or_eager(program, inputs), str(program))
