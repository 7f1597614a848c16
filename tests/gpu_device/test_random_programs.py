"""Random programs (tests/python/random_programs.py) on CUDA tensors as eager computes them, values and gradients."""

from __future__ import annotations

import os
import warnings

import pytest
import torch
from engine import engine
from numeric import assert_close
from random_programs import random_program
from tilefuse.errors import TileFuseWarning

SEEDS = int(os.environ.get("TILEFUSE_PROGRAMS", "60"))
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_values(seed):
    program = random_program(3000 + seed)
    inputs = program.inputs(DTYPES[seed % 4], "cuda")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", TileFuseWarning)
        got = engine(program, strict=False)(*inputs)
        # On the processor: hardswish of torch on a GPU multiplies doubles with a sixth that is rounded to f32.
        exact = [value.cuda() for value in program(*(value.cpu().double() for value in inputs))]
        assert_close(got, program(*inputs), exact, str(program))


@pytest.mark.parametrize("seed", range(SEEDS // 2))
def test_gradients(seed):
    program = random_program(4000 + seed)
    got = program.gradients(engine(program, strict=False), torch.float32, "cuda")
    eager, exact = (program.gradients(program, dtype, "cuda") for dtype in (torch.float32, torch.float64))
    assert_close(got, eager, exact, str(program))
