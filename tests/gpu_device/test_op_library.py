"""The ready operators on CUDA tensors: values and gradients beside eager, a patched model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from on_device import TOLERANCE, assert_as_near_as_eager, assert_same
from op_cases import CASES, call, plain
from tilefuse import ops

# No operator may fall back to its plain function.
pytestmark = pytest.mark.filterwarnings("error::tilefuse.errors.TileFuseWarning")


def _moved(arguments: tuple[Any, ...], history: bool = False) -> list[Any]:
    """The arguments on the GPU; floats among them with history where that is wanted."""
    moved = [a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments]
    is_float = lambda a: isinstance(a, torch.Tensor) and a.is_floating_point()  # noqa: E731
    return [a.detach().requires_grad_() if history and is_float(a) else a for a in moved]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_ready_operators(name, dtype):
    with torch.no_grad():
        for n in (13, 1, 500):
            arguments = _moved(CASES[name].make(n, dtype))
            assert_as_near_as_eager(call(name)(*arguments), plain(name), arguments)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.differentiable])
def test_gradients_of_ready_operators(name):
    given = _moved(CASES[name].make(40, torch.float32), history=True)
    leaves = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
    total = lambda made: sum((y * 0.5).cos().sum() for y in (made if isinstance(made, tuple) else (made,)))  # noqa: E731
    made, wanted = (torch.autograd.grad(total(f(name)(*given)), leaves) for f in (call, plain))
    torch.testing.assert_close(made, wanted, **TOLERANCE[torch.float32])


def test_a_patched_model():
    model = torch.nn.Sequential(torch.nn.LayerNorm(64), torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)).cuda()
    x = torch.randn(30, 64, device="cuda")
    with torch.no_grad():
        wanted = model(x)
        with ops.patch(model) as patched:
            assert len(patched.swapped) == 2
            assert_same(model(x), wanted)
